// SPDX-License-Identifier: Apache-2.0
//
// `result:` of an alternative, held against the operator's and the provider's schema.
#include <algorithm>
#include <utility>

#include "core/base/text.hpp"
#include "core/manifest/reading.hpp"

namespace opmux::reading {
namespace {

using schema::Argument;
using schema::Schema;
using schema::TypeKind;
using yaml::describe;
using yaml::in_quotes;
using yaml::Kind;
using yaml::MapReader;

class ResultReader {
 public:
  ResultReader(const Node& where, const Schema& schema, const Schema* provider,
               Alternative& alternative, Errors& errors)
      : where_(where),
        schema_(schema),
        provider_(provider),
        alternative_(alternative),
        errors_(errors) {}

  void read(const Node* result) {
    std::vector<const Node*> entries;
    if (result != nullptr) {
      if (result->kind == Kind::kSequence)
        for (const Node& item : result->items) entries.push_back(&item);
      else
        entries.push_back(result);
    }
    if (provider_ != nullptr && !check_count(entries.size())) return;
    for (std::size_t i = 0; i < entries.size(); ++i) read_result(*entries[i], i);
  }

 private:
  void fault(const Node& node, std::string expected, std::string found, std::string hint = {}) {
    errors_.add(rules::kManifestMapping, node.position, std::move(expected), std::move(found),
                std::move(hint));
  }

  bool check_count(std::size_t count) {
    const std::size_t returned = provider_->returns.size();
    const std::string function = in_quotes(provider_->qualified_name());
    // The entries of a provider that returns one list of tensors are the list's items.
    if (returns_list() ? count > 0 : count == returned) return true;
    fault(where_,
          returns_list()
              ? "`result` with an entry for each tensor of the list that " + function + " returns"
              : "`result` with " + std::to_string(returned) + " entries, as many as " + function +
                    " returns",
          count == 0 ? "none" : std::to_string(count),
          returned == 0 ? "Remove `result`." : "Say {copy_to: ARGUMENT} or ignore for each.");
    return false;
  }

  bool returns_list() const {
    return provider_ != nullptr && provider_->returns.size() == 1 &&
           provider_->returns[0].type.kind == TypeKind::kList &&
           provider_->returns[0].type.elements.at(0).kind == TypeKind::kTensor;
  }

  void read_result(const Node& node, std::size_t index) {
    if (node.kind == Kind::kScalar && !node.quoted && node.text == "ignore") {
      alternative_.results.push_back({});
      return;
    }
    if (node.kind != Kind::kMap) {
      errors_.add(rules::kYamlWrongForm, node.position, "`result`: {copy_to: ARGUMENT} or ignore",
                  describe(node));
      return;
    }
    const MapReader map{node, "`result`", {"copy_to", "infinity"}, errors_};
    const Node* target_node = map.require("copy_to");
    if (target_node == nullptr) return;
    const int target = read_argument_name(*target_node, "`copy_to`", schema_, errors_);
    if (target < 0) return;
    const Argument& argument = schema_.arguments[static_cast<std::size_t>(target)];
    if (!schema::is_written(argument) || !schema::is_tensor(argument.type)) {
      fault(*target_node, "`copy_to`: a tensor that the operator writes",
            in_quotes(argument.name) + " of type " + schema::to_string(argument.type) +
                (schema::is_written(argument) ? "" : ", which it only reads"));
      return;
    }
    if (provider_ != nullptr && !returns_list() &&
        !schema::is_tensor(provider_->returns[index].type)) {
      fault(*target_node,
            "ignore for result " + std::to_string(index + 1) + " of " +
                in_quotes(provider_->qualified_name()) + ", since only a Tensor can be copied",
            "copy_to for type " + schema::to_string(provider_->returns[index].type));
      return;
    }
    if (std::any_of(alternative_.results.begin(), alternative_.results.end(),
                    [&](const ResultTarget& other) { return other.argument == target; })) {
      fault(*target_node, "each result copied into another argument",
            in_quotes(argument.name) + " twice");
      return;
    }
    ResultTarget result{target, false};
    if (const Node* infinity = map.find("infinity")) {
      result.negative_infinity = infinity->kind == Kind::kScalar && infinity->text == "negative";
      if (!result.negative_infinity)
        errors_.add(rules::kYamlWrongForm, infinity->position,
                    "`infinity: negative`: +inf of the provider is -inf of the operator",
                    describe(*infinity));
    }
    alternative_.results.push_back(result);
  }

  const Node& where_;
  const Schema& schema_;
  const Schema* provider_;
  Alternative& alternative_;
  Errors& errors_;
};

}  // namespace

void read_results(const Node& where, const Node* result, const Schema& schema,
                  const Schema* provider, Alternative& alternative, Errors& errors) {
  ResultReader{where, schema, provider, alternative, errors}.read(result);
}

}  // namespace opmux::reading
