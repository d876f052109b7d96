// SPDX-License-Identifier: Apache-2.0
//
// Symbol versions: what DT_VERNEED asks of other libraries and DT_VERDEF offers. Inside core/elf
// only.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/result.hpp"
#include "core/elf/image.hpp"

namespace opmux::elf {

// Names are offsets into the string table.
struct NeededVersion {
  std::uint64_t library = 0;
  std::uint64_t version = 0;
  std::uint16_t index = 0;  // as DT_VERSYM refers to it
  bool weak = false;
};
struct DefinedVersion {
  std::uint64_t version = 0;
  std::uint16_t index = 0;
  bool base = false;  // names the file itself, not a version
};

Result<std::vector<NeededVersion>> read_needed_versions(const Image& image);
Result<std::vector<DefinedVersion>> read_defined_versions(const Image& image);

}  // namespace opmux::elf
