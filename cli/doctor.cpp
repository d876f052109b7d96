// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/bindings.hpp"
#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/rejections.hpp"
#include "core/base/environment.hpp"
#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/config/config.hpp"
#include "core/runtime/locations.hpp"

namespace opmux::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

enum class State {
  kGood,
  kAbsent,   // not there, and nothing needs it
  kWarning,  // something is worse than it could be
  kProblem,  // something that should serve cannot
};

const char* word_for(State state) {
  switch (state) {
    case State::kGood:
      return "good";
    case State::kAbsent:
      return "absent";
    case State::kWarning:
      return "warning";
    case State::kProblem:
      return "problem";
  }
  return "";
}

struct Finding {
  std::string subject;
  State state = State::kGood;
  std::string text;
  std::string advice;
};

std::string size_in_words(std::uint64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  if (bytes < std::uint64_t{1024} * 1024)
    return fmt::format("{:.1f} KiB", static_cast<double>(bytes) / 1024.0);
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

std::uint64_t size_of_folder(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && entry != fs::recursive_directory_iterator{}; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || entry->is_symlink(ignored)) continue;
    const std::uintmax_t size = entry->file_size(ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

// The nearest folder above `path` that exists.
fs::path existing_parent(fs::path path) {
  std::error_code error;
  while (!path.empty() && !fs::exists(path, error) && path.has_relative_path())
    path = path.parent_path();
  return path;
}

// Tried rather than asked: /proc grants every right to root and makes no folder.
bool can_make_folder_in(const fs::path& parent) {
  std::string name = (parent / ".opmux-doctor-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return false;
  ::rmdir(name.c_str());
  return true;
}

Finding check_cache(const Config& config) {
  const fs::path folder = config.cache_folder.value_or(user_cache_folder());
  if (folder.empty())
    return {"cache", State::kWarning, "there is no home folder, so nothing is cached",
            "Set OPMUX_CACHE_DIR, XDG_CACHE_HOME or HOME."};
  std::error_code error;
  if (!fs::exists(folder, error)) {
    const bool can_make = can_make_folder_in(existing_parent(folder));
    return {"cache", can_make ? State::kGood : State::kWarning,
            folder.string() + (can_make ? ", empty" : " cannot be made"),
            can_make ? "" : "Set OPMUX_CACHE_DIR to a folder that can be written."};
  }
  const std::string text = folder.string() + ", " + size_in_words(size_of_folder(folder));
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return {"cache", State::kWarning, text + ", not writable: every start probes again",
            "Make it writable, or set OPMUX_CACHE_DIR."};
  return {"cache", State::kGood, text, ""};
}

Finding check_probe() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path modules = module_folder();
  for (const fs::path& candidate :
       {own / "opmux-probe", modules.parent_path() / "opmux-probe",
        modules.parent_path().parent_path() / "bin" / "opmux-probe", modules / "opmux-probe"}) {
    if (candidate.is_absolute() && ::access(candidate.c_str(), X_OK) == 0)
      return {"probe", State::kGood, candidate.string(), ""};
  }
  return {"probe", State::kProblem, "opmux-probe is not beside " + own.string(),
          "Reinstall opmux: no provider is used without it."};
}

Finding check_manifests(const Report& report) {
  std::size_t read = 0;
  std::size_t refused = 0;
  std::string other;
  for (const ManifestFileReport& manifest : report.manifests) {
    if (manifest.state == "read")
      ++read;
    else if (manifest.state == "rejected")
      ++refused;
    else
      other += "; " + manifest.path + ": " + manifest.state;
  }
  std::string text =
      counted(read, "manifest") + " read, " + std::to_string(refused) + " refused" + other;
  if (read == 0)
    return {"manifests", State::kProblem, text, "Reinstall opmux: its manifests are missing."};
  return {"manifests", refused > 0 ? State::kProblem : State::kGood, text,
          refused > 0 ? "See the rejections below." : ""};
}

Finding check_modules() {
  const fs::path folder = module_folder();
  if (folder.empty())
    return {"modules", State::kAbsent, "no folder of plugin modules",
            "Build those for torch with ./dev build --environment DIR."};
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator{}; entry.increment(error))
    if (entry->path().extension() == ".so") names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  if (names.empty())
    return {"modules", State::kAbsent, "none in " + folder.string(),
            "Build those for torch with ./dev build --environment DIR."};
  return {"modules", State::kGood, join(names, ", ") + " in " + folder.string(), ""};
}

bool is_named_by_a_route(const std::string& provider, const Config& config) {
  return std::any_of(config.routes.begin(), config.routes.end(), [&](const RouteRule& route) {
    const std::vector<std::string> named = named_providers(route);
    return std::find(named.begin(), named.end(), provider) != named.end();
  });
}

// The rejection that stands most often between a provider and its operators.
const Rejection* main_rejection(const Report& report, const std::string& provider) {
  const Rejection* found = nullptr;
  std::size_t most = 0;
  for (const OperatorReport& each : report.operators)
    for (const BindingReport& binding : each.bindings) {
      if (binding.provider != provider || !binding.rejection) continue;
      std::size_t same = 0;
      for (const OperatorReport& other : report.operators)
        for (const BindingReport& candidate : other.bindings)
          if (candidate.provider == provider && candidate.rejection &&
              candidate.rejection->rule == binding.rejection->rule)
            ++same;
      if (same > most) {
        most = same;
        found = &*binding.rejection;
      }
    }
  return found;
}

bool comes_with_opmux(const fs::path& manifest) {
  const fs::path shipped = shipped_manifest_folder();
  if (shipped.empty()) return false;
  const std::string relative = manifest.lexically_relative(shipped).string();
  return !relative.empty() && relative != "." && !relative.starts_with("..");
}

// Whether a binding is rejected because something that it needs is not installed, rather than
// because something that is here was refused. Modules of opmux's own providers are built one by
// one; that of a drop-in belongs beside its manifest.
bool tells_absence(const Rejection& rejection, const ProviderReport& provider) {
  if (rejection.rule == rules::kDiscoveryModuleMissing.id)
    return comes_with_opmux(provider.manifest);
  for (const Rule& rule :
       {rules::kDiscoveryNoEnvironment, rules::kDiscoveryDistributionMissing,
        rules::kDiscoveryNoMatch, rules::kDiscoveryTorchMissing, rules::kDiscoveryLibpythonMissing,
        rules::kContractNoDriver, rules::kContractNoDevice, rules::kRegistryNotRouted})
    if (rejection.rule == rule.id) return true;
  return false;
}

bool is_refused(const ProviderReport& provider, const Report& report) {
  for (const OperatorReport& each : report.operators)
    for (const BindingReport& binding : each.bindings)
      if (binding.provider == provider.name && binding.rejection &&
          !tells_absence(*binding.rejection, provider))
        return true;
  return false;
}

// A provider that serves nothing is a problem where its libraries are here, a part of it is here
// and refused, or a route names it; one that is merely not installed is none.
Finding check_provider(const ProviderReport& provider, const Report& report, const Config& config) {
  Finding finding{"provider " + provider.name, State::kGood, "", ""};
  finding.text = counted(provider.usable, "binding") + " usable";
  if (provider.rejected > 0) finding.text += ", " + std::to_string(provider.rejected) + " rejected";
  const Rejection* reason = main_rejection(report, provider.name);
  if (reason != nullptr) {
    finding.text += ": " + in_short(*reason);
    finding.advice = reason->hint;
  }
  const bool is_wanted = !provider.libraries.empty() || is_refused(provider, report) ||
                         is_named_by_a_route(provider.name, config);
  if (provider.usable == 0)
    finding.state = is_wanted ? State::kProblem : State::kAbsent;
  else if (provider.rejected > 0)
    finding.state = State::kWarning;
  return finding;
}

std::vector<Finding> examine(const Report& report, const Config& config) {
  std::vector<Finding> findings;
  findings.push_back({"config", State::kGood,
                      report.config_file.empty() ? "none, defaults" : report.config_file, ""});
  if (report.trust == "strict") findings.push_back({"trust", State::kGood, "strict", ""});
  if (!report.lock_file.empty()) findings.push_back({"lock", State::kGood, report.lock_file, ""});
  if (report.environments.empty()) {
    std::string text = "none to search";
    for (const Rejection& rejection : report.rejections)
      if (rejection.rule == "discovery.no_environment")
        text += ": " + rejection.subject + ": found " + rejection.found;
    findings.push_back({"environment", State::kAbsent, std::move(text),
                        "Name one with --environment DIR, `environments:` or VIRTUAL_ENV."});
  }
  for (const EnvironmentReport& environment : report.environments)
    findings.push_back(
        {"environment", State::kGood, environment.root + " (" + environment.origin + ")", ""});
  findings.push_back(
      report.torch_version.empty()
          ? Finding{"torch", State::kAbsent,
                    "none in use, for no provider got as far as needing it", ""}
          : Finding{"torch", State::kGood, report.torch_version + " in " + report.torch_path, ""});
  findings.push_back(
      report.driver.empty()
          ? Finding{"driver", State::kAbsent, "libcuda.so.1 not found: no NVIDIA driver", ""}
          : Finding{"driver", State::kGood,
                    report.driver +
                        (report.driver_cuda_version > 0
                             ? fmt::format(", CUDA {}.{}", report.driver_cuda_version / 1000,
                                           report.driver_cuda_version % 1000 / 10)
                             : ""),
                    ""});
  for (const DeviceReport& device : report.devices)
    findings.push_back({"device", State::kGood,
                        fmt::format("cuda:{} {}, compute capability {}", device.index, device.name,
                                    device.compute_capability),
                        ""});
  findings.push_back(check_manifests(report));
  findings.push_back(check_modules());
  findings.push_back(check_probe());
  findings.push_back(check_cache(config));
  for (const ProviderReport& provider : report.providers)
    findings.push_back(check_provider(provider, report, config));
  // What was named and is wrong. That there is nothing to search was said above.
  std::vector<Rejection> told;
  for (const Rejection& rejection : report.rejections) {
    const auto says_the_same = [&](const Rejection& other) {
      return other.rule == rejection.rule && other.expected == rejection.expected &&
             other.found == rejection.found;
    };
    if (rejection.rule == "discovery.no_environment" ||
        std::any_of(told.begin(), told.end(), says_the_same))
      continue;
    const auto more =
        std::count_if(report.rejections.begin(), report.rejections.end(), says_the_same) - 1;
    findings.push_back({rejection.rule, State::kProblem,
                        rejection.subject +
                            (more > 0 ? fmt::format(" and {} more", more) : std::string{}) +
                            ": expected " + rejection.expected + ", found " + rejection.found,
                        rejection.hint});
    told.push_back(rejection);
  }
  return findings;
}

Style style_of(State state) {
  switch (state) {
    case State::kGood:
      return Style::kGood;
    case State::kAbsent:
      return Style::kFaint;
    case State::kWarning:
      return Style::kWarning;
    case State::kProblem:
      return Style::kBad;
  }
  return Style::kPlain;
}

}  // namespace

