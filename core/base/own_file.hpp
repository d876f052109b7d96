// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace opmux {

// The real path of the shared library or program that holds this code; empty when the system does
// not tell. Never relative to the current folder, however the program was started.
std::filesystem::path own_file();

}  // namespace opmux
