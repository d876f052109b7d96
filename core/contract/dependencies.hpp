// SPDX-License-Identifier: Apache-2.0
//
// The libraries that a library is loaded with, found as the dynamic linker will find them in a
// process that holds the chosen torch. Inside core/contract only.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/contract/contract.hpp"
#include "core/elf/exports.hpp"

namespace opmux {

struct Dependency {
  std::filesystem::path path;
  std::shared_ptr<const elf::ExportTable> table;
};

// Breadth first, in the order in which the dynamic linker looks symbols up.
struct Dependencies {
  std::vector<Dependency> libraries;
  std::unordered_map<std::string, std::size_t> by_name;  // NEEDED names and SONAMEs

  bool stub_driver = false;  // libcuda.so.1 is a stub

  const Dependency* find(const std::string& name) const;
  bool export_symbol(std::string_view name) const;
};

Result<Dependencies> find_dependencies(const elf::ElfFile& file, const StaticCheckContext& context);

// Whether the name is one of torch's own libraries.
bool is_torch_library(std::string_view name);

}  // namespace opmux
