// SPDX-License-Identifier: Apache-2.0
#include "core/config/config.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/environment.hpp"
#include "core/base/files.hpp"
#include "core/base/log.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/yaml/fields.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

using yaml::Errors;
using yaml::in_quotes;
using yaml::MapReader;
using yaml::Node;

constexpr int kMostThreads = 4096;
constexpr const char* kDurationForm = "a duration such as 500ms, 10s or 2m, at most 1h in all";
constexpr const char* kTrustForm = "lax or strict";
constexpr const char* kLogForm = "one of trace, debug, info, warn, error, off";

const std::vector<std::string>& log_levels() {
  static const std::vector<std::string> names{"trace", "debug", "info", "warn", "error", "off"};
  return names;
}

const std::vector<std::string>& known_variables() {
  static const std::vector<std::string> names{
      "OPMUX_CONFIG",         "OPMUX_ENVIRONMENTS", "OPMUX_MANIFESTS", "OPMUX_STRICT",
      "OPMUX_PROBE_DEADLINE", "OPMUX_LOG",          "OPMUX_CACHE_DIR", "OPMUX_THREADS",
      "OPMUX_LOCK",           "OPMUX_TRUST"};
  return names;
}

// Decimal digits without a leading zero, at most `high`.
std::optional<std::int64_t> parse_count(std::string_view text, std::int64_t high) {
  if (text.empty() || text.size() > 9 || (text.size() > 1 && text.front() == '0'))
    return std::nullopt;
  std::int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  if (value > high) return std::nullopt;
  return value;
}

// A whole number and its unit.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr std::int64_t kLongest = 3600000;
  std::int64_t unit = 0;
  if (text.ends_with("ms")) {
    unit = 1;
    text.remove_suffix(2);
  } else if (text.ends_with('s') || text.ends_with('m')) {
    unit = text.back() == 's' ? 1000 : 60000;
    text.remove_suffix(1);
  } else {
    return std::nullopt;
  }
  const auto count = parse_count(text, kLongest / unit);
  if (!count || *count == 0) return std::nullopt;
  return std::chrono::milliseconds{*count * unit};
}

std::optional<Trust> parse_trust(std::string_view word) {
  if (word == "lax") return Trust::kLax;
  if (word == "strict") return Trust::kStrict;
  return std::nullopt;
}

// ---- the file ----

class ConfigReader {
 public:
  ConfigReader(const Node& root, Config& config, Errors& errors)
      : root_(root), config_(config), errors_(errors) {}

  void read() {
    if (!yaml::is_map(root_, "the configuration", errors_) || !check_version()) return;
    const MapReader map{root_,
                        "the configuration",
                        {"config", "environments", "manifests", "routes", "strict", "probe", "log",
                         "threads", "lock", "trust"},
                        errors_};
    config_.environments = read_paths(map, "environments");
    config_.manifests = read_paths(map, "manifests");
    if (const Node* routes = map.find("routes")) read_routes(*routes);
    config_.strict = map.boolean("strict").value_or(false);
    if (const Node* probe = map.find("probe")) read_probe(*probe);
    if (const Node* level = map.find("log")) read_log(*level);
    if (const Node* trust = map.find("trust")) read_trust(*trust);
    if (const Node* lock = map.find("lock")) config_.lock_file = read_path(*lock, "lock", "a file");
    config_.threads = static_cast<int>(map.integer("threads", 0, kMostThreads).value_or(0));
  }

 private:
  bool check_version() {
    const Node* version = root_.find("config");
    if (version == nullptr) {
      errors_.add(rules::kYamlMissingKey, root_.position, "the key `config` in the configuration",
                  "no such key", "Begin the file with `config: 1`.");
      return false;
    }
    if (yaml::as_integer(*version) == 1) return true;
    errors_.add(rules::kConfigVersion, version->position, "`config: 1`", yaml::describe(*version));
    return false;
  }

  void wrong_form(const Node& node, std::string expected, std::string hint = {}) {
    errors_.add(rules::kYamlWrongForm, node.position, std::move(expected), yaml::describe(node),
                std::move(hint));
  }

  std::vector<fs::path> read_paths(const MapReader& map, const char* key) {
    std::vector<fs::path> paths;
    const Node* list = map.find(key);
    if (list == nullptr) return paths;
    if (list->kind != yaml::Kind::kSequence) {
      wrong_form(*list, in_quotes(key) + ": a list of folders");
      return paths;
    }
    for (const Node& item : list->items)
      if (auto path = read_path(item, key, "a folder")) paths.push_back(*std::move(path));
    return paths;
  }

