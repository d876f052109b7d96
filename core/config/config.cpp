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
#include "core/config/reading.hpp"
#include "core/yaml/fields.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

using configuration::bad_variable;
using configuration::kMostThreads;
using configuration::log_levels;
using configuration::read_duration;
using configuration::read_word;
using configuration::variable_path;
using yaml::Errors;
using yaml::in_quotes;
using yaml::MapReader;
using yaml::Node;

// ---- the file ----

class ConfigReader {
 public:
  ConfigReader(const Node& root, Config& config, Errors& errors)
      : root_(root), config_(config), errors_(errors) {}

  void read() {
    if (!yaml::is_map(root_, "the configuration", errors_) || !check_version()) return;
    const MapReader map{root_,
                        "the configuration",
                        {"config", "environments", "manifests", "routes", "strict", "start",
                         "watch", "probe", "log", "threads", "lock", "trust"},
                        errors_};
    config_.environments = read_paths(map, "environments");
    config_.manifests = read_paths(map, "manifests");
    if (const Node* routes = map.find("routes"))
      config_.routes = configuration::read_route_rules(*routes, errors_);
    config_.strict = map.boolean("strict").value_or(false);
    if (const Node* start = map.find("start")) read_start(*start);
    config_.watch = map.boolean("watch").value_or(false);
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

  void read_start(const Node& node) {
    static const std::vector<std::string> words{"foreground", "background"};
    if (const auto word = read_word(node, "`start`", words, errors_))
      config_.start = *word == "background" ? Start::kBackground : Start::kForeground;
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

  void read_probe(const Node& node) {
    const MapReader map{node, "`probe`", {"deadline"}, errors_};
    if (const auto deadline = read_duration(map, "deadline", errors_))
      config_.probe_deadline = *deadline;
  }

  void read_trust(const Node& node) {
    const auto word = yaml::read_text(node, "`trust`", errors_);
    if (!word) return;
    if (const auto trust = configuration::parse_trust(*word)) {
      config_.trust = *trust;
    } else {
      wrong_form(node, std::string{"`trust`: "} + configuration::kTrustForm);
    }
  }

  void read_log(const Node& node) {
    if (const auto level = read_word(node, "`log`", log_levels(), errors_))
      config_.log_level = *level;
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
  if (Check bad = configuration::check_variable_names()) return *std::move(bad);
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
  if (Check bad = configuration::apply_variables(config)) return *std::move(bad);
  return config;
}

}  // namespace opmux
