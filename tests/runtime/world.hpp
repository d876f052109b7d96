// SPDX-License-Identifier: Apache-2.0
//
// A whole fake machine in a temporary folder: a site-packages with distributions, a drop-in folder,
// a cache of its own.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "opmux/opmux.hpp"
#include "tests/support/environment_guard.hpp"
#include "tests/support/providers.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux::testing {

class World {
 public:
  World() {
    std::filesystem::create_directories(site_packages());
    std::filesystem::create_directories(manifests());
    variables_.set("OPMUX_CACHE_DIR", (folder_ / "cache").string());
    variables_.set("XDG_CONFIG_HOME", (folder_ / "config").string());
    variables_.set("OPMUX_LOG", "off");
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX", "OPMUX_CONFIG"}) variables_.unset(name);
  }

  const TemporaryFolder& folder() const { return folder_; }
  std::filesystem::path site_packages() const {
    return folder_ / "env/lib/python3.12/site-packages";
  }
  std::filesystem::path manifests() const { return folder_ / "manifests"; }

  // A distribution with one library, listed in its RECORD. Returns the library's path.
  std::filesystem::path install(const std::string& distribution, const std::string& relative,
                                const std::filesystem::path& library) {
    const std::filesystem::path file = site_packages() / relative;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::copy_file(library, file, std::filesystem::copy_options::overwrite_existing);
    const std::string metadata =
        "env/lib/python3.12/site-packages/" + distribution + "-1.0.dist-info/";
    folder_.write(metadata + "METADATA",
                  "Metadata-Version: 2.1\nName: " + distribution + "\nVersion: 1.0\n");
    folder_.write(metadata + "RECORD",
                  relative + ",,\n" + distribution + "-1.0.dist-info/METADATA,,\n");
    return std::filesystem::canonical(file);
  }

  void write_manifest(const std::string& name, const std::string& text) {
    folder_.write("manifests/" + name, text);
  }

  Options options() const {
    Options options;
    options.environments = {folder_ / "env"};
    if (!torch_environment().empty()) options.environments.push_back(torch_environment());
    options.manifests = {manifests()};
    return options;
  }

 private:
  TemporaryFolder folder_;
  EnvironmentGuard variables_;
};

inline const BindingReport* binding_of(const Report& report, const std::string& operator_name,
                                       const std::string& provider) {
  const OperatorReport* found = report.find(operator_name);
  if (found == nullptr) return nullptr;
  for (const BindingReport& binding : found->bindings) {
    if (binding.provider == provider) return &binding;
  }
  return nullptr;
}

// Calls silu_and_mul on [2, 8] and checks the numbers.
struct SiluCall {
  std::array<float, 16> input{};
  std::array<float, 8> out{};

  Status run(const Runtime& runtime) {
    for (std::size_t index = 0; index < input.size(); ++index)
      input[index] = 0.25f * static_cast<float>(index) - 1.5f;
    out.fill(-77.0f);
    StatusOr<Operator<void(Tensor, Tensor)>> silu =
        runtime.op<void(Tensor, Tensor)>("silu_and_mul");
    if (!silu.ok()) return silu.status();
    provider = silu->boxed();
    return (*silu)(TensorView(input.data(), DType::kFloat32, {2, 8}),
                   TensorView(out.data(), DType::kFloat32, {2, 4}));
  }

  bool is_right() const {
    for (std::size_t row = 0; row < 2; ++row) {
      for (std::size_t column = 0; column < 4; ++column) {
        const double gate = input[row * 8 + column];
        const double expected = gate / (1.0 + std::exp(-gate)) * input[row * 8 + 4 + column];
        if (std::abs(out[row * 4 + column] - expected) > 1e-6 * (1.0 + std::abs(expected)))
          return false;
      }
    }
    return true;
  }

  BoxedOperator provider{nullptr};
};

inline std::string read_whole(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_whole(const std::filesystem::path& file, const std::string& content) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

// Replaces every occurrence of `before`, padded with spaces to the same length.
inline void patch(const std::filesystem::path& file, const std::string& before, std::string after) {
  ASSERT_LE(after.size(), before.size() + 60);
  std::string content = read_whole(file);
  const std::size_t room = std::max(before.size(), after.size());
  after.resize(room, ' ');
  std::size_t count = 0;
  for (std::size_t at = content.find(before); at != std::string::npos;
       at = content.find(before, at + room)) {
    content.replace(at, room, after);
    ++count;
  }
  ASSERT_GT(count, 0u) << before << " is not in " << file;
  write_whole(file, content);
}

}  // namespace opmux::testing