  std::optional<fs::path> read_path(const Node& node, const char* key, const std::string& what) {
    const auto text = yaml::read_text(node, in_quotes(key), errors_);
    if (!text) return std::nullopt;
    if (text->empty() || text->front() == '~') {
      wrong_form(node, in_quotes(key) + ": " + what + ", absolute or relative to this file",
                 text->empty() ? std::string{} : "Write the path out; ~ is not expanded.");
      return std::nullopt;
    }
    return (config_.file.parent_path() / *text).lexically_normal();
  }

  void read_routes(const Node& routes) {
    if (!yaml::is_map(routes, "`routes`", errors_)) return;
    for (const yaml::Entry& entry : routes.entries) {
      RouteRule rule;
      rule.pattern = entry.key;
      rule.line = entry.position.line;
      rule.column = entry.position.column;
      if (rule.pattern.empty())
        errors_.add(rules::kYamlWrongForm, entry.position,
                    "a pattern over operator names, e.g. \"flash_attn_*\"", "an empty text");
      if (entry.value.kind == yaml::Kind::kSequence && !entry.value.items.empty()) {
        for (const Node& item : entry.value.items) read_provider(item, rule);
      } else {
        wrong_form(entry.value, "route " + in_quotes(rule.pattern) +
                                    ": a list of providers in the order to try");
      }
      config_.routes.push_back(std::move(rule));
    }
  }

  void read_provider(const Node& node, RouteRule& rule) {
    const auto name = yaml::read_text(node, "route " + in_quotes(rule.pattern), errors_);
    if (!name) return;
    const bool again =
        std::find(rule.providers.begin(), rule.providers.end(), *name) != rule.providers.end();
    if (name->empty() || again)
      errors_.add(rules::kYamlWrongForm, node.position,
                  "route " + in_quotes(rule.pattern) + ": each provider once",
                  again ? in_quotes(*name) + " twice" : "an empty text");
    else
      rule.providers.push_back(*name);
  }

  void read_probe(const Node& node) {
    const MapReader map{node, "`probe`", {"deadline"}, errors_};
    const auto text = map.text("deadline");
    if (!text) return;
    if (const auto deadline = parse_duration(*text))
      config_.probe_deadline = *deadline;
    else
      wrong_form(*map.find("deadline"), std::string{"`deadline`: "} + kDurationForm);
  }

  void read_trust(const Node& node) {
    const auto word = yaml::read_text(node, "`trust`", errors_);
    if (!word) return;
    if (const auto trust = parse_trust(*word)) {
      config_.trust = *trust;
    } else {
      wrong_form(node, std::string{"`trust`: "} + kTrustForm);
    }
  }

  void read_log(const Node& node) {
    const auto level = yaml::read_text(node, "`log`", errors_);
    if (!level) return;
    config_.log_level = *level;
    if (std::find(log_levels().begin(), log_levels().end(), *level) == log_levels().end())
      wrong_form(node, std::string{"`log`: "} + kLogForm, yaml::nearest_hint(*level, log_levels()));
  }

  const Node& root_;
  Config& config_;
  Errors& errors_;
};

Rejection first_of(const Errors& errors) {
  Rejection rejection = errors.rejections().front();
  if (errors.size() > 1)
    rejection.hint += " (" + std::to_string(errors.size() - 1) + " further faults in this file)";
  return rejection;
}

Result<Config> from_tree(const Result<Node>& root, const fs::path& file) {
  if (!root.ok()) return root.rejection();
  Errors errors{file};
  Config config;
  config.file = file;
  ConfigReader{*root, config, errors}.read();
  if (!errors.empty()) return first_of(errors);
  return config;
}

// ---- the environment ----

Rejection bad_variable(const char* name, std::string expected, const std::string& found,
                       std::string hint = {}) {
  return reject(rules::kConfigVariableForm, name, std::move(expected), in_quotes(found),
                std::move(hint));
}

Check check_variable_names() {
  for (const auto& [name, value] : environment_variables_with_prefix("OPMUX_")) {
    const std::vector<std::string>& known = known_variables();
    if (value.empty()) log::info(name + " is set but empty: it counts as unset");
    if (value.empty() || std::find(known.begin(), known.end(), name) != known.end()) continue;
    return reject(rules::kConfigUnknownVariable, printable(name), "one of " + join(known, ", "),
                  in_quotes(name), yaml::nearest_hint(name, known));
  }
  return std::nullopt;
}

// A path of a variable counts from the folder that the process was started in.
std::optional<fs::path> variable_path(const std::string& text) {
  if (text.empty() || text.front() == '~') return std::nullopt;
  std::error_code error;
  const fs::path path = fs::absolute(text, error);
  if (error) return std::nullopt;
  return path.lexically_normal();
}

