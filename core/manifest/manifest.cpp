// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/manifest.hpp"

#include "core/yaml/reader.hpp"

namespace opmux {

std::string to_string(const SourceLocation& location) {
  return yaml::subject(location.file, {location.line, location.column});
}

const char* contract_name(const Contract& contract) {
  if (std::holds_alternative<DirectSymbolContract>(contract)) return "direct_symbol";
  return std::holds_alternative<DispatcherContract>(contract) ? "dispatcher" : "module";
}

int CallSource::argument() const {
  if (const int* whole = std::get_if<int>(&source)) return *whole;
  if (const auto* item = std::get_if<ListItem>(&source)) return item->argument;
  if (const auto* number = std::get_if<InverseSqrtDefault>(&source)) return number->argument;
  return -1;
}

const Library* Manifest::find_library(const std::string& name) const {
  for (const Library& library : libraries)
    if (library.name == name) return &library;
  return nullptr;
}

const OperatorDeclaration* ManifestSet::find_declaration(const std::string& name) const {
  for (const OperatorDeclaration& declaration : declarations)
    if (declaration.name == name) return &declaration;
  return nullptr;
}

}  // namespace opmux
