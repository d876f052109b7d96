// SPDX-License-Identifier: Apache-2.0
//
// The `opmux` command: options in, exit code out.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/command.hpp"
#include "cli/output.hpp"
#include "cli/rejections.hpp"
#include "core/base/environment.hpp"
#include "core/base/log.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {

Options runtime_options(const CommonOptions& common) {
  Options options;
  options.environments = common.environments;
  options.manifests = common.manifests;
  options.config_file = common.config_file;
  options.trust = common.trust;
  options.lock_file = common.lock_file;
  if (common.strict) options.strict = true;
  options.use_cache = !common.no_cache;
  // A command tells how things are, whatever a program would do with the same configuration.
  options.background = false;
  options.watch = false;
  if (::isatty(STDERR_FILENO) == 1)
    options.progress = [](const std::string& text) { print_error(printable(text) + " ..."); };
  return options;
}

int open_failed(const Status& status, bool json) {
  print_error(printable_lines(status.message()));
  const Rejection* rejection = status.rejection();
  if (json)
    print(nlohmann::ordered_json{
        {"error", status.message()},
        {"rejection", rejection != nullptr ? as_json(*rejection) : nlohmann::ordered_json{}}}
              .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  if (rejection == nullptr) return kFinding;
  // What was typed or set, rather than what a file holds.
  for (const char* rule : {"config.missing", "config.unknown_variable", "config.variable_form",
                           "discovery.bad_environment", "manifest.missing", "lock.missing"})
    if (rejection->rule == rule) return kUsage;
  return kFinding;
}

int version(bool json) {
  if (json)
    print(nlohmann::ordered_json{{"version", OPMUX_VERSION}}.dump(2));
  else
    print("opmux " OPMUX_VERSION);
  return kFine;
}

namespace {

// An empty value is an unset variable of a script sooner than a wish for the default.
const CLI::Validator kNotEmpty{
    [](std::string& text) -> std::string { return text.empty() ? "an empty value" : ""; }, ""};

const CLI::Validator kSeed{[](std::string& text) -> std::string {
                             std::uint64_t value = 0;
                             const char* end = text.data() + text.size();
                             const auto [stop, error] = std::from_chars(text.data(), end, value);
                             if (error == std::errc{} && stop == end) return "";
                             return text + " is no whole number from 0 to 18446744073709551615";
                           },
                           ""};

// The common options that mean something to a command; others are refused, not ignored.
enum class Common { kJson, kManifests, kAll };

void add_common(CLI::App& app, CommonOptions& common, Common which) {
  constexpr const char* kGroup = "Common options";
  app.add_flag("--json", common.json, "Print JSON")->group(kGroup);
  if (which == Common::kJson) return;
  app.add_option("--config", common.config_file, "The configuration to read")
      ->type_name("FILE")
      ->check(kNotEmpty)
      ->group(kGroup);
  app.add_option("--manifests", common.manifests,
                 "A folder of manifests that come before all others; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false)
      ->check(kNotEmpty)
      ->group(kGroup);
  if (which == Common::kManifests) return;
  app.add_option("--environment", common.environments,
                 "A Python environment to search; several are searched in order, as sys.path is")
      ->type_name("DIR")
      ->allow_extra_args(false)
      ->check(kNotEmpty)
      ->group(kGroup);
  app.add_option_function<std::string>(
         "--trust",
         [&common](const std::string& word) {
           if (word == "strict") common.trust = Trust::kStrict;
         },
         "What to do about files that others could change: lax warns, strict refuses")
      ->type_name("lax|strict")
      ->check(CLI::IsMember({"lax", "strict"}))
      ->group(kGroup);
  app.add_flag("--strict", common.strict, "Make every fallback an error")->group(kGroup);
  app.add_flag("--no-cache", common.no_cache, "Probe again, whatever earlier findings say")
      ->group(kGroup);
}

// The option of `command` that was written with `=` and nothing behind it, or nothing. The parser
// would take the default or the next word for its value.
std::string option_without_value(const CLI::App& command, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word.size() < 2 || word.back() != '=') continue;
    std::string name = word.substr(0, word.size() - 1);
    if (name.find('=') == std::string::npos && command.get_option_no_throw(name) != nullptr)
      return name;
  }
  return {};
}

// What CLI11 found wrong, and what to type.
int wrong_usage(const CLI::App& app, const std::vector<std::string>& words,
                const CLI::ParseError& error) {
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(command->get_name());

  const CLI::App* chosen = nullptr;
  for (const std::string& word : words)
    if (chosen == nullptr && !word.empty() && word.front() != '-')
      for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        if (command->get_name() == word) chosen = command;
  if (chosen == nullptr) {
    if (words.empty()) return usage_error("say what to do.", app.help());
    if (words.front().starts_with("-"))
      return usage_error("`" + printable(words.front()) + "` is no option of `opmux` itself.",
                         "Type `opmux COMMAND`, with the options behind it; see `opmux --help`.");
    const std::string near = nearest(words.front(), commands);
    return usage_error(
        "there is no command `" + printable(words.front()) + "`. " + did_you_mean(near),
        "Commands: " + join(commands, ", ") + ". Type `opmux --help`.");
  }

  std::vector<std::string> known;
  for (const CLI::Option* option : chosen->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  std::string hint;
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    for (const std::string& word : words) {
      if (word == chosen->get_name()) break;
      if (word.starts_with("-"))
        return usage_error("`" + printable(word) + "` is no option of `opmux` itself.",
                           "Type `opmux " + chosen->get_name() + "`, with the options behind it.");
    }
    for (const std::string& word : words) {
      const std::string option = word.substr(0, word.find('='));
      if (!option.starts_with("-")) continue;
      if (std::find(known.begin(), known.end(), option) != known.end()) continue;
      hint = did_you_mean(nearest(option, known));
      return usage_error(
          "`opmux " + chosen->get_name() + "` has no option `" + printable(option) + "`. " + hint,
          "Type `opmux " + chosen->get_name() + " --help`.");
    }
  }
  return usage_error("`opmux " + chosen->get_name() + "`: " + printable(error.what()) + ".",
                     "Type `opmux " + chosen->get_name() + " --help`.");
}

int dispatch(int argc, char** argv) {
  CLI::App app{"opmux puts installed operator libraries to use where they lie.", "opmux"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "opmux " OPMUX_VERSION);
  app.set_help_flag("-h,--help", "Print this help");
  app.footer("Exit codes: 0 fine, 1 a finding, 2 wrong usage. Manual: docs/opmux.1.md");

  CommonOptions common;
  std::string locked;
  std::function<int()> command;
  const auto add = [&](const char* name, const char* description, Common which = Common::kAll) {
    CLI::App* sub = app.add_subcommand(name, description);
    add_common(*sub, common, which);
    return sub;
  };
  const auto add_lockable = [&](const char* name, const char* description) {
    CLI::App* sub = add(name, description);
    // A flag, so that it takes no word that follows it.
    sub->add_flag("--locked{opmux.lock}", locked,
                  "Refuse whatever differs from a lock: --locked=FILE, by default opmux.lock")
        ->group("Common options");
    return sub;
  };

  std::optional<std::filesystem::path> html_file;
  CLI::App* list_command =
      add_lockable("list", "List operators, who serves them, and why others do not");
  list_command
      ->add_option("--html", html_file, "Write one self-contained page of providers and operators")
      ->type_name("FILE")
      ->check(kNotEmpty);
  list_command->callback([&] { command = [&] { return list(common, html_file); }; });

  std::string operator_name;
  CLI::App* explain_command =
      add_lockable("explain", "Tell everything about the route of one operator");
  explain_command->add_option("operator", operator_name, "Its name, overload included")
      ->type_name("OPERATOR")
      ->check(kNotEmpty)
      ->required();
  explain_command->callback([&] { command = [&] { return explain(common, operator_name); }; });

  std::vector<std::filesystem::path> manifest_files;
  bool stub_driver = false;
  CLI::App* validate_command =
      add("validate", "Check manifests and what they describe on this machine");
  validate_command->add_option("manifest", manifest_files, "Manifests")
      ->type_name("MANIFEST")
      ->check(kNotEmpty)
      ->required();
  validate_command->add_flag("--stub-driver", stub_driver,
                             "Check CUDA libraries with a stub libcuda.so.1, without a GPU");
  validate_command->callback(
      [&] { command = [&] { return validate(common, manifest_files, stub_driver); }; });

  RunOptions run_options;
  CLI::App* run_command =
      add_lockable("run", "Call an operator on the example inputs of its declaration");
  run_command->add_option("operator", run_options.operator_name, "Its name, overload included")
      ->type_name("OPERATOR")
      ->check(kNotEmpty)
      ->required();
  run_command->add_option("--provider", run_options.provider, "Call this provider's binding")
      ->check(kNotEmpty)
      ->type_name("PROVIDER");
  run_command->add_option("--device", run_options.device, "Where the tensors lie: cpu or cuda")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  run_command
      ->add_option("--shape", run_options.shape,
                   "Sizes of the example: NAME=VALUE,... or 4x128 in the order of its dims")
      ->check(kNotEmpty)
      ->type_name("SHAPE");
  run_command->add_option("--dtype", run_options.dtype, "One of the declaration's dtypes")
      ->check(kNotEmpty)
      ->type_name("DTYPE");
  run_command->add_flag("--compare", run_options.compare, "Compare with the native kernel");
  run_command->add_option("--repeat", run_options.repeat, "Calls to time")
      ->type_name("COUNT")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  run_command->add_option("--seed", run_options.seed, "Of the inputs")
      ->check(kSeed)
      ->type_name("NUMBER")
      ->capture_default_str();
  run_command->callback([&] { command = [&] { return run(common, run_options); }; });

  LockOptions lock_options;
  CLI::App* lock_command =
      add("lock", "Write down what serves here, or compare with what was written down");
  lock_command
      ->add_option("--output", lock_options.file, "The lock to write, or with --check to compare")
      ->check(kNotEmpty)
      ->type_name("FILE")
      ->capture_default_str();
  CLI::Option* check =
      lock_command->add_flag("--check", lock_options.check, "Only tell what differs from the lock");
  lock_command
      ->add_flag("--update", lock_options.update,
                 "Replace a lock that is there, and tell what that accepts")
      ->excludes(check);
  lock_command->add_flag("--stub-driver", lock_options.stub_driver,
                         "Check CUDA libraries with a stub libcuda.so.1, without a GPU");
  lock_command->callback([&] { command = [&] { return lock(common, lock_options); }; });

  add_lockable("doctor", "Look for what is wrong, and say what to do")->callback([&] {
    command = [&] { return doctor(common); };
  });
  add_lockable("demo", "Show the routes, call the native operators and check their numbers")
      ->callback([&] { command = [&] { return demo(common); }; });

  WatchOptions watch_options;
  bool once = false;
  CLI::App* watch_command =
      add("watch", "Show the report of a running program, or list the programs that offer theirs",
          Common::kJson);
  watch_command
      ->add_option("target", watch_options.target,
                   "A process, or the socket on which it offers its report")
      ->type_name("PID|SOCKET")
      ->check(kNotEmpty);
  watch_command->add_option("--interval", watch_options.interval_ms, "Milliseconds between reports")
      ->type_name("MS")
      ->check(CLI::Range(50, 3'600'000))
      ->capture_default_str();
  CLI::Option* count = watch_command
                           ->add_option("--count", watch_options.count,
                                        "Reports to show; all until the program ends by default")
                           ->type_name("COUNT")
                           ->check(CLI::Range(1, 1'000'000'000));
  watch_command->add_flag("--once", once, "Show one report")->excludes(count);
  watch_command->add_flag("--all", watch_options.all,
                          "Operators that nobody calls, too, and the whole history");
  watch_command->callback([&] {
    if (once) watch_options.count = 1;
    command = [&] { return watch(common, watch_options); };
  });

  NewPluginOptions plugin_options;
  CLI::App* plugin_command =
      add("new-plugin", "Make the files of a new drop-in plugin", Common::kManifests);
  plugin_command->add_option("name", plugin_options.name, "Of the plugin and its provider")
      ->type_name("NAME")
      ->required();
  plugin_command
      ->add_option("--output", plugin_options.output, "The folder to make; its name by default")
      ->type_name("DIR")
      ->check(kNotEmpty);
  plugin_command
      ->add_option("--operator", plugin_options.operator_name,
                   "The operator that it serves: silu_and_mul, or a new one to declare")
      ->check(kNotEmpty)
      ->type_name("NAME");
  plugin_command->callback([&] { command = [&] { return new_plugin(common, plugin_options); }; });

  std::string rule_id;
  bool markdown = false;
  CLI::App* rules_command = add("rules", "List the rules that rejections name", Common::kJson);
  rules_command->add_option("rule", rule_id, "A rule or a stage")
      ->type_name("RULE")
      ->check(kNotEmpty);
  rules_command->add_flag("--markdown", markdown, "Print docs/rules.md");
  rules_command->callback([&] { command = [&] { return rules(rule_id, markdown, common.json); }; });

  add("version", "Print the version", Common::kJson)->callback([&] {
    command = [&] { return version(common.json); };
  });

  for (const std::string& name : ignored_variables("OPMUX_"))
    print_error(name + " is ignored: this process has privileges that its user does not have");
  // The command tells what it finds itself, on standard output; the log would say much of it a
  // second time. `log` of the configuration and OPMUX_LOG ask for it.
  if (!environment_variable("OPMUX_LOG")) log::set_level(log::Level::kOff);
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (words.empty() || words.front() != sub->get_name()) continue;
    if (const std::string name = option_without_value(*sub, words); !name.empty())
      return usage_error("`opmux " + sub->get_name() + "`: " + name + ": an empty value.",
                         "Type `opmux " + sub->get_name() + " --help`.");
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return wrong_usage(app, words, error);
  }
  if (!locked.empty()) common.lock_file = locked;
  // A library of a drop-in folder must lie below it after links are resolved, which takes a whole
  // path.
  for (std::vector<std::filesystem::path>* paths : {&common.manifests, &manifest_files})
    for (std::filesystem::path& path : *paths) {
      std::error_code failed;
      const std::filesystem::path whole = std::filesystem::absolute(path, failed);
      if (!failed) path = whole;
    }
  keep_output_apart();
  return command();
}

// So that no file or library that is opened gets the number of a standard stream that the caller
// closed, and output into it. Writing to these still fails, as it should.
void occupy_standard_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(number, F_GETFD) == -1 && errno == EBADF)
      static_cast<void>(::open("/dev/null", O_RDONLY));
}

}  // namespace
}  // namespace opmux::cli

int main(int argc, char** argv) {
  opmux::cli::occupy_standard_streams();
  try {
    const int code = opmux::cli::dispatch(argc, argv);
    // A full disk or closed pipe must not look like success.
    if ((std::fflush(opmux::cli::output()) != 0 || std::ferror(opmux::cli::output()) != 0) &&
        code == opmux::cli::kFine) {
      opmux::cli::print_error("the output could not be written: check the disk and the pipe.");
      return opmux::cli::kFinding;
    }
    return code;
  } catch (const std::bad_alloc&) {
    opmux::cli::print_error("out of memory: use smaller sizes, or raise the limit of memory.");
    return opmux::cli::kFinding;
  } catch (const std::exception& error) {
    opmux::cli::print_error(std::string{"unexpected: "} + error.what());
    return opmux::cli::kFinding;
  }
}
