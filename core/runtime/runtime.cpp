// SPDX-License-Identifier: Apache-2.0
#include "opmux/runtime.hpp"

#include <chrono>
#include <exception>
#include <filesystem>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/runtime/state.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// Relative paths count from the current folder, once: it may change later.
Options with_absolute_paths(Options options) {
  for (fs::path& folder : options.environments) folder = fs::absolute(folder);
  for (fs::path& folder : options.manifests) folder = fs::absolute(folder);
  for (fs::path& file : options.manifest_files) file = fs::absolute(file);
  if (options.lock_file) options.lock_file = fs::absolute(*options.lock_file);
  if (options.config_file) options.config_file = fs::absolute(*options.config_file);
  if (options.report_socket && !options.report_socket->empty())
    options.report_socket = fs::absolute(*options.report_socket);
  return options;
}

}  // namespace

struct RouteScope::Impl {
  OverrideScope scope;
};

RouteScope::RouteScope(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
RouteScope::RouteScope(RouteScope&&) noexcept = default;
RouteScope::~RouteScope() = default;

StatusOr<Runtime> Runtime::open(const Options& options) {
  try {
    auto state = std::make_unique<State>(with_absolute_paths(options));
    Status status = state->open();
    if (!status.ok()) return status;
    return Runtime(std::move(state));
  } catch (const std::exception& problem) {
    // Memory that ran out, or a system call of the standard library that has no quiet form.
    return internal_error("opmux could not start", problem);
  }
}

Runtime::Runtime(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
Runtime::~Runtime() = default;

StatusOr<BoxedOperator> Runtime::boxed(std::string_view name) const {
  if (const detail::OperatorState* found = state_->registry().find(name))
    return BoxedOperator(found);
  std::vector<std::string> names;
  for (const auto& known : state_->registry().operators()) names.push_back(known->name);
  const std::string near = nearest(name, names);
  Rejection rejection =
      reject(rules::kRegistryUnknownOperator, printable(name), "a declared operator", "none",
             near.empty() ? "See `opmux list`." : "Did you mean `" + near + "`?");
  std::string message = to_string(rejection);
  return Status(StatusCode::kNotFound, std::move(message), std::move(rejection));
}

Report Runtime::report() const { return make_report(*state_); }

Status Runtime::reload() { return state_->change("reload"); }

Status Runtime::set_routes(const Routes& routes) { return state_->set_routes(routes); }

StatusOr<RouteScope> Runtime::with_route(const Routes& routes) const {
  try {
    StatusOr<OverrideScope> scope = state_->override_routes(routes);
    if (!scope.ok()) return scope.status();
    return RouteScope(std::make_unique<RouteScope::Impl>(RouteScope::Impl{std::move(*scope)}));
  } catch (const std::exception& problem) {
    return internal_error("with_route", problem);
  }
}

Status Runtime::wait_ready(std::chrono::milliseconds deadline) const {
  return state_->wait_ready(deadline);
}

const OpmuxDeviceServices* Runtime::device_services(Device device) const {
  if (device.type != OPMUX_DEVICE_CUDA) return nullptr;
  const Published published = state_->published();
  for (const PluginModule& module : published.preparation->bindings.modules) {
    if (module.module->device_services != nullptr) return module.module->device_services;
  }
  return nullptr;
}

}  // namespace opmux
