// SPDX-License-Identifier: Apache-2.0
//
// Asking a plugin module to bind an operator to a foreign library. The probe asks first, then the
// process that serves. Thread safety: all functions may be called from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/loader/loader.hpp"
#include "core/manifest/manifest.hpp"
#include "opmux/plugin.h"

namespace opmux {

// What OpmuxBindRequest says, as a value that can cross to another process.
struct ForeignBinding {
  std::string operator_name, operator_schema;
  std::string device;  // "cpu" or "cuda"
  // dispatcher
  std::string provider_schema, dispatch_key;
  // direct symbol; the names as the manifest has them and as the library has them
  std::vector<std::string> symbols, mangled;
  std::string returns;

  bool module_maps = false;  // `call` and `results` are empty
  std::vector<CallSource> call;
  std::vector<ResultTarget> results;
};

// `symbols` and the contract's other fields; `mangled` is found in the library's bytes.
ForeignBinding foreign_binding(const Alternative& alternative,
                               const OperatorDeclaration& declaration,
                               std::vector<std::string> mangled);

// The addresses of a mapped library's functions. Each must lie in the file `library` itself and not
// in something that it was loaded with: rule contract.symbol_elsewhere. `library` is a real path.
Result<std::vector<void*>> resolve_symbols(void* handle, const std::filesystem::path& library,
                                           const ForeignBinding& binding);

// `symbols` are parallel to `binding.symbols`. Rule loader.bind_refused with the module's words.
Result<OpmuxBound> bind_foreign(const PluginModule& module, const ForeignBinding& binding,
                                const std::vector<void*>& symbols);

}  // namespace opmux
