// SPDX-License-Identifier: Apache-2.0
//
// Whether everything that a library imports is offered by what it is loaded with, and if not, why.
// Inside core/contract only.
#pragma once

#include "core/base/result.hpp"
#include "core/contract/contract.hpp"
#include "core/contract/dependencies.hpp"
#include "core/elf/elf.hpp"

namespace opmux {

Check check_imports(const elf::ElfFile& file, const Dependencies& dependencies,
                    bool python_extension, const TorchInstallation* torch);

}  // namespace opmux
