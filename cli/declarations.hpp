// SPDX-License-Identifier: Apache-2.0
//
// The operator declarations that a runtime with the same options sees, for their examples and
// tolerances.
#pragma once

#include <vector>

#include "cli/command.hpp"
#include "core/base/result.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux::cli {

Result<std::vector<OperatorDeclaration>> read_declarations(const CommonOptions& common);

}  // namespace opmux::cli
