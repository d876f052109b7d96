// SPDX-License-Identifier: Apache-2.0
//
// A small decoder's weights: random, from a seed, the same on every machine. Thread safety: values.
#pragma once

#include <cstdint>
#include <vector>

namespace decoder {

struct Shape {
  std::int64_t layers = 2;
  std::int64_t hidden = 256;   // a multiple of the head size
  std::int64_t positions = 0;  // that the caches hold
  std::int64_t head_size = 64;
  std::int64_t vocabulary = 512;

  std::int64_t heads() const { return hidden / head_size; }
  // Grouped where the heads can be paired.
  std::int64_t kv_heads() const { return heads() % 2 == 0 ? heads() / 2 : heads(); }
  std::int64_t kv_size() const { return kv_heads() * head_size; }
  std::int64_t inner() const { return 2 * hidden; }  // width of the MLP
};

// Element (i, o) at [i * outputs + o]: what input i adds to output o.
struct Matrix {
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  std::vector<float> weights;
};

struct Layer {
  std::vector<float> attention_norm;  // [hidden]
  Matrix query;
  Matrix key;
  Matrix value;
  Matrix attention_out;
  std::vector<float> mlp_norm;  // [hidden]
  Matrix gate_and_up;           // to [2 * inner]
  Matrix down;
};

struct Model {
  Shape shape;
  std::vector<float> embedding;  // [vocabulary, hidden]
  std::vector<Layer> layers;
  std::vector<float> final_norm;     // [hidden]
  Matrix head;                       // to [vocabulary]
  std::vector<float> cos_sin_cache;  // [positions, head_size], cosines in the first half
};

Model make_model(const Shape& shape, std::uint64_t seed);

// output = input * matrix, summed in double. A plain loop in blocks of outputs, which compilers
// vectorise while each sum keeps its order. At these sizes a BLAS would bring a package, other sums
// on every machine, and no time worth having. Sums in float would make of the last bit in which two
// providers differ ten times as much.
void multiply(const Matrix& matrix, const float* input, float* output);

}  // namespace decoder
