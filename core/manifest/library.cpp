// SPDX-License-Identifier: Apache-2.0
//
// `libraries:` of a provider.
#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using yaml::in_quotes;
using yaml::Kind;
using yaml::MapReader;

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// The name in lower case with runs of `-`, `_` and `.` as one `-`, as Python's packaging compares
// names; empty when it is no name.
std::string normalised_distribution(std::string_view name) {
  if (name.empty() || !is_alphanumeric(name.front()) || !is_alphanumeric(name.back())) return {};
  std::string normal;
  for (const char c : name) {
    if (is_alphanumeric(c))
      normal += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c != '-' && c != '_' && c != '.')
      return {};
    else if (normal.back() != '-')
      normal += '-';
  }
  return normal;
}

// Empty when the glob is good, else what is wrong with it.
std::string glob_fault(const std::string& glob) {
  if (glob.empty()) return "an empty text";
  if (glob.front() == '/') return "an absolute path";
  if (glob.front() == '~') return "a path that begins with ~";
  if (glob.back() == '/') return "a folder";
  for (const std::string& part : split(glob, '/')) {
    if (part == "..") return "a path with ..";
    if (part.empty() || part == ".") return "a path with an empty part";
  }
  return {};
}

LibrarySource read_source(const Node& node, const std::string& what, bool may_be_optional,
                          bool& optional, Errors& errors) {
  LibrarySource source;
  source.location = location(errors, node.position);
  const MapReader map{
      node,
      what,
      {"distribution", "glob", "version", "cpu", "python_extension", "libpython", "optional"},
      errors};
  if (!map.is_map()) return source;

  if (const auto name = map.text("distribution")) {
    source.distribution = normalised_distribution(*name);
    if (source.distribution.empty())
      errors.add(rules::kYamlWrongForm, map.find("distribution")->position,
                 "`distribution`: the name of a Python distribution: letters, digits, - _ .",
                 in_quotes(*name));
  }
  if (const auto glob = map.required_text("glob")) {
    source.glob = *glob;
    if (const std::string fault = glob_fault(*glob); !fault.empty())
      errors.add(rules::kYamlWrongForm, map.find("glob")->position,
                 "`glob`: a relative path that stays in its root, e.g. vllm/_C.*.so",
                 fault + ": " + in_quotes(*glob));
  }
  if (const Node* version = map.find("version")) {
    source.version = read_range(*version, "`version`", errors);
    if (source.distribution.empty() && map.find("distribution") == nullptr)
      errors.add(rules::kYamlMissingKey, version->position,
                 "`distribution` beside `version`, which is its version", "no such key");
  }
  if (const auto features = map.texts("cpu")) {
    for (const std::string& feature : *features) {
      const bool good =
          is_identifier(feature) &&
          std::none_of(feature.begin(), feature.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
      if (!good)
        errors.add(rules::kYamlWrongForm, map.find("cpu")->position,
                   "`cpu`: features as /proc/cpuinfo names them, e.g. avx2, avx512f, amx_tile",
                   in_quotes(feature));
    }
    source.cpu = *features;
  }
  source.python_extension = map.boolean("python_extension").value_or(false);
  source.libpython = map.boolean("libpython").value_or(false);
  if (source.python_extension && source.libpython)
    errors.add(rules::kYamlWrongForm, map.find("libpython")->position,
               "`python_extension` (Python's functions may be absent) or `libpython` (Python is "
               "mapped before it)",
               "both");
  if (const Node* value = map.find("optional")) {
    if (may_be_optional)
      optional = yaml::read_bool(*value, "`optional`", errors).value_or(false);
    else
      errors.add(rules::kYamlWrongForm, value->position,
                 "`optional` at the library's first candidate, for the whole library",
                 "`optional` at a later candidate");
  }
  return source;
}

}  // namespace

std::vector<Library> read_libraries(const Node& node, Errors& errors) {
  std::vector<Library> libraries;
  if (!yaml::is_map(node, "`libraries`", errors)) return libraries;
  for (const yaml::Entry& entry : node.entries) {
    Library library;
    library.name = entry.key;
    library.location = location(errors, entry.position);
    const std::string what = "library " + in_quotes(entry.key);
    if (!is_identifier(entry.key))
      errors.add(rules::kYamlWrongForm, entry.position, "a library's name: letters, digits and _",
                 in_quotes(entry.key));
    if (entry.value.kind == Kind::kSequence && !entry.value.items.empty()) {
      for (const Node& item : entry.value.items)
        library.candidates.push_back(
            read_source(item, what, library.candidates.empty(), library.optional, errors));
    } else if (entry.value.kind == Kind::kMap) {
      library.candidates.push_back(read_source(entry.value, what, true, library.optional, errors));
    } else {
      errors.add(rules::kYamlWrongForm, entry.value.position,
                 what + ": a map, or a list of maps in the order to try",
                 yaml::describe(entry.value));
    }
    libraries.push_back(std::move(library));
  }
  return libraries;
}

}  // namespace opmux::reading
