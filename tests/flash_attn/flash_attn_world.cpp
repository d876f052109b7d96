// SPDX-License-Identifier: Apache-2.0
#include "tests/flash_attn/flash_attn_world.hpp"

#include <algorithm>
#include <cstring>

namespace opmux::testing {
namespace {

void* fake() {
  static void* const library = [] {
    flash_attn_module();  // torch first
    return load(OPMUX_FAKE_FLASH_ATTN);
  }();
  return library;
}

template <class Element>
std::vector<Element> elements(const TestTensor& tensor) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) {
    count *= static_cast<std::size_t>(size);
  }
  std::vector<Element> result(count);
  std::memcpy(result.data(), tensor.data(), count * sizeof(Element));
  return result;
}

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t dim = shape.size() - 1; dim > 0; --dim) {
    strides[dim - 1] = strides[dim] * shape[dim];
  }
  return strides;
}

template <class Element>
TestTensor filled(DType dtype, std::vector<std::int64_t> dims, Element fill) {
  TestTensor tensor(dtype, std::move(dims), sizeof(Element));
  const std::size_t count = tensor.memory.size() * sizeof(std::uint64_t) / sizeof(Element);
  for (std::size_t at = 0; at < count; ++at) {
    std::memcpy(reinterpret_cast<char*>(tensor.memory.data()) + at * sizeof(Element), &fill,
                sizeof(Element));
  }
  return tensor;
}

}  // namespace

const char kVarlenSymbol[] =
    "flash::mha_varlen_fwd(at::Tensor&, at::Tensor const&, at::Tensor const&, "
    "std::optional<at::Tensor>&, at::Tensor const&, at::Tensor const&, std::optional<at::Tensor>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor>&, std::optional<at::Tensor>&, "
    "int, int, float, float, bool, bool, int, int, float, bool, std::optional<at::Generator>)";
const char kKvcacheSymbol[] =
    "flash::mha_fwd_kvcache(at::Tensor&, at::Tensor const&, at::Tensor const&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor const>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor const>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor const>&, "
    "std::optional<at::Tensor const>&, std::optional<at::Tensor>&, std::optional<at::Tensor>&, "
    "std::optional<at::Tensor>&, float, bool, int, int, float, bool, int)";
const char kVarlenSchema[] =
    "flash_attn_varlen_func(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor "
    "cu_seqlens_k, Tensor? alibi_slopes, Tensor? block_table, int max_seqlen_q, int max_seqlen_k, "
    "float dropout_p, float? softmax_scale, bool causal, int[] window_size, float softcap, bool "
    "deterministic, bool return_attn_probs, Tensor(a!) out, Tensor(b!)? softmax_lse, Tensor(c!)? "
    "s_dmask) -> ()";
const char kKvcacheSchema[] =
    "flash_attn_with_kvcache(Tensor q, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor? k, Tensor? "
    "v, Tensor? rotary_cos, Tensor? rotary_sin, Tensor? cache_seqlens, Tensor? cache_batch_idx, "
    "Tensor? cache_leftpad, Tensor? block_table, Tensor? alibi_slopes, float? softmax_scale, bool "
    "causal, int[] window_size, float softcap, bool rotary_interleaved, int num_splits, bool "
    "return_softmax_lse, Tensor(c!) out, Tensor(d!)? softmax_lse) -> ()";
const char kKvcacheIntSchema[] =
    "flash_attn_with_kvcache.int(Tensor q, Tensor(a!) k_cache, Tensor(b!) v_cache, Tensor? k, "
    "Tensor? v, Tensor? rotary_cos, Tensor? rotary_sin, int cache_seqlens, Tensor? "
    "cache_batch_idx, Tensor? cache_leftpad, Tensor? block_table, Tensor? alibi_slopes, float? "
    "softmax_scale, bool causal, int[] window_size, float softcap, bool rotary_interleaved, int "
    "num_splits, bool return_softmax_lse, Tensor(c!) out, Tensor(d!)? softmax_lse) -> ()";

const OpmuxModule& flash_attn_module() {
  static const OpmuxModule* const module = [] {
    load_torch(OPMUX_TORCH_FOLDER);
    return &open_module(OPMUX_FLASH_ATTN_MODULE);
  }();
  return *module;
}

void* varlen_function() {
  return symbol<fakes::AddressFunction*>(fake(), "fake_flash_attn_varlen")();
}
void* kvcache_function() {
  return symbol<fakes::AddressFunction*>(fake(), "fake_flash_attn_kvcache")();
}
const fakes::RecordedCall& recorded() {
  return *symbol<fakes::RecordFunction*>(fake(), "fake_flash_attn_record")();
}
void clear_record() { symbol<fakes::ClearFunction*>(fake(), "fake_flash_attn_clear")(); }

BindArguments bind_arguments(const std::string& name) {
  BindArguments arguments;
  arguments.name = name;
  if (name == "flash_attn_varlen_func") {
    arguments.schema = kVarlenSchema;
    arguments.symbol_names = {kVarlenSymbol};
    arguments.symbols = {varlen_function()};
  } else {
    arguments.schema = name == "flash_attn_with_kvcache.int" ? kKvcacheIntSchema : kKvcacheSchema;
    arguments.symbol_names = {kKvcacheSymbol};
    arguments.symbols = {kvcache_function()};
  }
  return arguments;
}

