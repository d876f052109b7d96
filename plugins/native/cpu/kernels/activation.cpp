// SPDX-License-Identifier: Apache-2.0
//
// Gated activations. All three are x times a value in [0, 1] that is exp(z) / (1 + exp(z)) or close
// to it, times the other half. The exponential is carried as mantissa and exponent to the end, so
// that for large negative x the result is as good where the activation by itself would be
// subnormal. Infinities follow the formula as IEEE evaluates it: activation(-infinity) is NaN, as
// x / (1 + exp(-x)) is.
//
// Errors are bounds, relative, in units of 2^-24 (one rounding to float32); a product with a
// subnormal x / 2 may besides be off by its last place times the other half.
#include "plugins/native/cpu/kernels/elements.hpp"
#include "plugins/native/cpu/kernels/exponential.hpp"
#include "plugins/native/cpu/kernels/targets.hpp"

namespace opmux::native::OPMUX_KERNEL_TARGET {
namespace {

// The type in which the argument of exp is computed.
template <Accuracy kAccuracy>
struct Argument {
  using Type = float;
};
template <>
struct Argument<Accuracy::kFloat32> {
  using Type = double;
};

// exp(z) of the gate, split so that no part of it underflows before the product does.
struct Split {
  float partial;      // exp(z) without the factors below, or 0
  float exponential;  // exp(z)
  Scale scale;
};

OPMUX_KERNEL_INLINE Split split(Exponential e, bool vanishes) {
  Split result;
  result.scale = scale_of(e.exponent);
  result.partial = vanishes ? 0.0f : e.mantissa * result.scale.coarse;
  result.exponential = result.partial * result.scale.coarse * result.scale.fine;
  return result;
}

// x * sigmoid(z) * y for an argument z of x's sign. Negative x: 3 for the numerator, 2 for 1 + exp,
// of which exp is at most half, 1 each for the quotient and the product: 7 in all. Other x: 4.
// With Accuracy::kHalf 43 more for the numerator and half of that for 1 + exp: 72.
// (Factors of 1 are chosen, not results, since compilers would divide once for each result.)
OPMUX_KERNEL_INLINE float times_sigmoid(float x, float y, const Split& e) {
  const bool negative = x < 0.0f;
  const float numerator = x * (negative ? e.partial : 1.0f);
  const float product = numerator / (1.0f + e.exponential) * y;
  return product * (negative ? e.scale.coarse : 1.0f) * (negative ? e.scale.fine : 1.0f);
}

struct Silu {
  template <Accuracy kAccuracy>
  static OPMUX_KERNEL_INLINE float times(float x, float y) {
    const float z = -__builtin_fabsf(x);
    return times_sigmoid(x, y,
                         split(exponential<kAccuracy>(z > kLowest ? z : kLowest), z < kLowest));
  }
};

// 0.5 (1 + tanh(u)) is sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3). For float32 z = 2u is a
// double, so that rounding a large one costs nothing; with Accuracy::kHalf it costs 4 |z|.
struct GeluTanh {
  template <Accuracy kAccuracy>
  static OPMUX_KERNEL_INLINE float times(float x, float y) {
    using Number = typename Argument<kAccuracy>::Type;
    const Number m = static_cast<Number>(__builtin_fabsf(x));
    constexpr Number kSlope = static_cast<Number>(-1.5957691216057308);
    constexpr Number kCubic = static_cast<Number>(0.044715);
    constexpr Number kBound = static_cast<Number>(kLowest);
    const Number z = kSlope * (m + kCubic * (m * m * m));
    return times_sigmoid(x, y, split(exponential<kAccuracy>(z > kBound ? z : kBound), z < kBound));
  }
};

// x * Phi(x), Phi the normal distribution: Phi(-t) = exp(-t^2 / 2) q(t), where q(t) (t + 3) is a
// polynomial of v = 1 / (t + 3), fitted at Chebyshev points for t in [0, 20] (error 0.1). v is off
// by 2; with two roundings more, s moves the polynomial by at most 5; Horner's rule adds 2, the
// exponential 2, the products 4: below 16 in all, or 60 with Accuracy::kHalf. The square of a
// 16-bit element is exact in float32.
struct Gelu {
  template <Accuracy kAccuracy>
  static OPMUX_KERNEL_INLINE float times(float x, float y) {
    using Number = typename Argument<kAccuracy>::Type;
    const float m = __builtin_fabsf(x);
    const float t = m < 20.0f ? m : 20.0f;
    const Number square = static_cast<Number>(t) * static_cast<Number>(t);
    const float v = 1.0f / (t + 3.0f);
    const float s = 7.0f * v - 1.3125f;
    float q = 1.1850518082e-5f;
    q = q * s - 1.5776964272e-5f;
    q = q * s - 1.03706258572e-4f;
    q = q * s + 2.47022865716e-4f;
    q = q * s + 7.15290298023e-4f;
    q = q * s - 2.72617294902e-3f;
    q = q * s - 7.833527402e-3f;
    q = q * s + 2.58134990914e-2f;
    q = q * s + 1.81196559343e-1f;
    q = q * s + 4.87681562018e-1f;
    q = q * s + 7.96433762582e-1f;
    Exponential e = exponential<kAccuracy>(static_cast<Number>(-0.5) * square);
    e.mantissa *= q * v;
    const Split tail = split(e, m > 20.0f);
    const bool negative = x < 0.0f;
    const float product = x * (negative ? tail.partial : 1.0f - tail.exponential) * y;
    return product * (negative ? tail.scale.coarse : 1.0f) * (negative ? tail.scale.fine : 1.0f);
  }
};

template <class E, class Function>
void gated(ConstVector gate, ConstVector up, Vector out, int64_t count) {
  Block x;
  Block y;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = block_size(begin, count);
    load<E>(gate, begin, size, x);
    load<E>(up, begin, size, y);
    const int64_t whole = padded(size);
#pragma omp simd
    for (int64_t i = 0; i < whole; ++i) {
      x.values[i] = Function::template times<E::kAccuracy>(x.values[i], y.values[i]);
    }
    store<E>(x, begin, size, out);
  }
}

template <class Function>
void fill(KernelTable::Gated (&row)[kElementCount]) {
  row[kFloat32] = gated<Float32, Function>;
  row[kFloat16] = gated<Float16, Function>;
  row[kBFloat16] = gated<BFloat16, Function>;
}

}  // namespace

void fill_activation(KernelTable& table) {
  fill<Silu>(table.gated[kSilu]);
  fill<Gelu>(table.gated[kGelu]);
  fill<GeluTanh>(table.gated[kGeluTanh]);
}

}  // namespace opmux::native::OPMUX_KERNEL_TARGET
