// SPDX-License-Identifier: Apache-2.0
//
// Where the parts of an installation lie, relative to the file that holds this code: the build tree
// and an install tree have the same shape (bin, lib/opmux, share/opmux), so both work when moved.
#pragma once

#include <filesystem>
#include <vector>

namespace opmux {

// <libdir>/opmux: plugin modules, the stub driver. Empty when there is none.
std::filesystem::path module_folder();
// share/opmux/manifests. Empty when there is none.
std::filesystem::path shipped_manifest_folder();
// A stub libcuda.so.1: the installation's own, else the CUDA Toolkit's. Empty when there is none.
std::filesystem::path find_stub_driver();

}  // namespace opmux