OpmuxStatus bind(const BindArguments& arguments, OpmuxBound& bound) {
  std::vector<const char*> names;
  for (const std::string& name : arguments.symbol_names) {
    names.push_back(name.c_str());
  }
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = arguments.contract;
  request.device_type = arguments.device_type;
  request.symbol_count = static_cast<std::uint32_t>(names.size());
  request.operator_name = arguments.name.c_str();
  request.operator_schema = arguments.schema.c_str();
  request.symbol_names = names.data();
  request.symbols = arguments.symbols.data();
  request.flags = arguments.flags;
  bound = {};
  bound.struct_size = sizeof(bound);
  return flash_attn_module().bind(&request, &bound);
}

OpmuxBound bound_operator(const std::string& name) {
  OpmuxBound bound{};
  EXPECT_EQ(bind(bind_arguments(name), bound), OPMUX_OK) << take_error();
  return bound;
}

TestTensor::TestTensor(DType given, std::vector<std::int64_t> dims, std::size_t item_size)
    : dtype(given), shape(std::move(dims)) {
  std::size_t bytes = item_size;
  for (const std::int64_t size : shape) {
    bytes *= static_cast<std::size_t>(size);
  }
  memory.resize(bytes / sizeof(std::uint64_t) + 2);
}

OpmuxValue TestTensor::value() const {
  abi.tensor.data = const_cast<std::uint64_t*>(memory.data());
  abi.tensor.device = {OPMUX_DEVICE_CPU, 0};
  abi.tensor.rank = static_cast<std::int32_t>(shape.size());
  abi.tensor.dtype = to_abi(dtype);
  abi.tensor.shape = const_cast<std::int64_t*>(shape.data());
  abi.tensor.strides = strides.empty() ? nullptr : const_cast<std::int64_t*>(strides.data());
  abi.tensor.byte_offset = offset;
  OpmuxValue result{};
  result.tag = OPMUX_VALUE_TENSOR;
  result.payload.tensor = &abi.tensor;
  return result;
}

std::vector<std::uint16_t> TestTensor::halves() const { return elements<std::uint16_t>(*this); }
std::vector<float> TestTensor::floats() const { return elements<float>(*this); }

TestTensor half_tensor(std::vector<std::int64_t> dims, std::uint16_t fill) {
  return filled(DType::kFloat16, std::move(dims), fill);
}
TestTensor float_tensor(std::vector<std::int64_t> dims, float fill) {
  return filled(DType::kFloat32, std::move(dims), fill);
}
TestTensor int_tensor(std::vector<std::int64_t> dims, std::int32_t fill) {
  return filled(DType::kInt32, std::move(dims), fill);
}
TestTensor int_tensor(std::vector<std::int32_t> values) {
  TestTensor tensor(DType::kInt32, {static_cast<std::int64_t>(values.size())},
                    sizeof(std::int32_t));
  std::memcpy(tensor.memory.data(), values.data(), values.size() * sizeof(std::int32_t));
  return tensor;
}

TestTensor with_gaps(TestTensor tensor) {
  tensor.memory.resize(tensor.memory.size() * 2);
  tensor.strides = contiguous_strides(tensor.shape);
  for (std::int64_t& stride : tensor.strides) {
    stride *= 2;
  }
  return tensor;
}
TestTensor repeated(TestTensor tensor, std::int64_t size) {
  tensor.strides = contiguous_strides(tensor.shape);
  tensor.strides[0] = 0;
  tensor.shape[0] = size;
  return tensor;
}

OpmuxStatus VarlenCall::run() const {
  static const OpmuxBound bound = bound_operator("flash_attn_varlen_func");
  clear_record();
  const OpmuxIntList window{window_size.data(), window_size.size()};
  return call_bound(
      bound, {q.value(), k.value(), v.value(), cu_seqlens_q.value(), cu_seqlens_k.value(),
              value(alibi_slopes), value(block_table), max_seqlen_q, max_seqlen_k, dropout_p,
              softmax_scale, testing::value(causal), testing::value(window),
              testing::value(softcap), testing::value(deterministic),
              testing::value(return_attn_probs), out.value(), value(softmax_lse), value(s_dmask)});
}

KvcacheCall KvcacheCall::decode() {
  KvcacheCall call;
  call.q = half_tensor({2, 1, 4, 16});
  call.out = half_tensor({2, 1, 4, 16}, 0);
  return call;
}

KvcacheCall KvcacheCall::paged() {
  KvcacheCall call;
  call.k_cache = half_tensor({4, 256, 2, 16});
  call.v_cache = half_tensor({4, 256, 2, 16});
  call.block_table = int_tensor({2, 2}, 1);
  return call;
}

void KvcacheCall::append(std::int64_t tokens) {
  k = half_tensor({2, tokens, 2, 16});
  v = half_tensor({2, tokens, 2, 16});
}

OpmuxStatus KvcacheCall::run() const {
  static const OpmuxBound with_tensor = bound_operator("flash_attn_with_kvcache");
  static const OpmuxBound with_int = bound_operator("flash_attn_with_kvcache.int");
  clear_record();
  const OpmuxIntList window{window_size.data(), window_size.size()};
  const OpmuxValue lengths = length ? testing::value(*length) : value(cache_seqlens);
  return call_bound(length ? with_int : with_tensor, {q.value(),
                                                      k_cache.value(),
                                                      v_cache.value(),
                                                      value(k),
                                                      value(v),
                                                      value(rotary_cos),
                                                      value(rotary_sin),
                                                      lengths,
                                                      value(cache_batch_idx),
                                                      value(cache_leftpad),
                                                      value(block_table),
                                                      value(alibi_slopes),
                                                      softmax_scale,
                                                      testing::value(causal),
                                                      testing::value(window),
                                                      testing::value(softcap),
                                                      testing::value(rotary_interleaved),
                                                      testing::value(num_splits),
                                                      testing::value(return_softmax_lse),
                                                      out.value(),
                                                      value(softmax_lse)});
}

}  // namespace opmux::testing
