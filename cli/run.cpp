// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/bindings.hpp"
#include "cli/calling.hpp"
#include "cli/command.hpp"
#include "cli/declarations.hpp"
#include "cli/output.hpp"
#include "cli/rejections.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/compare/floats.hpp"

namespace opmux::cli {
namespace {

using Json = nlohmann::ordered_json;

// Why a provider that stands earlier in the route did not serve.
struct PassedOver {
  std::string provider;
  std::string reason;
  std::optional<Rejection> rejection;
};

struct Outcome {
  std::string provider;
  std::string library;  // path, empty for native
  std::string place;    // as `opmux list` writes it
  bool fell_back = false;
  std::vector<PassedOver> passed_over;
  ExampleCall outputs;
};

std::string shapes_in_words(const schema::Schema& schema, const ExampleCall& call) {
  std::string words;
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const auto* tensor = std::get_if<HostTensor>(&call.arguments[i]);
    if (tensor == nullptr) continue;
    if (!words.empty()) words += ", ";
    words += schema.arguments[i].name + " [";
    for (std::size_t dim = 0; dim < tensor->shape.size(); ++dim)
      words += (dim == 0 ? "" : ", ") + std::to_string(tensor->shape[dim]);
    words += "]";
  }
  return words;
}

std::string time_in_words(double nanoseconds) {
  if (nanoseconds < 1e3) return fmt::format("{:.0f} ns", nanoseconds);
  if (nanoseconds < 1e6) return fmt::format("{:.2f} us", nanoseconds / 1e3);
  return fmt::format("{:.2f} ms", nanoseconds / 1e6);
}

PassedOver passed_over(const std::string& provider, const Status& status) {
  PassedOver passed{provider, status.message(), std::nullopt};
  if (const Rejection* rejection = status.rejection()) {
    passed.rejection = *rejection;
    passed.reason = in_short(*rejection);
  }
  return passed;
}

// What stands before `server` in the route: stored rejections, and what a callable binding answers
// to the same inputs.
std::vector<PassedOver> find_passed_over(const OperatorReport& report, const BoxedOperator& target,
                                         const std::string& server, const ExampleCall& inputs,
                                         const Place& place) {
  std::vector<PassedOver> passed;
  for (const BindingReport& binding : report.bindings) {
    if (binding.device != name_of(place)) continue;
    if (binding.provider == server) break;
    if (binding.rejection) {
      passed.push_back(passed_over(binding.provider, Status{*binding.rejection}));
    } else if (!binding.routed) {
      passed.push_back({binding.provider, "the configuration's route leaves it out", std::nullopt});
    } else if (!binding.callable) {
      passed.push_back({binding.provider, "it is not mapped in this process", std::nullopt});
    } else {
      const StatusOr<ExampleCall> answer = call_once(target, binding.provider, inputs, place);
      if (!answer.ok()) passed.push_back(passed_over(binding.provider, answer.status()));
    }
  }
  return passed;
}

class RunCommand {
 public:
  RunCommand(const CommonOptions& common, const RunOptions& options)
      : common_(common), options_(options) {}

  int execute() {
    if (const auto code = find_declaration()) return *code;
    if (const auto code = make_inputs()) return *code;
    Options runtime_options = cli::runtime_options(common_);
    StatusOr<Runtime> opened = Runtime::open(runtime_options);
    if (!opened.ok()) return open_failed(opened.status(), common_.json);
    const Runtime& runtime = *opened;
    const Report report = runtime.report();
    const OperatorReport* found = report.find(options_.operator_name);
    const StatusOr<BoxedOperator> target = runtime.boxed(options_.operator_name);
    if (found == nullptr || !target.ok()) {
      print_error(target.ok() ? "the runtime does not know the operator"
                              : printable_lines(target.status().message()));
      return kFinding;
    }
    keep_notes(report);
    if (const auto code = check_provider(report)) return *code;
    if (const auto code = choose_place(runtime, *found)) return *code;

    Outcome outcome;
    Status served = serve(*found, *target, outcome);
    if (!served.ok()) return failed(*found, served);
    const std::string provider = options_.provider == outcome.provider ? outcome.provider : "";
    const StatusOr<Timing> timing = time_calls(*target, provider, inputs_, place_, options_.repeat);
    if (!timing.ok()) return failed(*found, timing.status());
    std::optional<StatusOr<Comparison>> comparison;
    if (options_.compare && outcome.provider == "native" && !notes_.empty()) {
      // A refused manifest may be that of the provider that was meant.
      comparison = StatusOr<Comparison>(Status(
          StatusCode::kNotFound, "native served the call itself, since a manifest was refused"));
    } else if (options_.compare && find_binding(*found, "native", "cpu") == nullptr) {
      comparison = StatusOr<Comparison>(Status(
          StatusCode::kNotFound, "opmux has no native kernel of " + options_.operator_name +
                                     ", so there is nothing to compare with. Leave out "
                                     "--compare, or check the numbers in a test of your own"));
    } else if (options_.compare)
      comparison = compare_with_native(*target, declaration_, inputs_, outcome.outputs);
    return tell(outcome, *timing, comparison);
  }

