// SPDX-License-Identifier: Apache-2.0
//
// Which providers an operator's calls try, in which order.
// Thread safety: values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/config/config.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux {

// The order of providers (indexes into the manifest set) for each operator.
class RoutePolicy {
 public:
  // `rules` in ascending precedence: the last one that matches an operator wins. An operator
  // without a rule goes through all providers in the manifest set's order.
  RoutePolicy(const ManifestSet& manifests, std::vector<RouteRule> rules);

  std::vector<std::size_t> order(const std::string& operator_name) const;
  // Providers that some operator's route names, parallel to the manifest set's providers.
  std::vector<bool> routed() const;
  // Routed providers as one process would load them: by their best place in any route, then the
  // manifest set's order.
  std::vector<std::size_t> load_order() const;

  // In ascending precedence.
  const std::vector<RouteRule>& rules() const { return rules_; }

  // Names in rules that mean nothing: unknown providers, patterns that match no operator. `file` is
  // the configuration.
  std::vector<Rejection> unknown_names(const std::string& file) const;

 private:
  const RouteRule* rule_for(const std::string& operator_name) const;

  const ManifestSet& manifests_;
  std::vector<RouteRule> rules_;
};

}  // namespace opmux
