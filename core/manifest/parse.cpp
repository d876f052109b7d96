// SPDX-License-Identifier: Apache-2.0
//
// A manifest's top level, and the order of the two passes.
#include <limits>
#include <utility>

#include "core/manifest/reading.hpp"

namespace opmux {
namespace reading {
namespace {

using yaml::in_quotes;
using yaml::Kind;
using yaml::MapReader;

bool is_provider_key(std::string_view key) {
  return key == "plugin" || key == "priority" || key == "requires" || key == "properties" ||
         key == "libraries" || key == "operators";
}

// Stops at a manifest of another version: its other keys may mean something else.
bool check_version(const Node& root, Errors& errors) {
  const Node* version = root.find("manifest");
  if (version == nullptr) {
    errors.add(rules::kYamlMissingKey, root.position, "the key `manifest` in the manifest",
               "no such key", "Begin the file with `manifest: 1`.");
    return false;
  }
  if (yaml::as_integer(*version) == 1) return true;
  errors.add(rules::kManifestVersion, version->position, "`manifest: 1`", yaml::describe(*version));
  return false;
}

std::string read_name(const MapReader& map, const char* key, Errors& errors) {
  const auto name = map.required_text(key);
  if (!name) return {};
  if (!is_identifier(*name))
    errors.add(rules::kYamlWrongForm, map.find(key)->position,
               in_quotes(key) + ": a name of letters, digits and _, first a letter",
               in_quotes(*name));
  return *name;
}

Requirements read_requirements(const Node& node, Errors& errors) {
  Requirements requirements;
  const MapReader map{node, "`requires`", {"torch", "cuda", "driver"}, errors};
  const auto read = [&](const char* key, std::optional<VersionRange>& range) {
    if (const Node* value = map.find(key)) range = read_range(*value, in_quotes(key), errors);
  };
  read("torch", requirements.torch);
  read("cuda", requirements.cuda);
  read("driver", requirements.driver);
  return requirements;
}

void read_operator(const yaml::Entry& entry, const OperatorDeclaration& declaration,
                   Manifest& manifest, Errors& errors) {
  OperatorBinding binding;
  binding.operator_name = entry.key;
  binding.location = location(errors, entry.position);
  const auto read = [&](const Node& node) {
    if (auto alternative = read_alternative(node, declaration, manifest, errors))
      binding.alternatives.push_back(*std::move(alternative));
  };
  if (entry.value.kind == Kind::kSequence && !entry.value.items.empty()) {
    for (const Node& item : entry.value.items) read(item);
  } else if (entry.value.kind == Kind::kMap) {
    read(entry.value);
  } else {
    errors.add(rules::kYamlWrongForm, entry.value.position,
               "operator " + in_quotes(entry.key) +
                   ": an alternative, or a list of alternatives in the order to try",
               yaml::describe(entry.value));
  }
  manifest.operators.push_back(std::move(binding));
}

}  // namespace

Head read_head(const Node& root, Manifest& manifest, Errors& errors) {
  Head head;
  if (!yaml::is_map(root, "the manifest", errors)) return head;
  head.version_ok = check_version(root, errors);
  if (const Node* provider = root.find("provider")) {
    head.has_provider = true;
    if (provider->kind == Kind::kScalar) manifest.provider = provider->text;
  }
  if (!head.version_ok) return head;
  const MapReader map{root,
                      "the manifest",
                      {"manifest", "provider", "plugin", "priority", "requires", "properties",
                       "libraries", "operators", "declare"},
                      errors};
  if (head.has_provider) {
    manifest.provider = read_name(map, "provider", errors);
  } else {
    for (const yaml::Entry& entry : root.entries)
      if (is_provider_key(entry.key)) {
        errors.add(rules::kYamlMissingKey, entry.position,
                   "the key `provider` beside " + in_quotes(entry.key), "no such key");
        break;
      }
    if (root.find("declare") == nullptr)
      errors.add(rules::kYamlMissingKey, root.position,
                 "the key `provider`, the key `declare`, or both", "neither");
  }
  if (const Node* declare = root.find("declare"))
    manifest.declarations = read_declarations(*declare, errors);
  return head;
}

void OperatorLookup::add(const std::vector<OperatorDeclaration>& declarations) {
  for (const OperatorDeclaration& declaration : declarations)
    declarations_.emplace(declaration.name, &declaration);
}

void OperatorLookup::add_refused(const std::string& name, const std::string& file) {
  refused_.emplace(name, file);
}

const OperatorDeclaration* OperatorLookup::find(std::string_view name) const {
  const auto found = declarations_.find(name);
  return found == declarations_.end() ? nullptr : found->second;
}

std::string OperatorLookup::hint(const std::string& name) const {
  if (const auto refused = refused_.find(name); refused != refused_.end())
    return "Its declaration was refused with " + refused->second + ".";
  std::vector<std::string> names;
  for (const auto& [known, declaration] : declarations_) names.push_back(known);
  return yaml::nearest_hint(name, names);
}

void read_provider(const Node& root, Manifest& manifest, const OperatorLookup& operators,
                   Errors& errors, Errors& undeclared) {
  const MapReader map{root, "the manifest", errors};
  manifest.plugin = read_name(map, "plugin", errors);
  constexpr int kFarthestPriority = 1000000;
  manifest.priority =
      static_cast<int>(map.integer("priority", -kFarthestPriority, kFarthestPriority).value_or(0));
  if (const Node* requirements = map.find("requires"))
    manifest.requires_ = read_requirements(*requirements, errors);
  if (const Node* properties = map.find("properties"))
    manifest.properties = read_properties(*properties, errors);
  if (const Node* libraries = map.find("libraries"))
    manifest.libraries = read_libraries(*libraries, errors);

  const Node* bindings = map.require("operators");
  if (bindings == nullptr || !yaml::is_map(*bindings, "`operators`", errors)) return;
  if (bindings->entries.empty())
    errors.add(rules::kYamlWrongForm, bindings->position, "`operators`: at least one operator",
               "an empty map");
  for (const yaml::Entry& entry : bindings->entries) {
    const OperatorDeclaration* declaration = operators.find(entry.key);
    if (declaration != nullptr)
      read_operator(entry, *declaration, manifest, errors);
    else
      undeclared.add(rules::kManifestReference, entry.position, "an operator that is declared",
                     in_quotes(entry.key),
                     undeclared.full() ? std::string{} : operators.hint(entry.key));
  }
}

}  // namespace reading

std::variant<Manifest, std::vector<Rejection>> parse_manifest(
    const std::string& text, const std::filesystem::path& file,
    const std::vector<OperatorDeclaration>& declarations) {
  const Result<yaml::Node> root = yaml::parse(text, file);
  if (!root.ok()) return std::vector<Rejection>{root.rejection()};
  yaml::Errors errors{file};
  Manifest manifest;
  manifest.file = file;
  const reading::Head head = reading::read_head(*root, manifest, errors);
  for (const OperatorDeclaration& own : manifest.declarations)
    for (const OperatorDeclaration& other : declarations)
      if (own.name == other.name)
        errors.add(rules::kManifestDuplicate, {own.location.line, own.location.column},
                   "one declaration of " + yaml::in_quotes(own.name),
                   "another one at " + to_string(other.location));
  if (head.version_ok && head.has_provider) {
    reading::OperatorLookup operators;
    operators.add(manifest.declarations);
    operators.add(declarations);
    reading::read_provider(*root, manifest, operators, errors, errors);
  }
  if (!errors.empty()) return errors.rejections();
  return manifest;
}

}  // namespace opmux
