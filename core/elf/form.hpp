// SPDX-License-Identifier: Apache-2.0
//
// What kind of file it is, and whether this host can load it. Inside core/elf only.
#pragma once

#include <elf.h>

#include <string>

#include "core/base/result.hpp"
#include "core/elf/bytes.hpp"

namespace opmux::elf {

// Fills `header` when the file is an ELF shared object of this host's class, byte order and
// machine; otherwise names what it is instead.
Check check_form(const Bytes& bytes, const std::string& name, Elf64_Ehdr& header);

}  // namespace opmux::elf
