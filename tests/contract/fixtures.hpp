// SPDX-License-Identifier: Apache-2.0
//
// Fake libraries, a fake torch that holds some of them, and exact expectations.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "core/base/rules.hpp"
#include "core/contract/contract.hpp"

namespace opmux::testing {

inline std::filesystem::path contract_fixtures() {
  return std::filesystem::canonical(OPMUX_CONTRACT_FIXTURES);
}

inline std::filesystem::path fake_provider(const std::string& name) {
  return contract_fixtures() / "providers" / (name + ".so");
}

// A host of this machine's libraries without a driver, and a torch that has libtorch.so,
// libtorch_cpu.so and libc10_cuda.so.
class ContractTest : public ::testing::Test {
 protected:
  ContractTest() {
    torch_.root = contract_fixtures() / "torch";
    torch_.library_folder = torch_.root / "lib";
    torch_.version = "2.11.0+cu130";
    torch_.base_version = "2.11.0";
    torch_.cuda = "13.0";
    torch_.dependency_folders = {contract_fixtures() / "cuda"};
    host_.cpu_features = {"avx2", "fma"};
  }

  Check check(const std::string& provider) { return check_path(fake_provider(provider)); }
  Check check_path(const std::filesystem::path& path) {
    return check_library(path, source_, context());
  }
  StaticCheckContext context() const {
    return {&host_, with_torch_ ? &torch_ : nullptr, python_ ? &*python_ : nullptr};
  }
  // Python 3.99, as a true Python extension gets it.
  void use_libpython() {
    source_.libpython = true;
    python_ = PythonLibrary{contract_fixtures() / "python/libpython3.99.so.1.0",
                            "libpython3.99.so.1.0", "3.99"};
  }

  HostFacts host_;
  TorchInstallation torch_;
  bool with_torch_ = true;
  std::optional<PythonLibrary> python_;
  LibrarySource source_;
};

// An empty hint stands for the rule's remedy.
inline void expect_rejection(const Check& check, const Rule& rule, const std::string& subject,
                             const std::string& expected, const std::string& found,
                             const std::string& hint = {}) {
  ASSERT_TRUE(check.has_value()) << "accepted";
  EXPECT_EQ(check->stage, "contract");
  EXPECT_EQ(check->rule, rule.id);
  EXPECT_EQ(check->subject, subject);
  EXPECT_EQ(check->expected, expected);
  EXPECT_EQ(check->found, found);
  EXPECT_EQ(check->hint, hint.empty() ? rule.remedy : hint);
}

inline void expect_accepted(const Check& check) {
  EXPECT_FALSE(check.has_value()) << to_string(*check);
}

}  // namespace opmux::testing
