// SPDX-License-Identifier: Apache-2.0
//
// What wrong calls are told, and that nothing is written by them.
#include <gtest/gtest.h>

#include <string>

#include "tests/native/calls.hpp"

namespace opmux::test {
namespace {

void expect_refused(std::string_view name, const Values& values, const std::string& error,
                    OpmuxStatus status = OPMUX_INVALID_ARGUMENT) {
  EXPECT_EQ(run(name, values), status) << error;
  EXPECT_EQ(take_error(), error);
}

TEST(Arguments, GatedActivations) {
  const Type f32 = Type::kFloat32;
  TestTensor input(f32, {4, 128});
  TestTensor out(f32, {4, 64});
  TestTensor wide(f32, {4, 65});
  TestTensor flat(f32, {256});
  TestTensor half(Type::kBFloat16, {4, 64});
  TestTensor odd(f32, {4, 7});
  TestTensor integers(Type::kInt32, {4, 128});
  TestTensor scalar(f32, {});
  for (const char* name : {"silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"}) {
    expect_refused(name, {value(input), value(wide)},
                   "`out`: expected shape [4, 64], found [4, 65]");
    expect_refused(name, {value(input), value(flat)}, "`out`: expected shape [4, 64], found [256]");
    expect_refused(name, {value(input), value(half)},
                   "`out`: expected dtype float32, found bfloat16");
    expect_refused(name, {value(odd), value(out)},
                   "`input`: expected an even size of the last dimension, found 7");
    expect_refused(name, {value(integers), value(out)},
                   "`input`: expected dtype float32, float16 or bfloat16, found int32");
    expect_refused(name, {value(scalar), value(out)},
                   "`input`: expected a rank of at least 1, found 0");
    expect_refused(name, {value(input)}, "call: expected 2 arguments, found 1");
    expect_refused(name, {none(), value(out)}, "`input`: expected a tensor, found None");
    expect_refused(name, {value(input), value(1.5)}, "`out`: expected a tensor, found a float");
  }
  EXPECT_TRUE(out.untouched());
  EXPECT_TRUE(wide.untouched());
  EXPECT_TRUE(flat.untouched());
  EXPECT_TRUE(half.untouched());
}

TEST(Arguments, TensorsThemselves) {
  TestTensor out(Type::kFloat32, {4, 64});
  const auto expect = [&](const std::string& error, auto change,
                          OpmuxStatus status = OPMUX_INVALID_ARGUMENT) {
    TestTensor input(Type::kFloat32, {4, 128});
    change(*input.view());
    expect_refused("silu_and_mul", {value(input), value(out)}, error, status);
  };
  expect("`input`: expected data, found a null pointer with 512 elements",
         [](OpmuxTensor& tensor) { tensor.data = nullptr; });
  expect("`input`: expected device cpu, found cuda",
         [](OpmuxTensor& tensor) { tensor.device.type = OPMUX_DEVICE_CUDA; });
  expect("`input`: expected device cpu, found another device",
         [](OpmuxTensor& tensor) { tensor.device.type = 99; });
  expect("`input`: expected a shape, found none",
         [](OpmuxTensor& tensor) { tensor.shape = nullptr; });
  expect("`input`: expected a rank of at least 0, found -1",
         [](OpmuxTensor& tensor) { tensor.rank = -1; });
  expect("`input`: expected sizes of at least 0, found -4 in dimension 0",
         [](OpmuxTensor& tensor) { tensor.shape[0] = -4; });
  expect("`input`: expected fewer than 2^63 elements, found more",
         [](OpmuxTensor& tensor) { tensor.shape[0] = int64_t{1} << 57; });
  expect("`input`: expected dtype float32, float16 or bfloat16, found float32x4",
         [](OpmuxTensor& tensor) { tensor.dtype.lanes = 4; });
  expect("`input`: expected dtype float32, float16 or bfloat16, found float64",
         [](OpmuxTensor& tensor) { tensor.dtype.bits = 64; });
  expect("`input`: expected dtype float32, float16 or bfloat16, found float8_e4m3fn",
         [](OpmuxTensor& tensor) {
           tensor.dtype = {OPMUX_DTYPE_FLOAT8_E4M3FN, 8, 1};
         });
  expect(
      "`input`: expected a rank of at most 8, found 9",
      [](OpmuxTensor& tensor) { tensor.rank = 9; }, OPMUX_UNSUPPORTED);
  OpmuxValue nothing = value(out);
  nothing.payload.tensor = nullptr;
  expect_refused("silu_and_mul", {nothing, value(out)},
                 "`input`: expected a tensor, found a null pointer");
  EXPECT_TRUE(out.untouched());
}

TEST(Arguments, CallsThemselves) {
  TestTensor input(Type::kFloat32, {4, 128});
  TestTensor out(Type::kFloat32, {4, 64});
  const OpmuxOperatorEntry& silu = entry("silu_and_mul");
  const Values values = {value(input), value(out)};
  OpmuxCall call = make_call(values, serial_host());
  call.device.type = OPMUX_DEVICE_CUDA;
  EXPECT_EQ(silu.call(silu.context, &call), OPMUX_INVALID_ARGUMENT);
  EXPECT_EQ(take_error(), "call: expected device cpu, found cuda");
  call = make_call(values, serial_host());
  call.struct_size -= 8;
  EXPECT_EQ(silu.call(silu.context, &call), OPMUX_INVALID_ARGUMENT);
  call = make_call(values, nullptr);
  EXPECT_EQ(silu.call(silu.context, &call), OPMUX_INVALID_ARGUMENT);
  EXPECT_TRUE(out.untouched());
}

TEST(Arguments, Norms) {
  const Type f16 = Type::kFloat16;
  TestTensor input(f16, {4, 64});
  TestTensor out(f16, {4, 64});
  TestTensor weight(f16, {64});
  TestTensor short_weight(f16, {63});
  TestTensor square_weight(f16, {1, 64});
  TestTensor wide_weight(Type::kFloat32, {64});
  TestTensor tall(f16, {5, 64});
  const OpmuxValue eps = value(1e-6);
  expect_refused("rms_norm", {value(input), value(short_weight), eps, value(out)},
                 "`weight`: expected shape [64], found [63]");
  expect_refused("rms_norm", {value(input), value(square_weight), eps, value(out)},
                 "`weight`: expected shape [64], found [1, 64]");
  expect_refused("rms_norm", {value(input), value(wide_weight), eps, value(out)},
                 "`weight`: expected dtype float16, found float32");
  expect_refused("rms_norm", {value(input), value(weight), eps, value(tall)},
                 "`out`: expected shape [4, 64], found [5, 64]");
  expect_refused("rms_norm", {value(input), value(weight), none(), value(out)},
                 "`eps`: expected a float, found None");
  expect_refused("rms_norm", {value(input), none(), eps, value(out)},
                 "`weight`: expected a tensor, found None");
  expect_refused("fused_add_rms_norm", {value(input), value(tall), value(weight), eps},
                 "`residual`: expected shape [4, 64], found [5, 64]");
  expect_refused("fused_add_rms_norm", {value(input), value(wide_weight), value(weight), eps},
                 "`residual`: expected dtype float16, found float32");
  expect_refused("fused_add_rms_norm", {value(input), value(out), value(short_weight), eps},
                 "`weight`: expected shape [64], found [63]");
  expect_refused("fused_add_rms_norm", {value(input), value(out), value(true), eps},
                 "`weight`: expected a tensor or None, found a bool");
  EXPECT_TRUE(out.untouched());
  EXPECT_TRUE(input.untouched());
  EXPECT_TRUE(tall.untouched());
  // An integer is a float to PyTorch's schemas too.
  input.fill([](int64_t) { return 1.0; });
  weight.fill([](int64_t) { return 1.0; });
  EXPECT_EQ(run("rms_norm", {value(input), value(weight), value(0), value(out)}), OPMUX_OK);
}

TEST(Arguments, Rotary) {
  const Type f32 = Type::kFloat32;
  TestTensor positions(Type::kInt64, {3});
  TestTensor query(f32, {3, 4, 16});
  TestTensor key(f32, {3, 32});
  TestTensor cache(f32, {10, 16});
  positions.fill([](int64_t i) { return static_cast<double>(i); });
  const auto expect = [&](const std::string& error, const std::function<void(Values&)>& change) {
    Values values = {value(positions), value(query), value(key), value(cache),
                     value(16),        value(true),  value(0),   value(false)};
    change(values);
    expect_refused("rotary_embedding", values, error);
  };
  TestTensor float_positions(f32, {3});
  TestTensor deep_positions(Type::kInt64, {1, 1, 3});
  TestTensor few(f32, {2, 64});
  TestTensor uneven(f32, {3, 30});
  TestTensor other_head(f32, {3, 4, 8});
  TestTensor flat(f32, {3});
  TestTensor half_key(Type::kFloat16, {3, 32});
  TestTensor odd_cache(f32, {10, 15});
  TestTensor wide_cache(f32, {10, 32});
  TestTensor cube_cache(f32, {10, 2, 8});
  expect("`positions`: expected dtype int64 or int32, found float32",
         [&](Values& v) { v[0] = value(float_positions); });
  expect("`positions`: expected a rank from 1 to 2, found 3",
         [&](Values& v) { v[0] = value(deep_positions); });
  expect("`query`: expected size 3 in dimension 0, as in `positions`, found 2",
         [&](Values& v) { v[1] = value(few); });
  expect("`query`: expected a last dimension divisible by head_size 16, found 30",
         [&](Values& v) { v[1] = value(uneven); });
  expect("`query`: expected head_size 16 as the last dimension, found 8",
         [&](Values& v) { v[1] = value(other_head); });
  expect("`query`: expected a rank from 2 to 3, found 1", [&](Values& v) { v[1] = value(flat); });
  expect("`key`: expected dtype float32, found float16",
         [&](Values& v) { v[2] = value(half_key); });
  expect("`key`: expected a last dimension divisible by head_size 16, found 30",
         [&](Values& v) { v[2] = value(uneven); });
  expect("`cos_sin_cache`: expected an even size of dimension 1, found 15",
         [&](Values& v) { v[3] = value(odd_cache); });
  expect(
      "`cos_sin_cache`: expected rope_dim_offset 0 + dimension 1 (32) to be at most head_size 16, "
      "found 32",
      [&](Values& v) { v[3] = value(wide_cache); });
  expect(
      "`cos_sin_cache`: expected rope_dim_offset 1 + dimension 1 (16) to be at most head_size 16, "
      "found 17",
      [&](Values& v) { v[6] = value(1); });
  expect("`cos_sin_cache`: expected rank 2, found 3", [&](Values& v) { v[3] = value(cube_cache); });
  expect("`head_size`: expected more than 0, found 0", [&](Values& v) { v[4] = value(0); });
  expect("`head_size`: expected an integer, found a float", [&](Values& v) { v[4] = value(16.0); });
  expect("`rope_dim_offset`: expected at least 0, found -1", [&](Values& v) { v[6] = value(-1); });
  expect("`is_neox`: expected a bool, found an integer", [&](Values& v) { v[5] = value(1); });
  expect("`inverse`: expected a bool, found None", [&](Values& v) { v[7] = none(); });
  EXPECT_TRUE(query.untouched());
  EXPECT_TRUE(key.untouched());
}

TEST(Arguments, TopK) {
  const Type f32 = Type::kFloat32;
  TestTensor gating(f32, {3, 8});
  TestTensor weights(f32, {3, 2});
  TestTensor indices(Type::kInt32, {3, 2});
  TestTensor sources(Type::kInt32, {3, 2});
  const auto expect = [&](const std::string& error, const std::function<void(Values&)>& change) {
    Values values = {value(gating),  none(),         none(),        value(true),
                     value(weights), value(indices), value(sources)};
    change(values);
    expect_refused("topk_softmax", values, error);
  };
  TestTensor cube(f32, {3, 2, 4});
  TestTensor seven(f32, {7});
  TestTensor half_bias(Type::kFloat16, {8});
  TestTensor two_flags(Type::kBool, {2});
  TestTensor byte_flags(Type::kUint8, {3});
  TestTensor nine(f32, {3, 9});
  TestTensor half_weights(Type::kFloat16, {3, 2});
  TestTensor three(Type::kInt32, {3, 3});
  TestTensor longs(Type::kInt64, {3, 2});
  TestTensor floats(f32, {3, 2});
  expect("`gating_output`: expected rank 2, found 3", [&](Values& v) { v[0] = value(cube); });
  expect("`gating_output`: expected dtype float32, float16 or bfloat16, found int32",
         [&](Values& v) { v[0] = value(indices); });
  expect("`bias`: expected shape [8], found [7]", [&](Values& v) { v[1] = value(seven); });
  expect("`bias`: expected dtype float32, found float16",
         [&](Values& v) { v[1] = value(half_bias); });
  expect("`is_padding`: expected shape [3], found [2]",
         [&](Values& v) { v[2] = value(two_flags); });
  expect("`is_padding`: expected dtype bool, found uint8",
         [&](Values& v) { v[2] = value(byte_flags); });
  expect("`topk_weights`: expected dtype float32, found float16",
         [&](Values& v) { v[4] = value(half_weights); });
  expect("`topk_indices`: expected dtype int32, uint32 or int64, found float32",
         [&](Values& v) { v[5] = value(floats); });
  expect("`topk_indices`: expected shape [3, 2], found [3, 3]",
         [&](Values& v) { v[5] = value(three); });
  expect("`token_expert_indices`: expected dtype int32, found int64",
         [&](Values& v) { v[6] = value(longs); });
  TestTensor nine_indices(Type::kInt32, {3, 9});
  TestTensor nine_sources(Type::kInt32, {3, 9});
  expect("`topk_weights`: expected at most 8 columns, the experts of `gating_output`, found 9",
         [&](Values& v) {
           v[4] = value(nine);
           v[5] = value(nine_indices);
           v[6] = value(nine_sources);
         });
  expect_refused("topk_sigmoid",
                 {value(gating), value(seven), none(), value(true), value(1.0), value(weights),
                  value(indices), value(sources)},
                 "`e_score_correction_bias`: expected shape [8], found [7]");
  expect_refused("topk_sigmoid",
                 {value(gating), none(), none(), value(true), value(1.0), value(weights),
                  value(three), value(sources)},
                 "`topk_ids`: expected shape [3, 2], found [3, 3]");
  EXPECT_TRUE(weights.untouched());
  EXPECT_TRUE(indices.untouched());
  EXPECT_TRUE(sources.untouched());
}

TEST(Arguments, GroupedTopK) {
  const Type f32 = Type::kFloat32;
  TestTensor scores(f32, {3, 8});
  TestTensor bias(f32, {8});
  TestTensor values(f32, {3, 2});
  TestTensor indices(Type::kInt32, {3, 2});
  const auto expect = [&](const std::string& error, const std::function<void(Values&)>& change) {
    Values arguments = {value(scores), value(bias), value(4), value(2),      value(2),
                        value(true),   value(1.0),  value(0), value(values), value(indices)};
    change(arguments);
    expect_refused("grouped_topk", arguments, error);
  };
  TestTensor seven(f32, {7});
  TestTensor half_values(Type::kFloat16, {3, 2});
  TestTensor three(f32, {3, 3});
  TestTensor unsigned_indices(Type::kUint32, {3, 2});
  expect("`num_expert_group`: expected more than 0, found 0", [&](Values& v) { v[2] = value(0); });
  expect("`scores`: expected a number of experts divisible by num_expert_group 3, found 8",
         [&](Values& v) { v[2] = value(3); });
  expect("`topk_group`: expected 1 to 4, the groups, found 0", [&](Values& v) { v[3] = value(0); });
  expect("`topk_group`: expected 1 to 4, the groups, found 5", [&](Values& v) { v[3] = value(5); });
  expect("`topk`: expected more than 0, found 0", [&](Values& v) { v[4] = value(0); });
  expect("`topk`: expected at most 4, the experts of topk_group groups, found 5",
         [&](Values& v) { v[4] = value(5); });
  expect("`scoring_func`: expected 0 (none) or 1 (sigmoid), found 2",
         [&](Values& v) { v[7] = value(2); });
  expect("`bias`: expected shape [8], found [7]", [&](Values& v) { v[1] = value(seven); });
  expect("`topk_values`: expected dtype float32, found float16",
         [&](Values& v) { v[8] = value(half_values); });
  expect("`topk_values`: expected shape [3, 2], found [3, 3]",
         [&](Values& v) { v[8] = value(three); });
  expect("`topk_indices`: expected dtype int32 or int64, found uint32",
         [&](Values& v) { v[9] = value(unsigned_indices); });
  EXPECT_TRUE(values.untouched());
  EXPECT_TRUE(indices.untouched());
}

}  // namespace
}  // namespace opmux::test