int doctor(const CommonOptions& common) {
  Options options = runtime_options(common);
  options.load = false;
  const StatusOr<Runtime> runtime = Runtime::open(options);
  if (!runtime.ok()) return open_failed(runtime.status(), common.json);
  const Result<Config> config = load_config(common.config_file);
  if (!config.ok()) return open_failed(Status{config.rejection()}, common.json);

  const std::vector<Finding> findings = examine(runtime->report(), *config);
  const auto problems = static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& finding) { return finding.state == State::kProblem; }));
  const int code = problems == 0 ? kFine : kFinding;

  if (common.json) {
    Json list = Json::array();
    for (const Finding& finding : findings)
      list.push_back({{"subject", finding.subject},
                      {"state", word_for(finding.state)},
                      {"text", finding.text},
                      {"advice", finding.advice}});
    const Json json{{"problems", problems}, {"findings", std::move(list)}};
    print(json.dump(2, ' ', false, Json::error_handler_t::replace));
    return code;
  }
  for (const Finding& finding : findings) {
    print(fmt::format("{}{:<{}}{}", styled(style_of(finding.state), word_for(finding.state)), "",
                      9 - std::string{word_for(finding.state)}.size(),
                      wrapped_lines(finding.subject + ": " + finding.text, 11)));
    if (!finding.advice.empty() && finding.state != State::kGood)
      print("           " + wrapped_lines(finding.advice, 11));
  }
  print("");
  print(problems == 0 ? styled(Style::kGood, "Nothing is in the way.")
                      : styled(Style::kBad, counted(problems, "problem") + " to solve."));
  return code;
}

}  // namespace opmux::cli
