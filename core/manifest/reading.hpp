// SPDX-License-Identifier: Apache-2.0
//
// How the parts of the manifest reader work together; internal to core/manifest.
//
// A file is read in two passes. The first reads its head and its operator declarations, the second
// its provider part, whose argument names need the declarations of all files. Every function adds
// what is wrong to `errors` and goes on, so that one reading shows several faults.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest/manifest.hpp"
#include "core/yaml/fields.hpp"

namespace opmux::reading {

using yaml::Errors;
using yaml::Node;

// ---- the two passes (parse.cpp) ----

// What the first pass found in a file, also when the file is refused.
struct Head {
  bool version_ok = false;
  bool has_provider = false;
};
Head read_head(const Node& root, Manifest& manifest, Errors& errors);

// Finds declarations by name; the vectors must outlive it.
class OperatorLookup {
 public:
  void add(const std::vector<OperatorDeclaration>& declarations);
  // An operator whose declaration was refused with its file.
  void add_refused(const std::string& name, const std::string& file);

  const OperatorDeclaration* find(std::string_view name) const;
  // What to do about a name that `find` does not know; may be empty.
  std::string hint(const std::string& name) const;

 private:
  std::map<std::string, const OperatorDeclaration*, std::less<>> declarations_;
  std::map<std::string, std::string> refused_;
};

// Bindings of operators that nobody declares are left out and go to `undeclared`, which may be
// `errors` itself.
void read_provider(const Node& root, Manifest& manifest, const OperatorLookup& operators,
                   Errors& errors, Errors& undeclared);

// ---- shared values (values.cpp) ----

SourceLocation location(const Errors& errors, yaml::Position position);
// Letters, digits and `_`, first a letter or `_`.
bool is_identifier(std::string_view text);
std::optional<VersionRange> read_range(const Node& node, std::string_view what, Errors& errors);
// The schema that the text of `node` holds; refused with the column inside it.
std::optional<schema::Schema> read_schema(const Node& node, Errors& errors);

const std::vector<std::string>& canonical_dtypes();
// One canonical dtype name; also `$dtype` when `variable` says so.
std::optional<std::string> read_dtype(const Node& node, std::string_view what, bool variable,
                                      Errors& errors);

// `properties`: a list of the closed set.
std::optional<Properties> read_properties(const Node& node, Errors& errors);

// The type without its `?`.
const schema::Type& plain_type(const schema::Type& type);
bool is_integer(const schema::Type& type);  // int or SymInt, not optional

// A constant of that type; a wrong form is an error of `rule`.
std::optional<Literal> read_literal(const Node& node, const schema::Type& type,
                                    std::string_view what, const Rule& rule, Errors& errors);
// Nothing when the default is a name or a list that is no constant of a manifest.
std::optional<Literal> default_literal(const schema::Argument& argument);

// Index into the schema's arguments, -1 when there is none of that name.
int find_argument(const schema::Schema& schema, std::string_view name);
std::vector<std::string> argument_names(const schema::Schema& schema);
// The operator's argument that `node` names, -1 after an error. `what`: the key that names it.
int read_argument_name(const Node& node, const std::string& what, const schema::Schema& schema,
                       Errors& errors);
bool has_condition(const Alternative& alternative, int argument, ConditionKind kind);

// ---- parts of a manifest ----

// declaration.cpp
std::vector<OperatorDeclaration> read_declarations(const Node& node, Errors& errors);
// example.cpp
std::optional<Example> read_example(const Node& node, const schema::Schema& schema,
                                    const std::vector<std::string>& dtypes, Errors& errors);
// library.cpp
std::vector<Library> read_libraries(const Node& node, Errors& errors);
// binding.cpp
std::optional<Alternative> read_alternative(const Node& node,
                                            const OperatorDeclaration& declaration,
                                            const Manifest& manifest, Errors& errors);
// condition.cpp
void read_argument_conditions(const Node& node, const schema::Schema& schema, int argument,
                              std::vector<Condition>& conditions, Errors& errors);
// when.cpp: fills `when`, `device` and `compute_capability`.
void read_when(const Node& node, const schema::Schema& schema, Alternative& alternative,
               Errors& errors);
// mapping.cpp: fills `call` and `results` of a dispatcher or direct symbol alternative. `call` and
// `result` are null where the manifest has no such key.
void read_mapping(const Node& alternative_node, const Node* call, const Node* result,
                  const schema::Schema& schema, Alternative& alternative, Errors& errors);
// result.cpp: fills `results`. `provider` is null for a direct symbol; `where` is blamed for
// results that are missing.
void read_results(const Node& where, const Node* result, const schema::Schema& schema,
                  const schema::Schema* provider, Alternative& alternative, Errors& errors);
// coverage.cpp: an operator's argument is passed on, written, or restricted to what the provider
// does without it; anything else would be dropped in silence.
void check_every_argument(const Node& alternative_node, const schema::Schema& schema,
                          const Alternative& alternative, Errors& errors);

}  // namespace opmux::reading
