// SPDX-License-Identifier: Apache-2.0
#include "tests/direct_symbol/example_functions.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "core/elf/elf.hpp"

namespace opmux::testing {
namespace {

struct Function {
  std::string demangled;
  std::string mangled;
};

// By the name without parameters.
const std::map<std::string, Function>& functions() {
  static const std::map<std::string, Function> found = [] {
    std::map<std::string, Function> collected;
    const auto file = elf::read(OPMUX_EXAMPLE_FUNCTIONS);
    if (!file.ok()) {
      give_up(OPMUX_EXAMPLE_FUNCTIONS ": " + file.rejection().found);
    }
    for (const elf::Symbol& symbol : file->symbols) {
      if (symbol.exported && symbol.kind == elf::SymbolKind::kFunction) {
        const std::string demangled = elf::demangle(symbol.name);
        collected[demangled.substr(0, demangled.find('('))] = {demangled, std::string(symbol.name)};
      }
    }
    return collected;
  }();
  return found;
}

const Function& function(const std::string& name) {
  const auto found = functions().find(name);
  if (found == functions().end()) {
    give_up(name + ": no such function");
  }
  return found->second;
}

}  // namespace

const OpmuxModule& direct_symbol_module() {
  static const OpmuxModule* const module = [] {
    load_torch(OPMUX_TORCH_FOLDER);
    return &open_module(OPMUX_DIRECT_SYMBOL_MODULE);
  }();
  return *module;
}

void* example_functions() {
  static void* const library = [] {
    direct_symbol_module();
    return load(OPMUX_EXAMPLE_FUNCTIONS);
  }();
  return library;
}

std::string description() {
  return symbol<const char* (*)()>(example_functions(), "example_description")();
}

std::string example_symbol(const std::string& name) { return function(name).demangled; }

Bound::Bound(const std::string& operator_schema, const std::string& name,
             const std::vector<OpmuxCallSource>& sources, const BindOptions& options) {
  const bool whole = name.find('(') != std::string::npos;
  const std::string demangled = whole ? name : function(name).demangled;
  const char* const symbol_name = demangled.c_str();
  void* const address =
      find_symbol(example_functions(), function(whole ? "example::forget" : name).mangled.c_str());
  std::vector<OpmuxResultTarget> targets;
  for (const std::int32_t argument : options.results) {
    targets.push_back({argument, options.result_flags});
  }
  OpmuxBindRequest request{};
  request.struct_size = sizeof(request);
  request.contract = OPMUX_CONTRACT_DIRECT_SYMBOL;
  request.device_type = options.device_type;
  request.source_count = static_cast<std::uint32_t>(sources.size());
  request.result_count = static_cast<std::uint32_t>(targets.size());
  request.symbol_count = 1;
  request.operator_name = "test";
  request.operator_schema = operator_schema.c_str();
  request.sources = sources.data();
  request.results = targets.data();
  request.symbol_names = &symbol_name;
  request.symbols = &address;
  request.returns = options.returns.c_str();
  request.flags = options.flags;
  bound_.struct_size = sizeof(bound_);
  status_ = direct_symbol_module().bind(&request, &bound_);
  reason_ = take_error();
}

OpmuxStatus Bound::operator()(std::initializer_list<OpmuxValue> values) const {
  if (status_ != OPMUX_OK) {
    ADD_FAILURE() << "not bound: " << reason_;
    return status_;
  }
  return call_bound(bound_, values);
}

}  // namespace opmux::testing
