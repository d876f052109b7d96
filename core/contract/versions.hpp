// SPDX-License-Identifier: Apache-2.0
//
// Symbol versions that a file needs, against those that its dependencies define. Inside
// core/contract only.
#pragma once

#include "core/base/result.hpp"
#include "core/contract/dependencies.hpp"
#include "core/elf/elf.hpp"

namespace opmux {

Check check_versions(const elf::ElfFile& file, const Dependencies& dependencies);

}  // namespace opmux
