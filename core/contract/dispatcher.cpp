// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"
#include "core/schema/schema.hpp"

namespace opmux {
namespace {

// "_C::silu_and_mul" of "_C::silu_and_mul(Tensor! result, Tensor input) -> ()"
std::string_view name_of(std::string_view schema) {
  return trim(schema.substr(0, schema.find('(')));
}

std::string not_registered(const std::string& name, const std::set<std::string>& names) {
  if (names.empty()) return "the library registers no operator";
  const std::vector<std::string> candidates(names.begin(), names.end());
  const std::string similar = nearest(name, candidates);
  const std::string count =
      std::to_string(names.size()) + " other" + (names.size() == 1 ? "" : "s");
  return similar.empty() ? "not among the library's operators; it registers " + count
                         : "not among the library's operators; the nearest is " +
                               printable(similar) + " (" + count + ")";
}

}  // namespace

Check check_dispatcher_contract(const DispatcherContract& contract,
                                const std::filesystem::path& library,
                                const std::vector<Registration>& all) {
  const std::string name = contract.schema.qualified_name();
  const std::string file = library.string();
  const std::string subject = file + ": " + name;

  const Registration* registered = nullptr;
  std::set<std::string> keys;       // of this operator, in this library
  std::set<std::string> names;      // of this library
  std::set<std::string> elsewhere;  // libraries that register this operator
  for (const Registration& registration : all) {
    const bool same_name = name_of(registration.schema) == name;
    if (registration.library != file) {
      if (same_name) elsewhere.insert(registration.library);
      continue;
    }
    names.emplace(name_of(registration.schema));
    if (!same_name) continue;
    if (registered == nullptr) registered = &registration;
    keys.insert(registration.dispatch_keys.begin(), registration.dispatch_keys.end());
  }

  if (registered == nullptr && !elsewhere.empty()) {
    const std::vector<std::string> libraries(elsewhere.begin(), elsewhere.end());
    return reject(rules::kContractWrongLibrary, subject, name + " registered by " + file,
                  "registered by " + join(libraries, ", "));
  }
  if (registered == nullptr) {
    return reject(rules::kContractOperatorMissing, subject, name + " registered by " + file,
                  not_registered(name, names));
  }

  const std::string expected =
      contract.schema_text.empty() ? schema::to_string(contract.schema) : contract.schema_text;
  auto parsed = schema::parse(registered->schema);
  if (!parsed) {
    const Rejection& reason = parsed.rejection();
    return reject(rules::kContractSchemaMismatch, subject, expected, printable(registered->schema),
                  "The registered schema cannot be read: " + reason.subject + ", expected " +
                      reason.expected + ", found " + reason.found + ".");
  }
  const std::string difference = schema::difference(contract.schema, *parsed);
  if (!difference.empty()) {
    return reject(rules::kContractSchemaMismatch, subject, expected, schema::to_string(*parsed),
                  difference + ". " + rules::kContractSchemaMismatch.remedy);
  }

  if (!keys.contains(contract.dispatch_key)) {
    const std::vector<std::string> list(keys.begin(), keys.end());
    return reject(rules::kContractDispatchKeyMissing, subject,
                  "a kernel under " + contract.dispatch_key,
                  list.empty() ? "no kernel" : "kernels under " + printable(join(list, ", ")));
  }
  return std::nullopt;
}

}  // namespace opmux
