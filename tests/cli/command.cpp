// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/command.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace opmux::testing {
namespace {

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Command::Command(std::string program) : program_(std::move(program)) {
  std::filesystem::create_directories(folder_ / "empty");
  // A PATH without python3, so that no environment is found by itself.
  variables_ = {{"PATH", (folder_ / "empty").string()},
                {"HOME", (folder_ / "home").string()},
                {"XDG_CACHE_HOME", (folder_ / "cache").string()},
                {"XDG_CONFIG_HOME", (folder_ / "config").string()},
                {"TERM", "xterm"}};
}

Outcome Command::run(const std::vector<std::string>& arguments) const {
  return run_program(OPMUX_BINARY_DIR "/bin/" + program_, arguments);
}

Outcome Command::run_program(const std::string& program,
                             const std::vector<std::string>& arguments) const {
  const std::filesystem::path out = folder_ / "stdout";
  const std::filesystem::path err = folder_ / "stderr";
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> settings;
  for (const auto& [name, value] : variables_) settings.push_back(name + "=" + value);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char*> argv = pointers_to(words);
  std::vector<char*> environment = pointers_to(settings);
  pid_t process = 0;
  const int failure =
      ::posix_spawn(&process, argv[0], &actions, nullptr, argv.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) throw std::runtime_error("cannot start " + words[0]);

  int status = 0;
  ::waitpid(process, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, content_of(out), content_of(err)};
}

nlohmann::json operator_in(const nlohmann::json& report, const std::string& name) {
  for (const nlohmann::json& each : report.at("operators"))
    if (each.at("name") == name) return each;
  throw std::runtime_error("no operator " + name + " in the report");
}

nlohmann::json binding_in(const nlohmann::json& report, const std::string& name,
                          const std::string& provider) {
  const nlohmann::json found = operator_in(report, name);
  for (const nlohmann::json& each : found.at("bindings"))
    if (each.at("provider") == provider) return each;
  throw std::runtime_error("no binding of " + provider + " for " + name);
}

}  // namespace opmux::testing