 private:
  std::optional<int> find_declaration() {
    Result<std::vector<OperatorDeclaration>> declarations = read_declarations(common_);
    if (!declarations.ok()) return open_failed(Status{declarations.rejection()}, common_.json);
    std::vector<std::string> names;
    for (OperatorDeclaration& each : *declarations) {
      names.push_back(each.name);
      if (each.name == options_.operator_name) {
        declaration_ = std::move(each);
        if (declaration_.example) return std::nullopt;
        return open_failed(
            Status{StatusCode::kUnsupported, "the declaration of " + options_.operator_name +
                                                 " in " + declaration_.location.file.string() +
                                                 " has no example to call it with"},
            common_.json);
      }
    }
    if (names.empty())
      return open_failed(
          Status{StatusCode::kNotFound, "no manifest declares an operator; see `opmux doctor`"},
          common_.json);
    const std::string near = nearest(options_.operator_name, names);
    return usage_error(
        "no operator is named `" + printable(options_.operator_name) + "`. " + did_you_mean(near),
        near.empty() ? "Type `opmux list` to see all." : "Type `opmux run " + near + "`.");
  }

  std::optional<int> make_inputs() {
    const std::vector<std::string>& known = declaration_.dtypes;
    dtype_name_ = !options_.dtype.empty() ? options_.dtype : known.empty() ? "float32" : known[0];
    const auto dtype = dtype_of(dtype_name_);
    const bool is_known = known.empty()
                              ? options_.dtype.empty()
                              : std::find(known.begin(), known.end(), dtype_name_) != known.end();
    if (!dtype || !is_known)
      return usage_error("--dtype: " + options_.operator_name + " takes " +
                             (known.empty() ? "no --dtype" : join(known, ", ")) + ", not `" +
                             printable(dtype_name_) + "`. " +
                             did_you_mean(nearest(dtype_name_, known)),
                         "");
    dims_ = declaration_.example->dims;
    if (!options_.shape.empty()) {
      Result<Dims> dims = parse_shape(options_.shape, dims_);
      if (!dims.ok()) return wrong_shape(dims.rejection());
      dims_ = *std::move(dims);
    }
    Result<ExampleCall> inputs = make_example(declaration_, dims_, *dtype, options_.seed);
    if (!inputs.ok()) return wrong_shape(inputs.rejection());
    inputs_ = *std::move(inputs);
    return std::nullopt;
  }

  int wrong_shape(const Rejection& rejection) const {
    std::string example;
    for (const auto& [name, value] : declaration_.example->dims)
      example += (example.empty() ? "" : ",") + name + "=" + std::to_string(value);
    // The rule's remedy is for the author of the example.
    const bool says_more = rejection.hint != rules::kManifestExample.remedy;
    return usage_error(
        "--shape: " + (rejection.subject.empty() ? "" : printable(rejection.subject) + ": ") +
            "expected " + rejection.expected + ", found " + printable(rejection.found) + ". " +
            (says_more ? rejection.hint : ""),
        "Type --shape " + example + " or some of these, or sizes in this order.");
  }

  // Files that were refused may have held the provider that is missing from the route. That there
  // is no environment is told by each provider that misses one.
  void keep_notes(const Report& report) {
    for (const Rejection& rejection : report.rejections)
      if (rejection.rule != rules::kDiscoveryNoEnvironment.id) notes_.push_back(rejection);
  }

  void print_notes() const {
    RejectionList list;
    for (const Rejection& note : notes_) list.add(note);
    if (notes_.empty()) return;
    print("");
    print(styled(Style::kWarning, "Refused, and not used:"));
    list.print();
  }

  std::optional<int> check_provider(const Report& report) const {
    if (options_.provider.empty()) return std::nullopt;
    std::vector<std::string> names;
    for (const ProviderReport& provider : report.providers) names.push_back(provider.name);
    for (const OperatorReport& each : report.operators)
      for (const BindingReport& binding : each.bindings) names.push_back(binding.provider);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    if (std::find(names.begin(), names.end(), options_.provider) != names.end())
      return std::nullopt;
    const int code =
        usage_error("--provider: no manifest describes `" + printable(options_.provider) + "`. " +
                        did_you_mean(nearest(options_.provider, names)),
                    "Providers: " + join(names, ", ") + ".");
    for (const Rejection& note : notes_) print_error("refused: " + printable_line(to_string(note)));
    return code;
  }

