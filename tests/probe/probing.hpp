// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the probe share.
#pragma once

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <string>

#include "core/probe/probe.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {

using testing::TemporaryFolder;

inline LoadSet load_set_of(std::initializer_list<std::filesystem::path> libraries) {
  LoadSet load_set;
  for (const std::filesystem::path& path : libraries) {
    load_set.libraries.push_back({path, false, "fake: " + path.stem().native()});
  }
  return load_set;
}

// `fake_answer` of the first library through the first module, for an operator whose name tells the
// fake module what to do.
inline ProbeBinding answer_binding(const std::string& operator_name) {
  ProbeBinding item;
  item.binding.operator_name = operator_name;
  item.binding.operator_schema = operator_name + "(Tensor(a!) out) -> ()";
  item.binding.device = "cpu";
  item.binding.symbols = {"fake_answer"};
  item.binding.mangled = {"fake_answer"};
  item.binding.returns = "int";
  return item;
}

// What discovery makes of a libpython.
inline PythonLibrary python_library(const std::filesystem::path& path, const std::string& version) {
  return {path, "libpython" + version + ".so.1.0", version};
}

// A deadline that a loaded machine keeps as well.
inline ProbeOptions patient() {
  ProbeOptions options;
  options.deadline = std::chrono::seconds(20);
  return options;
}

}  // namespace opmux
