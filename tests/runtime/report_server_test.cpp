// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/report_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "core/runtime/report_socket.hpp"
#include "opmux/opmux.hpp"
#include "tests/runtime/live_world.hpp"
#include "tests/runtime/report_client.hpp"
#include "tests/support/environment_guard.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr const char* kGarbageAnswer =
    "{\"error\": \"the request is not `report` and a line end\", \"rejection\": null}\n";

std::unique_ptr<ReportServer> start(const fs::path& place, std::string answer = "{}",
                                    milliseconds deadline = milliseconds(5000)) {
  Result<std::unique_ptr<ReportServer>> server = ReportServer::start(
      place, [answer] { return answer; }, deadline);
  if (!server.ok()) throw std::runtime_error(to_string(server.rejection()));
  return *std::move(server);
}

// Of what may not be had.
Rejection rejection_of(const fs::path& place) {
  const Result<std::unique_ptr<ReportServer>> server =
      ReportServer::start(place, [] { return std::string("{}"); });
  return server.ok() ? Rejection{} : server.rejection();
}

struct ReportServerTest : ::testing::Test {
  ReportServerTest() {
    fs::create_directories(folder / "run");
    variables.set("XDG_RUNTIME_DIR", (folder / "run").string());
  }

  fs::path default_folder() const { return folder / "run/opmux"; }
  fs::path place(int number = 1) const {
    return default_folder() / report_socket_name(getpid(), number);
  }

  TemporaryFolder folder;
  EnvironmentGuard variables;
};