  // The first of the bindings on a device, of the provider that was asked for if there was one.
  const BindingReport* first_binding(const OperatorReport& report,
                                     const std::string& device) const {
    for (const BindingReport& binding : report.bindings)
      if (binding.device == device &&
          (options_.provider.empty() || binding.provider == options_.provider))
        return &binding;
    return nullptr;
  }

  // The device that was asked for; else that of the provider; else the CPU, unless only CUDA can
  // serve.
  std::optional<int> choose_place(const Runtime& runtime, const OperatorReport& report) {
    std::string device = options_.device;
    if (device.empty()) {
      const auto serves_on = [&](const std::string& name) {
        return std::any_of(
            report.bindings.begin(), report.bindings.end(), [&](const BindingReport& binding) {
              return binding.device == name && binding.callable &&
                     (options_.provider.empty() || binding.provider == options_.provider);
            });
      };
      // Where nothing is bound on the CPU, what stops CUDA is the answer.
      const bool only_cuda = options_.provider.empty() && first_binding(report, "cpu") == nullptr &&
                             first_binding(report, "cuda") != nullptr;
      device = !serves_on("cpu") && (serves_on("cuda") || only_cuda) ? "cuda" : "cpu";
    }
    if (device == "cpu") return std::nullopt;
    place_.device = Device::cuda();
    place_.services = runtime.device_services(place_.device);
    if (place_.services != nullptr) return std::nullopt;
    const BindingReport* binding = first_binding(report, "cuda");
    // Asked for CUDA alone, the answer is about devices; else it is why this binding is no use.
    const bool wants_binding = options_.device.empty() || !options_.provider.empty();
    if (wants_binding && binding != nullptr && binding->rejection)
      return failed(report, Status{*binding->rejection});
    const Rejection rejection =
        reject(rules::kContractNoDevice, options_.operator_name + " on cuda",
               "a mapped plugin module that offers CUDA memory", "none",
               "See `opmux doctor`; a GPU, its driver and a provider for it are needed.");
    return failed(report, Status{rejection});
  }

  Status serve(const OperatorReport& report, const BoxedOperator& target, Outcome& outcome) {
    if (!options_.provider.empty()) {
      StatusOr<ExampleCall> outputs = call_requested(report, target);
      if (outputs.ok()) {
        outcome.outputs = std::move(*outputs);
        name_server(report, options_.provider, outcome);
        return {};
      }
      if (common_.strict || outputs.status().code() == StatusCode::kFailedInFlight)
        return outputs.status();
      outcome.fell_back = true;
      outcome.passed_over.push_back(passed_over(options_.provider, outputs.status()));
    }
    StatusOr<ExampleCall> outputs = call_once(target, "", inputs_, place_);
    if (!outputs.ok())
      return outcome.passed_over.empty() || outcome.passed_over[0].rejection == std::nullopt
                 ? outputs.status()
                 : Status{outputs.status().code(), outputs.status().message(),
                          *outcome.passed_over[0].rejection};
    outcome.outputs = std::move(*outputs);
    name_server(report, target.last_provider(), outcome);
    for (PassedOver& passed : find_passed_over(report, target, outcome.provider, inputs_, place_))
      if (passed.provider != options_.provider) outcome.passed_over.push_back(std::move(passed));
    return {};
  }

  // A call of the provider that was asked for. Where it has no binding on this device, the reason
  // is what it has.
  StatusOr<ExampleCall> call_requested(const OperatorReport& report,
                                       const BoxedOperator& target) const {
    const std::string device = name_of(place_);
    if (first_binding(report, device) != nullptr)
      return call_once(target, options_.provider, inputs_, place_);
    const std::string other = device == "cpu" ? "cuda" : "cpu";
    const BindingReport* elsewhere = first_binding(report, other);
    if (elsewhere != nullptr && elsewhere->rejection && options_.device.empty())
      return Status{*elsewhere->rejection};
    return Status{reject(
        rules::kRegistryNotRouted, options_.operator_name,
        "a binding of provider " + options_.provider + " on " + device,
        elsewhere != nullptr ? "one on " + other + " only" : "none: it does not bind this operator",
        elsewhere != nullptr ? "Use --device " + other + "."
                             : "See `opmux explain " + options_.operator_name + "`.")};
  }

  void name_server(const OperatorReport& report, const std::string& provider,
                   Outcome& outcome) const {
    outcome.provider = provider;
    const BindingReport* binding = find_binding(report, provider, name_of(place_));
    if (binding == nullptr) return;
    outcome.library = binding->library.value_or("");
    outcome.place = where(*binding);
  }

