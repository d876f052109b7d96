// SPDX-License-Identifier: Apache-2.0
//
// `opmux watch` against a runtime of this very process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/descriptor.hpp"
#include "core/runtime/report_server.hpp"
#include "tests/cli/command.hpp"
#include "tests/runtime/live_world.hpp"
#include "tests/runtime/report_client.hpp"
#include "tests/support/environment_guard.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct WatchTest : ::testing::Test {
  WatchTest() {
    fs::create_directories(run_folder());
    command.set("XDG_RUNTIME_DIR", run_folder().string());
    variables.set("XDG_RUNTIME_DIR", run_folder().string());
  }

  fs::path run_folder() const { return command.folder() / "run"; }
  fs::path socket() const { return run_folder() / "opmux" / (std::to_string(getpid()) + ".sock"); }
  std::string pid() const { return std::to_string(getpid()); }

  Runtime open(std::optional<fs::path> place = fs::path()) {
    if (!fs::exists(world.drop_in_folder("one"))) {
      world.drop_in("one", "live_1", 60);
      world.drop_in("two", "live_2", 50);
    }
    Options options = world.options();
    options.report_socket = std::move(place);
    StatusOr<Runtime> runtime = Runtime::open(options);
    if (!runtime.ok()) throw std::runtime_error(runtime.status().message());
    return std::move(*runtime);
  }

  LiveWorld world;
  Command command;
  EnvironmentGuard variables;
};

TEST_F(WatchTest, ShowsAProcessOnce) {
  const Runtime runtime = open();
  LiveCall call(runtime, 3);
  for (int calls = 0; calls < 7; ++calls) ASSERT_EQ(call.seen(), mark(1, 3));
  const Outcome outcome = command.run({"watch", pid(), "--once"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith(fs::read_symlink("/proc/self/exe").string()));
  EXPECT_THAT(outcome.out, HasSubstr("  pid " + pid() + "  opmux "));
  EXPECT_THAT(outcome.out, HasSubstr("\ngeneration 1, ready\n"));
  EXPECT_THAT(outcome.out, HasSubstr("\nlive_3\n  > one"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("live_4"))) << "nobody calls it";
  EXPECT_THAT(outcome.out, HasSubstr("without calls: --all"));
  EXPECT_THAT(outcome.out, HasSubstr("\nMODULES\n  active"));
  EXPECT_THAT(outcome.out, HasSubstr(world.module_file("one").string()));
  EXPECT_THAT(outcome.out, HasSubstr("\nHISTORY\n       1  "));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\033"))) << "no terminal, no codes";
  for (const std::string& line : lines_of(outcome.out)) {
    if (line.starts_with("  > one")) {
      EXPECT_THAT(line, ::testing::EndsWith("-              7")) << "no rate without two reports";
    }
  }
  EXPECT_THAT(command.run({"watch", pid(), "--once", "--all"}).out, HasSubstr("\nlive_4\n"));
}

TEST_F(WatchTest, TellsRatesOfTheTimeBetweenReports) {
  const Runtime runtime = open();
  Load load(runtime, 1);
  const Outcome outcome =
      command.run({"watch", socket().string(), "--count", "3", "--interval", "100"});
  load.stop();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> rates;
  for (const std::string& line : lines_of(outcome.out)) {
    std::istringstream words(line);
    std::string mark_word, provider, device, rate;
    if (line.starts_with("  > one") && words >> mark_word >> provider >> device >> rate)
      rates.push_back(rate);
  }
  ASSERT_EQ(rates.size(), 3u) << outcome.out;
  EXPECT_EQ(rates[0], "-");
  for (const std::size_t block : {1u, 2u}) {
    EXPECT_NE(rates[block], "-");
    EXPECT_NE(rates[block], "0");
  }
}

TEST_F(WatchTest, PrintsOneReportPerLineAsJson) {
  const Runtime runtime = open();
  const Outcome outcome =
      command.run({"watch", pid(), "--json", "--count", "2", "--interval", "50"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) {
    const nlohmann::json report = nlohmann::json::parse(line);
    EXPECT_EQ(report.at("process").at("id"), getpid());
    EXPECT_EQ(report.at("report"), 1);
  }
}

TEST_F(WatchTest, ShowsChangesAndWhyOneWasRefused) {
  Runtime runtime = open();
  ASSERT_TRUE(runtime.set_routes({{"live_*", {"two"}}}).ok());
  ASSERT_FALSE(runtime.set_routes({{"live_*", {"nobody"}}}).ok());
  const std::string out = command.run({"watch", pid(), "--once"}).out;
  EXPECT_THAT(out, HasSubstr("set_routes  published"));
  EXPECT_THAT(out, HasSubstr("set_routes  refused"));
  EXPECT_THAT(out, HasSubstr("config.unknown_provider: "));
  EXPECT_THAT(out, HasSubstr("generation 2, ready"));
}

TEST_F(WatchTest, EndsWellWhenTheProgramEnds) {
  std::optional<Runtime> runtime = open();
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    runtime.reset();
  });
  const Outcome outcome = command.run({"watch", pid(), "--interval", "50"});
  end.join();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, ::testing::EndsWith("process " + pid() + " has ended.\n"));
}

