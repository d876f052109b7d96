// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace decoder {
namespace {

// Outputs whose sums stay in the nearest cache.
constexpr std::int64_t kBlock = 128;

// SplitMix64 (Steele, Lea and Flood, 2014): a counter and a mixing function. The standard library's
// distributions differ between implementations, so uniform numbers are made here.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // Evenly distributed in [-limit, limit).
  float uniform(float limit) {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9U;
    bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBU;
    bits ^= bits >> 31U;
    // 24 bits: every value is exact in float.
    const auto whole = static_cast<float>(bits >> 40U);
    return limit * (whole * 0x1p-23F - 1.0F);
  }

  std::vector<float> vector(std::int64_t size, float limit, float mean = 0.0F) {
    std::vector<float> values(static_cast<std::size_t>(size));
    for (float& value : values) value = mean + uniform(limit);
    return values;
  }

  // Unit inputs give outputs of deviation `gain`: a uniform number has a variance of limit^2 / 3.
  Matrix matrix(std::int64_t inputs, std::int64_t outputs, float gain = 1.0F) {
    const float limit = gain * std::sqrt(3.0F / static_cast<float>(inputs));
    return {inputs, outputs, vector(inputs * outputs, limit)};
  }

 private:
  std::uint64_t state_;
};

std::vector<float> angles(const Shape& shape) {
  std::vector<float> cache(static_cast<std::size_t>(shape.positions * shape.head_size));
  const std::int64_t half = shape.head_size / 2;
  for (std::int64_t position = 0; position < shape.positions; ++position) {
    float* const row = cache.data() + position * shape.head_size;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return cache;
}

}  // namespace

Model make_model(const Shape& shape, std::uint64_t seed) {
  // Scores of deviation 2: attention picks some tokens out and does not average over all, so that
  // what comes next hangs on more than the last token.
  constexpr float kQueryGain = 2.0F;
  Random random(seed);
  Model model;
  model.shape = shape;
  model.embedding = random.vector(shape.vocabulary * shape.hidden, std::sqrt(3.0F));
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    Layer each;
    each.attention_norm = random.vector(shape.hidden, 0.1F, 1.0F);
    each.query = random.matrix(shape.hidden, shape.hidden, kQueryGain);
    each.key = random.matrix(shape.hidden, shape.kv_size());
    each.value = random.matrix(shape.hidden, shape.kv_size());
    each.attention_out = random.matrix(shape.hidden, shape.hidden);
    each.mlp_norm = random.vector(shape.hidden, 0.1F, 1.0F);
    each.gate_and_up = random.matrix(shape.hidden, 2 * shape.inner());
    each.down = random.matrix(shape.inner(), shape.hidden);
    model.layers.push_back(std::move(each));
  }
  model.final_norm = random.vector(shape.hidden, 0.1F, 1.0F);
  model.head = random.matrix(shape.hidden, shape.vocabulary);
  model.cos_sin_cache = angles(shape);
  return model;
}

void multiply(const Matrix& matrix, const float* input, float* output) {
  std::array<double, kBlock> sums{};
  for (std::int64_t begin = 0; begin < matrix.outputs; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, matrix.outputs - begin);
    std::fill_n(sums.begin(), size, 0.0);
    const float* row = matrix.weights.data() + begin;
    for (std::int64_t i = 0; i < matrix.inputs; ++i, row += matrix.outputs) {
      const auto factor = static_cast<double>(input[i]);
      for (std::int64_t o = 0; o < size; ++o)
        sums[static_cast<std::size_t>(o)] += factor * static_cast<double>(row[o]);
    }
    for (std::int64_t o = 0; o < size; ++o)
      output[begin + o] = static_cast<float>(sums[static_cast<std::size_t>(o)]);
  }
}

}  // namespace decoder
