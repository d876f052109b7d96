// SPDX-License-Identifier: Apache-2.0
//
// `declare:`, the operators that a manifest declares.
#include <algorithm>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using yaml::in_quotes;
using yaml::MapReader;

// `when` and `example` have keys of their own beside the argument names.
bool is_reserved(std::string_view name) {
  return name == "device" || name == "compute_capability" || name == "any_of" || name == "dims";
}

void check_arguments(const schema::Schema& schema, yaml::Position position, Errors& errors) {
  std::vector<std::string> seen;
  for (const schema::Argument& argument : schema.arguments) {
    if (is_reserved(argument.name))
      errors.add(rules::kManifestSchema, position,
                 "argument names other than device, compute_capability, any_of and dims",
                 "the argument " + in_quotes(argument.name));
    if (std::find(seen.begin(), seen.end(), argument.name) != seen.end())
      errors.add(rules::kManifestSchema, position, "argument names that differ",
                 "the argument " + in_quotes(argument.name) + " twice");
    seen.push_back(argument.name);
  }
  if (!schema.returns.empty())
    errors.add(rules::kManifestSchema, position,
               "`-> ()`: an operator writes its results into arguments",
               std::to_string(schema.returns.size()) + " returns");
  if (schema.is_variadic)
    errors.add(rules::kManifestSchema, position, "a fixed number of arguments", "`...`");
  if (!schema.name_space.empty())
    errors.add(rules::kManifestSchema, position, "an operator's name without a namespace",
               "the namespace " + in_quotes(schema.name_space));
}

void read_tolerance(const Node& node, OperatorDeclaration& declaration, Errors& errors) {
  const MapReader map{node, "`tolerance`", {"ulps", "absolute"}, errors};
  const auto read = [&](const char* key, double& target) {
    const auto value = map.number(key);
    if (!value) return;
    target = *value;
    if (*value < 0)
      errors.add(rules::kYamlWrongForm, map.find(key)->position,
                 in_quotes(key) + ": a number that is not negative",
                 yaml::describe(*map.find(key)));
  };
  read("ulps", declaration.tolerance_ulps);
  read("absolute", declaration.tolerance_absolute);
}

void read_dtypes(const Node& node, OperatorDeclaration& declaration, Errors& errors) {
  const auto read = [&](const Node& item) {
    const auto dtype = read_dtype(item, "`dtypes`", false, errors);
    if (!dtype) return;
    std::vector<std::string>& dtypes = declaration.dtypes;
    if (std::find(dtypes.begin(), dtypes.end(), *dtype) != dtypes.end())
      errors.add(rules::kYamlWrongForm, item.position, "`dtypes`: each dtype once",
                 in_quotes(*dtype) + " twice");
    else
      dtypes.push_back(*dtype);
  };
  if (node.kind == yaml::Kind::kSequence && !node.items.empty()) {
    for (const Node& item : node.items) read(item);
  } else {
    errors.add(rules::kYamlWrongForm, node.position, "`dtypes`: a list of dtypes",
               yaml::describe(node));
  }
}

std::optional<OperatorDeclaration> read_declaration(const yaml::Entry& entry, Errors& errors) {
  const std::size_t errors_before = errors.size();
  OperatorDeclaration declaration;
  declaration.name = entry.key;
  declaration.location = location(errors, entry.position);
  const MapReader map{entry.value,
                      "the declaration of " + in_quotes(entry.key),
                      {"schema", "summary", "dtypes", "tolerance", "example"},
                      errors};
  if (!map.is_map()) return std::nullopt;

  declaration.summary = map.text("summary").value_or("");
  if (const Node* dtypes = map.find("dtypes")) read_dtypes(*dtypes, declaration, errors);
  if (const Node* tolerance = map.find("tolerance"))
    read_tolerance(*tolerance, declaration, errors);

  const Node* schema_node = map.require("schema");
  if (schema_node == nullptr) return std::nullopt;
  auto schema = read_schema(*schema_node, errors);
  if (!schema) return std::nullopt;
  declaration.schema_text = schema_node->text;
  declaration.schema = *std::move(schema);
  check_arguments(declaration.schema, schema_node->position, errors);
  const std::string full_name =
      declaration.schema.name +
      (declaration.schema.overload.empty() ? "" : "." + declaration.schema.overload);
  if (full_name != entry.key)
    errors.add(rules::kManifestSchema, schema_node->position,
               "the schema of " + in_quotes(entry.key) + ", under which it is declared",
               "a schema named " + in_quotes(full_name));
  if (const Node* example = map.find("example"))
    declaration.example = read_example(*example, declaration.schema, declaration.dtypes, errors);
  if (errors.size() != errors_before) return std::nullopt;
  return declaration;
}

}  // namespace

std::vector<OperatorDeclaration> read_declarations(const Node& node, Errors& errors) {
  std::vector<OperatorDeclaration> declarations;
  if (!yaml::is_map(node, "`declare`", errors)) return declarations;
  if (node.entries.empty())
    errors.add(rules::kYamlWrongForm, node.position, "`declare`: at least one operator",
               "an empty map");
  for (const yaml::Entry& entry : node.entries)
    if (auto declaration = read_declaration(entry, errors))
      declarations.push_back(*std::move(declaration));
  return declarations;
}

}  // namespace opmux::reading