Check read_path_list(const char* name, std::vector<fs::path>& paths) {
  const auto value = environment_variable(name);
  if (!value) return std::nullopt;
  paths.clear();
  for (const std::string& part : split(*value, ':')) {
    const auto path = variable_path(part);
    if (!path)
      return bad_variable(name, "folders, separated by colons, none empty or beginning with ~",
                          *value);
    paths.push_back(*path);
  }
  return std::nullopt;
}

Check apply_variables(Config& config) {
  if (Check bad = read_path_list("OPMUX_ENVIRONMENTS", config.environments)) return bad;
  if (Check bad = read_path_list("OPMUX_MANIFESTS", config.manifests)) return bad;
  if (const auto value = environment_variable("OPMUX_STRICT")) {
    config.strict = *value == "1" || *value == "true";
    if (!config.strict && *value != "0" && *value != "false")
      return bad_variable("OPMUX_STRICT", "one of 0, 1, true, false", *value);
  }
  if (const auto value = environment_variable("OPMUX_PROBE_DEADLINE")) {
    const auto deadline = parse_duration(*value);
    if (!deadline) return bad_variable("OPMUX_PROBE_DEADLINE", kDurationForm, *value);
    config.probe_deadline = *deadline;
  }
  if (const auto value = environment_variable("OPMUX_LOG")) {
    log::Level level{};
    if (!log::parse_level(*value, level))
      return bad_variable("OPMUX_LOG", kLogForm, *value, yaml::nearest_hint(*value, log_levels()));
    config.log_level = *value;
  }
  if (const auto value = environment_variable("OPMUX_CACHE_DIR")) {
    config.cache_folder = variable_path(*value);
    if (!config.cache_folder)
      return bad_variable("OPMUX_CACHE_DIR", "a folder, not beginning with ~", *value);
  }
  if (const auto value = environment_variable("OPMUX_LOCK")) {
    config.lock_file = variable_path(*value);
    if (!config.lock_file)
      return bad_variable("OPMUX_LOCK", "a file, not beginning with ~", *value);
  }
  if (const auto value = environment_variable("OPMUX_TRUST")) {
    const auto trust = parse_trust(*value);
    if (!trust) return bad_variable("OPMUX_TRUST", kTrustForm, *value);
    config.trust = std::max(config.trust, *trust);  // the stricter of the two
  }
  if (const auto value = environment_variable("OPMUX_THREADS")) {
    const auto threads = parse_count(*value, kMostThreads);
    if (!threads)
      return bad_variable("OPMUX_THREADS", "an integer from 0 to " + std::to_string(kMostThreads),
                          *value);
    config.threads = static_cast<int>(*threads);
  }
  return std::nullopt;
}

// ---- the search ----

struct Found {
  fs::path file;
  std::string origin = "none";
  bool asked_for = false;
};

// Whether anything has that name, a dangling link included: what is there is read or refused.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

Result<Found> find_file(const std::optional<fs::path>& explicit_file) {
  if (explicit_file) {
    std::error_code error;
    return Found{fs::absolute(*explicit_file, error).lexically_normal(), "--config", true};
  }
  if (const auto value = environment_variable("OPMUX_CONFIG")) {
    const auto path = variable_path(*value);
    if (!path) return bad_variable("OPMUX_CONFIG", "a file, not beginning with ~", *value);
    return Found{*path, "OPMUX_CONFIG", true};
  }
  const fs::path user = user_config_folder();
  if (user.is_absolute() && is_there(user / "opmux.yaml"))
    return Found{user / "opmux.yaml", "user", false};
  const fs::path system = "/etc/opmux/opmux.yaml";
  if (is_there(system)) return Found{system, "system", false};
  return Found{};
}

}  // namespace

Result<Config> parse_config(const std::string& text, const std::filesystem::path& file) {
  return from_tree(yaml::parse(text, file), file);
}

Result<Config> load_config(const std::optional<std::filesystem::path>& explicit_file) {
  for (const std::string& name : ignored_variables("OPMUX_"))
    log::warn(name + " is ignored: this process has privileges that its user does not have");
  if (Check bad = check_variable_names()) return *std::move(bad);
  Result<Found> found = find_file(explicit_file);
  if (!found.ok()) return std::move(found).rejection();

  Config config;
  if (!found->file.empty()) {
    if (found->asked_for && !is_there(found->file))
      return reject(rules::kConfigMissing, printable(found->file.string()),
                    "a configuration, as " + found->origin + " asks for", "nothing");
    Result<Config> read = from_tree(yaml::read(found->file), found->file);
    if (!read.ok()) return read;
    config = *std::move(read);
  }
  config.origin = found->origin;
  if (Check bad = apply_variables(config)) return *std::move(bad);
  return config;
}

}  // namespace opmux
