// SPDX-License-Identifier: Apache-2.0
//
// Calls the plugin through opmux, as a program that was given its folder would.
#include <opmux/opmux.hpp>

#include <cmath>
#include <cstdio>

namespace {

int failed(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

}  // namespace

// The argument is the manifest in the drop-in folder that the build has made.
int main(int argc, char** argv) {
  if (argc != 2) return failed("usage", "example_provider_test MANIFEST");
  opmux::Options options;
  options.manifest_files = {argv[1]};  // and no other provider
  const auto runtime = opmux::Runtime::open(options);
  if (!runtime.ok()) return failed("open", runtime.status().message().c_str());
  const auto op = runtime->op<void(opmux::Tensor, opmux::Tensor)>("silu_and_mul");
  if (!op.ok()) return failed("op", op.status().message().c_str());

  constexpr int kRows = 3;
  constexpr int kColumns = 8;
  constexpr int kOut = 4;
  float input[kRows][kColumns];
  float out[kRows][kOut] = {};
  for (int row = 0; row < kRows; ++row)
    for (int i = 0; i < kColumns; ++i)
      input[row][i] = 0.5F * static_cast<float>(i - row * kColumns / 2);
  opmux::Status status = (*op)(opmux::Tensor(input, opmux::DType::kFloat32, {kRows, kColumns}),
                               opmux::Tensor(out, opmux::DType::kFloat32, {kRows, kOut}));
  if (!status.ok()) return failed("call", status.message().c_str());
  if (op->boxed().last_provider() != "example_provider")
    return failed("served by", op->boxed().last_provider().c_str());

  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kOut; ++i) {
      const auto gate = static_cast<double>(input[row][i]);
      const auto up = static_cast<double>(input[row][i + kOut]);
      const double expected = gate / (1.0 + std::exp(-gate)) * up;
      const double difference = std::fabs(static_cast<double>(out[row][i]) - expected);
      // Written so that a NaN fails, too.
      if (!(difference <= 1e-6 * (1.0 + std::fabs(expected))))
        return failed("out", "not what the formula gives");
    }
  }

  // Sizes that do not fit are refused before anything is written.
  status = (*op)(opmux::Tensor(input, opmux::DType::kFloat32, {kRows, kColumns}),
                 opmux::Tensor(out, opmux::DType::kFloat32, {kRows, kOut - 1}));
  if (status.code() != opmux::StatusCode::kInvalidArgument)
    return failed("out that is too small", "expected an invalid argument");
  std::printf("silu_and_mul is served by example_provider\n");
  return 0;
}
