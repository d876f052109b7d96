// SPDX-License-Identifier: Apache-2.0
//
// The manifests that a runtime with the same options reads: its operators' examples and tolerances,
// and the names that are taken.
#pragma once

#include <vector>

#include "cli/command.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux::cli {

Result<ManifestSet> read_manifest_set(const CommonOptions& common);
Result<std::vector<OperatorDeclaration>> read_declarations(const CommonOptions& common);

}  // namespace opmux::cli