  // Nothing served.
  int failed(const OperatorReport& report, const Status& status) const {
    if (common_.json) {
      Json json = head();
      json["error"] = status.message();
      json["rejection"] = status.rejection() != nullptr ? as_json(*status.rejection()) : Json{};
      json["rejections"] = notes_as_json();
      print(json.dump(2, ' ', false, Json::error_handler_t::replace));
      return kFinding;
    }
    print_error(options_.operator_name + " was not served: " + printable_lines(status.message()));
    if (report.bindings.empty()) print_error("no provider binds it, and there is no native kernel");
    if (status.rejection() != nullptr) {
      print("");
      print_rejection(*status.rejection(), 0);
    }
    print_notes();
    return kFinding;
  }

  Json notes_as_json() const {
    Json list = Json::array();
    for (const Rejection& note : notes_) list.push_back(as_json(note));
    return list;
  }

  Json head() const {
    Json dims = Json::object();
    for (const auto& [name, value] : dims_) dims[name] = value;
    return {{"operator", options_.operator_name},
            {"dtype", dtype_name_},
            {"device", name_of(place_)},
            {"dims", std::move(dims)},
            {"requested_provider", options_.provider.empty() ? Json{} : Json(options_.provider)}};
  }

  int tell(const Outcome& outcome, const Timing& timing,
           const std::optional<StatusOr<Comparison>>& comparison) const {
    const int code = comparison && (!comparison->ok() || !(*comparison)->within) ? kFinding : kFine;
    if (common_.json) {
      tell_json(outcome, timing, comparison);
      return code;
    }
    print(fmt::format("{} {} on {}: {}", styled(Style::kBold, options_.operator_name), dtype_name_,
                      name_of(place_), shapes_in_words(declaration_.schema, inputs_)));
    print("served by  " + styled(Style::kGood, outcome.provider) +
          (outcome.place.empty() ? "" : ", " + printable(outcome.place)));
    if (outcome.fell_back)
      print(styled(Style::kWarning, "fallback   ") + "asked for " + options_.provider +
            ", which cannot serve this call");
    for (const PassedOver& passed : outcome.passed_over) {
      print(wrapped_lines("not " + passed.provider + ": " + passed.reason, 4));
      if (passed.rejection && !passed.rejection->hint.empty())
        print("    " + wrapped_lines(passed.rejection->hint, 4));
    }
    if (timing.calls > 0)
      print(fmt::format("time       {} at least, {} median of {}", time_in_words(timing.min_ns),
                        time_in_words(timing.median_ns),
                        counted(static_cast<std::size_t>(timing.calls), "call")));
    if (comparison) tell_comparison(outcome, *comparison);
    print_notes();
    return code;
  }

  void tell_comparison(const Outcome& outcome, const StatusOr<Comparison>& comparison) const {
    if (!comparison.ok()) {
      print(styled(Style::kBad, "compare    ") +
            wrapped_lines("no native result: " + comparison.status().message(), 11));
      return;
    }
    print(styled(comparison->within ? Style::kGood : Style::kBad, "compare    ") +
          outcome.provider + " with native: " + in_words(*comparison, declaration_));
  }

  void tell_json(const Outcome& outcome, const Timing& timing,
                 const std::optional<StatusOr<Comparison>>& comparison) const {
    Json json = head();
    json["provider"] = outcome.provider;
    json["library"] = outcome.library.empty() ? Json{} : Json(outcome.library);
    json["fallback"] = outcome.fell_back;
    json["passed_over"] = Json::array();
    for (const PassedOver& passed : outcome.passed_over)
      json["passed_over"].push_back(
          {{"provider", passed.provider},
           {"reason", passed.reason},
           {"rejection", passed.rejection ? as_json(*passed.rejection) : Json{}}});
    json["time"] = {
        {"min_ns", timing.min_ns}, {"median_ns", timing.median_ns}, {"calls", timing.calls}};
    if (comparison && comparison->ok()) {
      const Comparison& result = **comparison;
      json["comparison"] = {
          {"provider", "native"},
          {"within", result.within},
          {"max_ulps", result.max_ulps},
          {"max_absolute", result.max_absolute},
          {"elements", result.elements},
          {"outside", result.outside},
          {"worst", result.worst},
          {"tolerance",
           {{"ulps", declaration_.tolerance_ulps}, {"absolute", declaration_.tolerance_absolute}}}};
    } else if (comparison) {
      json["comparison"] = {{"provider", Json{}}, {"error", comparison->status().message()}};
    } else {
      json["comparison"] = Json{};
    }
    json["rejections"] = notes_as_json();
    print(json.dump(2, ' ', false, Json::error_handler_t::replace));
  }

  const CommonOptions& common_;
  const RunOptions& options_;
  OperatorDeclaration declaration_;
  std::string dtype_name_;
  Dims dims_;
  ExampleCall inputs_;
  Place place_;
  std::vector<Rejection> notes_;  // of files and folders, not of bindings
};

}  // namespace

int run(const CommonOptions& common, const RunOptions& options) {
  return RunCommand{common, options}.execute();
}

}  // namespace opmux::cli