TEST_F(ReportServerTest, AnswersAndCloses) {
  const auto server = start(folder / "here.sock", "{\"a\": 1}");
  EXPECT_EQ(server->path(), folder / "here.sock");
  EXPECT_EQ(ask(server->path()), "{\"a\": 1}\n");
  struct stat status {};
  ASSERT_EQ(lstat(server->path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(ReportServerTest, ReadsARequestThatComesInPieces) {
  const auto server = start(folder / "here.sock", "{\"a\": 1}");
  const Descriptor client = connect_client(server->path());
  for (const char* piece : {"rep", "ort", "\n"}) {
    send_all(client, piece);
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(read_all(client), "{\"a\": 1}\n");
}

TEST_F(ReportServerTest, TellsForeignRequestsSoAndServesOn) {
  const auto server = start(folder / "here.sock", "{\"a\": 1}");
  EXPECT_EQ(ask(server->path(), "GET / HTTP/1.1\r\n\r\n"), kGarbageAnswer);
  EXPECT_EQ(ask(server->path(), "reports\n"), kGarbageAnswer);
  EXPECT_EQ(ask(server->path(), "\n"), kGarbageAnswer);
  EXPECT_EQ(ask(server->path(), std::string(100'000, 'x')), kGarbageAnswer);
  EXPECT_EQ(ask(server->path(), std::string("\0\xff\xfe\n", 4)), kGarbageAnswer);
  EXPECT_EQ(ask(server->path()), "{\"a\": 1}\n");
}

TEST_F(ReportServerTest, AClientThatNeverReadsIsDroppedAndHoldsUpNobody) {
  // More than a socket's buffers hold.
  const std::string answer(8'000'000, 'a');
  const auto server = start(folder / "here.sock", answer, milliseconds(1500));
  const Descriptor idle = connect_client(server->path());
  send_all(idle, "report\n");
  const Descriptor silent = connect_client(server->path());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ask(server->path()).size(), answer.size() + 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(1500));
  // The server's end closes, for the one that sends nothing, too.
  EXPECT_EQ(read_all(silent), "");
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_LT(read_all(idle).size(), answer.size());
}

TEST_F(ReportServerTest, ClientsBeyondTheMostAtATimeWaitForTheirTurn) {
  const auto server = start(folder / "here.sock", "{}", milliseconds(300));
  std::vector<Descriptor> silent;
  for (int client = 0; client < 40; ++client) silent.push_back(connect_client(server->path()));
  EXPECT_EQ(ask(server->path()), "{}\n");
}

TEST_F(ReportServerTest, ServesAHundredClientsInTurn) {
  const auto server = start(folder / "here.sock", "{\"a\": 1}");
  for (int client = 0; client < 100; ++client) EXPECT_EQ(ask(server->path()), "{\"a\": 1}\n");
}

TEST_F(ReportServerTest, ClientsThatGoAwayDoNotEndTheProcess) {
  const auto server = start(folder / "here.sock", std::string(4'000'000, 'a'));
  for (int client = 0; client < 50; ++client) {
    const Descriptor gone = connect_client(server->path());
    send_all(gone, "report\n");
  }
  EXPECT_EQ(ask(server->path()).size(), 4'000'001u);
}

TEST_F(ReportServerTest, AnAnswerThatCannotBeMadeEndsThatExchangeOnly) {
  int asked = 0;
  const Result<std::unique_ptr<ReportServer>> server =
      ReportServer::start(folder / "here.sock", [&]() -> std::string {
        if (asked++ == 0) throw std::bad_alloc();
        return "{}";
      });
  ASSERT_TRUE(server.ok());
  EXPECT_EQ(ask(folder / "here.sock"), "");
  EXPECT_EQ(ask(folder / "here.sock"), "{}\n");
}

TEST_F(ReportServerTest, RefusesOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  // As if the file's mode and its folder did not keep others out.
  const auto server = start(folder / "here.sock", "{\"a\": 1}");
  fs::permissions(server->path(), fs::perms::all);
  fs::permissions(folder.path(), fs::perms::all);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setgid(12345) != 0 || setuid(12345) != 0) _exit(2);
    const Descriptor client = connect_client(server->path());
    if (!client.valid()) _exit(3);
    send_all(client, "report\n");
    _exit(read_all(client).empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(ask(server->path()), "{\"a\": 1}\n");
}

TEST_F(ReportServerTest, RemovesItsSocketAtTheEnd) {
  auto server = start({});
  EXPECT_EQ(server->path(), place());
  EXPECT_TRUE(fs::exists(place()));
  server.reset();
  EXPECT_FALSE(fs::exists(fs::symlink_status(place())));
}

TEST_F(ReportServerTest, LeavesAFileThatTookItsPlace) {
  auto server = start(folder / "here.sock");
  fs::remove(folder / "here.sock");
  folder.write("here.sock", "mine");
  server.reset();
  EXPECT_TRUE(fs::exists(folder / "here.sock"));
}

TEST_F(ReportServerTest, AForkedProcessLeavesTheSocketAlone) {
  auto server = start(folder / "here.sock", "{\"a\": 1}");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    server.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(ask(folder / "here.sock"), "{\"a\": 1}\n");
}

TEST_F(ReportServerTest, ReplacesSocketsWhoseProgramsAreGone) {
  leave_socket(folder / "here.sock");
  EXPECT_EQ(ask(start(folder / "here.sock")->path()), "{}\n");
  fs::create_directories(default_folder());
  fs::permissions(default_folder(), fs::perms::owner_all);
  leave_socket(place());
  leave_socket(default_folder() / "999999999.sock");
  leave_socket(default_folder() / "somebody.sock");
  const auto server = start({});
  EXPECT_EQ(server->path(), place());
  EXPECT_FALSE(fs::exists(fs::symlink_status(default_folder() / "999999999.sock")));
  EXPECT_TRUE(fs::exists(fs::symlink_status(default_folder() / "somebody.sock")));
}

TEST_F(ReportServerTest, KeepsASocketThatAProgramAnswersOn) {
  const auto server = start(folder / "here.sock", "{\"a\": 1}");
  const Rejection rejection = rejection_of(folder / "here.sock");
  EXPECT_EQ(rejection.rule, "runtime.report_socket");
  EXPECT_EQ(rejection.subject, (folder / "here.sock").string());
  EXPECT_EQ(rejection.found, "a socket that a running program answers on");
  EXPECT_EQ(ask(folder / "here.sock"), "{\"a\": 1}\n");
}

TEST_F(ReportServerTest, KeepsWhatIsNoSocket) {
  folder.write("file", "mine");
  fs::create_symlink(folder / "nowhere", folder / "link");
  for (const char* name : {"file", "link", "run"}) {
    const Rejection rejection = rejection_of(folder / name);
    EXPECT_EQ(rejection.rule, "runtime.report_socket") << name;
    EXPECT_EQ(rejection.found, "something else, which stays") << name;
    EXPECT_TRUE(fs::exists(fs::symlink_status(folder / name))) << name;
  }
  EXPECT_EQ(rejection_of(folder / "none/here.sock").found, "No such file or directory");
  EXPECT_EQ(rejection_of("/").found, "the path of a folder");
}

TEST_F(ReportServerTest, RefusesAFolderThatIsNotThisUsersAlone) {
  fs::create_directories(default_folder());
  fs::permissions(default_folder(), fs::perms::all);
  Rejection rejection = rejection_of({});
  EXPECT_EQ(rejection.rule, "runtime.report_socket");
  EXPECT_EQ(rejection.subject, default_folder().string());
  EXPECT_EQ(rejection.expected, "a folder that only this user may enter and write to");
  EXPECT_EQ(rejection.found, "it is open to others");
  fs::permissions(default_folder(), fs::perms::owner_all | fs::perms::group_exec);
  EXPECT_EQ(rejection_of({}).found, "it is open to others");

  fs::permissions(default_folder(), fs::perms::owner_all);
  const Result<Descriptor> of_another = open_report_folder(default_folder(), geteuid() + 1);
  ASSERT_FALSE(of_another.ok());
  EXPECT_EQ(of_another.rejection().found, "it belongs to user " + std::to_string(geteuid()));

  fs::rename(default_folder(), folder / "elsewhere");
  fs::create_directory_symlink(folder / "elsewhere", default_folder());
  EXPECT_EQ(rejection_of({}).rule, "runtime.report_socket") << "a link is no folder of ours";
}

TEST_F(ReportServerTest, TakesPathsOfAnyLength) {
  const fs::path deep = folder / std::string(100, 'd') / std::string(100, 'e');
  fs::create_directories(deep);
  const auto server = start(deep / "here.sock");
  EXPECT_TRUE(fs::exists(deep / "here.sock"));
  EXPECT_EQ(rejection_of(deep / std::string(200, 'n')).expected, "a shorter name");
}

TEST_F(ReportServerTest, NamesOfSockets) {
  EXPECT_EQ(report_socket_name(12, 1), "12.sock");
  EXPECT_EQ(report_socket_name(12, 3), "12-3.sock");
  EXPECT_EQ(process_of_socket("12.sock"), 12);
  EXPECT_EQ(process_of_socket("12-3.sock"), 12);
  for (const char* name : {".sock", "12", "x.sock", "12-.sock", "12-x.sock", "-2.sock", "012.sock",
                           "99999999999.sock", "+1.sock"})
    EXPECT_EQ(process_of_socket(name), std::nullopt) << name;
}

// ---- the runtime ----

TEST_F(ReportServerTest, ARuntimeOffersItsReport) {
  LiveWorld world;
  world.drop_in("one", "live_1");
  Options options = world.options();
  options.report_socket = fs::path();
  const StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  LiveCall call(*runtime);
  for (int calls = 0; calls < 5; ++calls) ASSERT_EQ(call.seen(), mark(1));

  const Report report = runtime->report();
  EXPECT_EQ(report.report_socket, place().string());
  const nlohmann::json answer = nlohmann::json::parse(ask(place()));
  EXPECT_EQ(answer, nlohmann::json::parse(to_json(report)));
  EXPECT_EQ(answer.at("report"), 1);
  EXPECT_EQ(answer.at("process").at("id"), getpid());
  EXPECT_EQ(answer.at("process").at("program"), fs::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(answer.at("report_socket"), place().string());
  for (const nlohmann::json& each : answer.at("operators")) {
    if (each.at("name") == "live_0") {
      EXPECT_EQ(each.at("bindings").at(0).at("calls"), 5);
    }
  }
}

TEST_F(ReportServerTest, EachRuntimeOfAProcessHasASocketOfItsOwn) {
  LiveWorld world;
  Options options = world.options();
  options.report_socket = fs::path();
  auto first = std::make_unique<StatusOr<Runtime>>(Runtime::open(options));
  const StatusOr<Runtime> second = Runtime::open(options);
  ASSERT_TRUE(first->ok() && second.ok());
  EXPECT_EQ((*first)->report().report_socket, place().string());
  EXPECT_EQ(second->report().report_socket, place(2).string());
  first.reset();
  EXPECT_FALSE(fs::exists(fs::symlink_status(place())));
  EXPECT_EQ(nlohmann::json::parse(ask(place(2))).at("report_socket"), place(2).string());
}

TEST_F(ReportServerTest, ARuntimeOpensWithoutItsSocketAndSaysSo) {
  fs::create_directories(default_folder());
  fs::permissions(default_folder(), fs::perms::all);
  LiveWorld world;
  world.drop_in("one", "live_1");
  Options options = world.options();
  options.report_socket = fs::path();
  const StatusOr<Runtime> runtime = Runtime::open(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  EXPECT_EQ(LiveCall(*runtime).seen(), mark(1));
  const Report report = runtime->report();
  EXPECT_EQ(report.report_socket, "");
  ASSERT_FALSE(report.rejections.empty());
  EXPECT_EQ(report.rejections.back().rule, "runtime.report_socket");
  EXPECT_EQ(report.rejections.back().found, "it is open to others");
}

TEST_F(ReportServerTest, TheEnvironmentAsksForTheSocket) {
  LiveWorld world;
  EnvironmentGuard asked;
  const auto socket_of = [&](const std::string& value, bool load = true) {
    asked.set("OPMUX_REPORT_SOCKET", value);
    Options options = world.options();
    options.load = load;
    const StatusOr<Runtime> runtime = Runtime::open(options);
    return runtime.ok() ? runtime->report().report_socket : runtime.status().rejection()->rule;
  };
  EXPECT_EQ(socket_of("1"), place().string());
  EXPECT_EQ(socket_of("0"), "");
  EXPECT_EQ(socket_of((folder / "here.sock").string()), (folder / "here.sock").string());
  EXPECT_EQ(socket_of("yes"), "config.variable_form");
  EXPECT_EQ(socket_of("~/here.sock"), "config.variable_form");
  EXPECT_EQ(socket_of("1", false), "") << "where nothing is loaded there is nothing to watch";
  Options options = world.options();
  options.report_socket = folder / "mine.sock";
  asked.set("OPMUX_REPORT_SOCKET", "1");
  EXPECT_EQ(Runtime::open(options)->report().report_socket, (folder / "mine.sock").string())
      << "what the program asks for comes first";
}

}  // namespace
}  // namespace opmux::testing