TEST_F(WatchTest, ListsTheProgramsThatOfferTheirReport) {
  Outcome outcome = command.run({"watch"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("OPMUX_REPORT_SOCKET=1"));
  const Runtime first = open();
  const Runtime second = open();
  leave_socket(run_folder() / "opmux/999999999.sock");
  outcome = command.run({"watch"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr(socket().string()));
  EXPECT_THAT(outcome.out, Not(HasSubstr("999999999")));
  const nlohmann::json programs = command.run({"watch", "--json"}).json().at("programs");
  // A folder of this user's in /tmp may hold more.
  std::vector<std::string> sockets;
  for (const nlohmann::json& each : programs) {
    if (each.at("pid") == getpid()) sockets.push_back(each.at("socket"));
  }
  EXPECT_EQ(sockets,
            (std::vector<std::string>{socket().string(),
                                      (run_folder() / "opmux" / (pid() + "-2.sock")).string()}));
  EXPECT_THAT(command.run({"watch", pid(), "--once"}).out, HasSubstr("this process offers more: "));
}

TEST_F(WatchTest, SaysWhyThereIsNothingToWatch) {
  Outcome outcome = command.run({"watch", "999999999"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is no process 999999999."));
  for (const char* number : {"0", "99999999999999999999"})
    EXPECT_EQ(command.run({"watch", number}).code, 2) << number;

  outcome = command.run({"watch", pid()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("offers no report"));
  EXPECT_THAT(outcome.err, HasSubstr("OPMUX_REPORT_SOCKET=1"));

  outcome = command.run({"watch", "/nowhere/here.sock"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("nothing is there"));

  const fs::path file = command.folder().write("file", "text");
  outcome = command.run({"watch", file.string()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("it is no socket"));

  leave_socket(command.folder() / "gone.sock");
  outcome = command.run({"watch", (command.folder() / "gone.sock").string(), "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("its program has ended"));
  EXPECT_THAT(std::string(outcome.json().at("error")), HasSubstr("its program has ended"));

  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"watch", ""},
                                                {"watch", "1", "--interval", "1"},
                                                {"watch", "1", "--count", "0"},
                                                {"watch", "1", "--once", "--count", "2"},
                                                {"watch", "1", "2"}})
    EXPECT_EQ(command.run(wrong).code, 2);
}

TEST_F(WatchTest, TellsAFolderThatIsOpenToOthers) {
  const Runtime runtime = open();
  fs::permissions(run_folder() / "opmux", fs::perms::all);
  const Outcome outcome = command.run({"watch"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("runtime.report_socket"));
  EXPECT_THAT(outcome.out, HasSubstr("it is open to others"));
  const Outcome of_process = command.run({"watch", pid(), "--once"});
  EXPECT_EQ(of_process.code, 1);
  EXPECT_THAT(of_process.err, HasSubstr("it is open to others"));
}

// What answers is no report that it knows.
TEST_F(WatchTest, RefusesForeignAnswers) {
  const fs::path place = command.folder() / "here.sock";
  const auto error_for = [&](const std::string& answer) {
    const auto server = ReportServer::start(place, [&] { return answer; });
    if (!server.ok()) throw std::runtime_error(to_string(server.rejection()));
    const Outcome outcome = command.run({"watch", place.string(), "--once"});
    EXPECT_EQ(outcome.code, 1) << answer;
    EXPECT_EQ(outcome.out, "") << answer;
    return outcome.err;
  };
  EXPECT_THAT(error_for("HTTP/1.1 400 Bad Request"), HasSubstr("its answer is no report"));
  EXPECT_THAT(error_for("{\"report\": 1"), HasSubstr("its answer is no report"));
  EXPECT_THAT(error_for("[1]"), HasSubstr("its answer is no report"));
  EXPECT_THAT(error_for("{\"version\": \"1\"}"), HasSubstr("its answer is no report of opmux"));
  EXPECT_THAT(error_for("{\"report\": 2, \"version\": \"7.0.0\"}"),
              HasSubstr("its report has form 2, and this opmux reads form 1: use `opmux` of its "
                        "version, 7.0.0"));
  EXPECT_THAT(error_for("{\"error\": \"busy\\u001b[2J\"}"), HasSubstr("it answers: busy\\x1b[2J"));
}

// Fields of other types, and texts that would disturb a terminal.
TEST_F(WatchTest, ShowsOddReportsSafely) {
  const fs::path place = command.folder() / "here.sock";
  const std::string answer =
      R"({"report": 1, "version": 3, "process": [], "program": null, "generation": "x",
          "operators": [7, {"name": "a\u001b[31mb", "bindings": [{"provider": "p\nq", "calls": 3},
          null]}], "modules": {"path": 1}, "history": [{"outcome": "refused", "reasons": [1]}],
          "rejections": "none"})";
  const auto server = ReportServer::start(place, [&] { return answer; });
  ASSERT_TRUE(server.ok());
  const Outcome outcome = command.run({"watch", place.string(), "--once"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("a\\x1b[31mb"));
  EXPECT_THAT(outcome.out, HasSubstr("p\\x0aq"));
}

// ---- on a terminal ----

class Terminal {
 public:
  Terminal(const Command& command, const fs::path& run_folder, std::vector<std::string> words,
           unsigned short columns = 60, unsigned short rows = 20) {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    int master = -1;
    int slave = -1;
    if (openpty(&master, &slave, nullptr, nullptr, &size) != 0)
      throw std::runtime_error("no terminal");
    master_ = Descriptor(master);
    const Descriptor other(slave);
    words.insert(words.begin(), OPMUX_BINARY_DIR "/bin/opmux");
    std::vector<std::string> settings{"TERM=xterm", "XDG_RUNTIME_DIR=" + run_folder.string(),
                                      "HOME=" + command.folder().path().string()};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    for (const int number : {0, 1, 2}) ::posix_spawn_file_actions_adddup2(&actions, slave, number);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> list;
      for (std::string& text : texts) list.push_back(text.data());
      list.push_back(nullptr);
      return list;
    };
    const int failure = ::posix_spawn(&process_, words[0].c_str(), &actions, nullptr,
                                      pointers(words).data(), pointers(settings).data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) throw std::runtime_error("cannot start " + words[0]);
  }

  // Reads until `text` is there or the command ends.
  const std::string& read_until(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (seen_.find(text) == std::string::npos && std::chrono::steady_clock::now() < end) {
      if (!read_more(500)) break;
    }
    return seen_;
  }
  void send(int signal) const { ::kill(process_, signal); }
  void type(const std::string& keys) const {
    EXPECT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  termios keys() const {
    termios now{};
    ::tcgetattr(master_.get(), &now);
    return now;
  }
  void resize(unsigned short columns, unsigned short rows) const {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    ::ioctl(master_.get(), TIOCSWINSZ, &size);
    send(SIGWINCH);
  }
  // The exit code; everything has been read then.
  int wait() {
    int status = 0;
    while (read_more(20'000)) {
    }
    ::waitpid(process_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void wait_until_stopped() const {
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, WUNTRACED), process_);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  const std::string& seen() const { return seen_; }
  void forget() { seen_.clear(); }

 private:
  // False at the end.
  bool read_more(int milliseconds) {
    pollfd polled{master_.get(), POLLIN, 0};
    if (::poll(&polled, 1, milliseconds) <= 0) return milliseconds < 20'000;
    std::array<char, 4096> buffer;
    const ssize_t size = ::read(master_.get(), buffer.data(), buffer.size());
    if (size <= 0) return false;
    seen_.append(buffer.data(), static_cast<std::size_t>(size));
    return true;
  }

  Descriptor master_;
  pid_t process_ = 0;
  std::string seen_;
};

constexpr const char* kEnter = "\033[?1049h\033[?25l";
constexpr const char* kLeave = "\033[?25h\033[?1049l";

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_F(WatchTest, GivesTheTerminalBackAtASignal) {
  const Runtime runtime = open();
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
    Terminal terminal(command, run_folder(), {"watch", pid(), "--interval", "50"});
    EXPECT_THAT(terminal.read_until("generation 1"), StartsWith(kEnter));
    terminal.send(signal);
    EXPECT_EQ(terminal.wait(), 0);
    EXPECT_EQ(count_of(terminal.seen(), kEnter), 1u);
    EXPECT_EQ(count_of(terminal.seen(), kLeave), 1u);
    EXPECT_THAT(terminal.seen(), ::testing::EndsWith(kLeave));
  }
}

TEST_F(WatchTest, TheKeyQLeavesAndTheTerminalTakesKeysAsBefore) {
  const Runtime runtime = open();
  Terminal terminal(command, run_folder(), {"watch", pid(), "--interval", "60000"});
  const termios before = terminal.keys();
  terminal.read_until("leave with q or Ctrl-C");
  EXPECT_EQ(terminal.keys().c_lflag & ICANON, 0u);
  terminal.type("x\n");
  terminal.type("q");
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_THAT(terminal.seen(), ::testing::EndsWith(kLeave));
  EXPECT_EQ(terminal.keys().c_lflag, before.c_lflag);
}

TEST_F(WatchTest, WhatIsNoTerminalIsCutNowhere) {
  const fs::path place = command.folder() / "here.sock";
  const std::string path = "/srv/" + std::string(300, 'p') + "/opmux_acme.so";
  const std::string answer = R"({"report": 1, "version": "1", "modules": [{"path": ")" + path +
                             R"(", "state": "active"}]})";
  const auto server = ReportServer::start(place, [&] { return answer; });
  ASSERT_TRUE(server.ok());
  const std::string out = command.run({"watch", place.string(), "--once"}).out;
  EXPECT_THAT(out, HasSubstr("active      " + path + "\n"));
  EXPECT_THAT(out, Not(HasSubstr("leave with"))) << "nobody sits there";
}

TEST_F(WatchTest, LeavesTheLastReportBehindWhenTheProgramEnds) {
  std::optional<Runtime> runtime = open();
  Terminal terminal(command, run_folder(), {"watch", pid(), "--interval", "50"});
  terminal.read_until("generation 1");
  runtime.reset();
  EXPECT_EQ(terminal.wait(), 0);
  const std::string after = terminal.seen().substr(terminal.seen().find(kLeave));
  EXPECT_THAT(after, HasSubstr("generation 1"));
  EXPECT_THAT(after, HasSubstr("has ended."));
}

TEST_F(WatchTest, FitsTheTerminalAndFollowsItsSize) {
  const Runtime runtime = open();
  Terminal terminal(command, run_folder(), {"watch", pid(), "--all", "--interval", "60000"}, 30, 8);
  // The eighth line says what is below; nothing scrolls.
  const std::string seen = terminal.read_until("leave with");
  const std::string frame = seen.substr(seen.rfind("\033[H"));
  EXPECT_EQ(count_of(frame, "\n"), 7u);
  EXPECT_THAT(frame, HasSubstr("lines below"));
  EXPECT_THAT(frame, HasSubstr("leave with q or Ctrl-C"));
  terminal.forget();
  terminal.resize(120, 200);
  EXPECT_THAT(terminal.read_until("HISTORY"), HasSubstr("HISTORY"));
  terminal.send(SIGINT);
  EXPECT_EQ(terminal.wait(), 0);
}

TEST_F(WatchTest, GivesTheTerminalBackWhileItIsSuspended) {
  const Runtime runtime = open();
  Terminal terminal(command, run_folder(), {"watch", pid(), "--interval", "50"});
  terminal.read_until("generation 1");
  terminal.forget();
  terminal.send(SIGTSTP);
  EXPECT_THAT(terminal.read_until(kLeave), HasSubstr(kLeave));
  // As a shell does; a SIGCONT before it has stopped would be lost.
  terminal.wait_until_stopped();
  terminal.forget();
  terminal.send(SIGCONT);
  EXPECT_THAT(terminal.read_until("generation 1"), HasSubstr(kEnter));
  terminal.send(SIGINT);
  EXPECT_EQ(terminal.wait(), 0);
}

}  // namespace
}  // namespace opmux::testing
