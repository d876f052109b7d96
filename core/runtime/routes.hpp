// SPDX-License-Identifier: Apache-2.0
//
// Which providers an operator's calls try, in which order.
// Thread safety: values and pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/config/config.hpp"
#include "core/manifest/manifest.hpp"

namespace opmux {

// What an operator's route says beside the order.
struct RouteSettings {
  std::optional<bool> strict;  // nothing: as the runtime as a whole
  OnError on_error = OnError::kRaise;
  Properties require = 0;
  QuarantineSettings quarantine;
  ShadowSettings shadow;

  bool operator==(const RouteSettings&) const = default;
};

// The order of providers (indexes into the manifest set) and the settings of each operator.
class RoutePolicy {
 public:
  // `rules` in ascending precedence: of those that match an operator, the last one that has a
  // setting wins. An operator without an order goes through all providers in the manifest set's.
  RoutePolicy(const ManifestSet& manifests, std::vector<RouteRule> rules);

  // `device` is cpu or cuda.
  std::vector<std::size_t> order(const std::string& operator_name, std::string_view device) const;
  // On any device: cpu's order, then what only cuda's has.
  std::vector<std::size_t> order(const std::string& operator_name) const;
  RouteSettings settings(const std::string& operator_name) const;
  // The providers that the operator's shadow names; none without one, or where it is the next of
  // the route.
  std::vector<std::size_t> shadow_providers(const std::string& operator_name) const;
  // Why a binding with these properties does not go with the route, if so.
  Check check_properties(const std::string& operator_name, const std::string& provider,
                         std::string_view device, Properties properties) const;

  // Providers that the route or the shadow of some operator which they bind names, parallel to the
  // manifest set's providers.
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
  // The order as the last rule that has one for the device writes it; null without one.
  const std::vector<std::string>* written_order(const std::string& operator_name,
                                                std::string_view device) const;

  const ManifestSet& manifests_;
  std::vector<RouteRule> rules_;
};

}  // namespace opmux
