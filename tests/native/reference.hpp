// SPDX-License-Identifier: Apache-2.0
//
// What the operators compute, from their definitions, in float64 or exactly; shares no code with
// the kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace opmux::test::reference {

inline double silu(double x) { return x / (1.0 + std::exp(-x)); }

inline double gelu(double x) {
  // erfc keeps its accuracy where 1 + erf cancels.
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}

inline double gelu_tanh_argument(double x) {
  return 2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
}

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), without the cancellation.
inline double gelu_tanh(double x) { return x / (1.0 + std::exp(-gelu_tanh_argument(x))); }

inline std::vector<double> rms_norm(const std::vector<double>& row,
                                    const std::vector<double>& weight, double epsilon) {
  long double sum = 0.0;
  for (const double x : row) sum += static_cast<long double>(x) * x;
  const long double root =
      std::sqrt(sum / static_cast<long double>(row.size()) + static_cast<long double>(epsilon));
  std::vector<double> result;
  for (size_t i = 0; i < row.size(); ++i) {
    const long double factor = weight.empty() ? 1.0L : static_cast<long double>(weight[i]);
    result.push_back(static_cast<double>(row[i] / root * factor));
  }
  return result;
}

struct Pair {
  double first;
  double second;
  double magnitude;  // the greater sum of the absolute products
};

inline Pair rotate(double x, double y, double cos, double sin) {
  return {x * cos - y * sin, y * cos + x * sin,
          std::max(std::abs(x * cos) + std::abs(y * sin), std::abs(y * cos) + std::abs(x * sin))};
}

inline std::vector<double> softmax(const std::vector<double>& row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0.0;
  std::vector<double> result;
  for (const double x : row) sum += result.emplace_back(std::exp(x - top));
  for (double& x : result) x /= sum;
  return result;
}

// Positions of the k greatest, greatest first, lower index first on ties.
inline std::vector<int64_t> greatest(const std::vector<double>& values, int64_t k) {
  std::vector<int64_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t left, int64_t right) {
    return values[static_cast<size_t>(left)] > values[static_cast<size_t>(right)];
  });
  order.resize(static_cast<size_t>(k));
  return order;
}

// Where Marlin puts the value of row k and column n: the bit of the output, counted through all
// 32-bit words. Built as the layout is published: weights cut into tiles of 16 columns, tiles laid
// side by side, four (two for 8-bit activations) of them permuted together, then packed.
class MarlinLayout {
 public:
  MarlinLayout(int bits, bool wide_k, int64_t size_n) : bits_(bits), size_n_(size_n) {
    rows_ = wide_k ? 32 : 16;
    std::vector<int64_t> order;
    for (int lane = 0; lane < 32; ++lane) {
      std::vector<int> of_lane;
      for (int block = 0; block < 2; ++block) {
        for (int half = 0; half < 2; ++half) {
          const int run = wide_k ? 4 : 2;
          for (int i = 0; i < run; ++i) {
            const int row = run * (lane % 4 + 4 * half) + i;
            of_lane.push_back(16 * row + lane / 4 + 8 * block);
          }
        }
      }
      for (int tile = 0; tile < (wide_k ? 2 : 4); ++tile) {
        for (const int place : of_lane) order.push_back(place + tile * rows_ * 16);
      }
    }
    std::vector<int> interleave;
    if (bits == 4) {
      interleave = wide_k ? std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}
                          : std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7};
    } else {
      interleave = wide_k ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{0, 2, 1, 3};
    }
    position_.resize(1024);
    for (int i = 0; i < 1024; ++i) {
      const int width = static_cast<int>(interleave.size());
      const int from = i / width * width + interleave[static_cast<size_t>(i % width)];
      position_[static_cast<size_t>(order[static_cast<size_t>(from)])] = i;
    }
  }

  int64_t bit_of(int64_t k, int64_t n) const {
    const int64_t flat = n / 16 * (rows_ * 16) + k % rows_ * 16 + n % 16;
    const int64_t chunk = flat / 1024;
    const int64_t value =
        k / rows_ * (size_n_ * rows_) + chunk * 1024 + position_[static_cast<size_t>(flat % 1024)];
    return value * bits_;
  }

 private:
  int bits_;
  int64_t rows_;
  int64_t size_n_;
  std::vector<int> position_;
};

}  // namespace opmux::test::reference
