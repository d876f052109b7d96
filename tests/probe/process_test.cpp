// SPDX-License-Identifier: Apache-2.0
//
// opmux-probe as a program: missing, of another version, started from a busy process; and what it
// inherits.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/probe/child_process.hpp"
#include "core/probe/frame.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/probe/probing.hpp"

namespace opmux {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ProbeProgram : public ::testing::Test {
 protected:
  // Every library is rejected for the program's sake, and nothing is loaded here.
  std::string found_with(const std::filesystem::path& executable,
                         std::chrono::milliseconds deadline = std::chrono::seconds(20)) {
    LoadSet load_set = load_set_of({fakes::path("none"), fakes::path("other")});
    load_set.modules.push_back(fakes::path("module_none"));
    ProbeOptions options;
    options.deadline = deadline;
    options.executable = executable;
    const Findings found = probe(load_set, options);
    for (const auto& rejection :
         {found.libraries[0].rejection, found.libraries[1].rejection, found.modules[0].rejection}) {
      EXPECT_TRUE(rejection);
      if (!rejection) return {};
      EXPECT_EQ(rejection->rule, "probe.unavailable");
      EXPECT_EQ(rejection->subject, executable.native());
      EXPECT_THAT(rejection->expected, HasSubstr("opmux-probe of version "));
    }
    return found.libraries[0].rejection->found;
  }

  std::filesystem::path script(const std::string& text) {
    const std::filesystem::path path = folder_.path() / "opmux-probe";
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(ProbeProgram, IsFoundBesideThisOne) {
  EXPECT_EQ(find_probe_executable(), std::filesystem::path(OPMUX_BINARY_DIR) / "bin/opmux-probe");
}

TEST_F(ProbeProgram, ThatIsMissing) {
  EXPECT_EQ(found_with("/nowhere/opmux-probe"), "No such file or directory");
}

TEST_F(ProbeProgram, ThatIsNotExecutable) {
  const std::filesystem::path path = script("exit 0");
  chmod(path.c_str(), 0644);
  EXPECT_EQ(found_with(path), "Permission denied");
}

TEST_F(ProbeProgram, ThatIsSomethingElse) {
  EXPECT_EQ(found_with(script("exit 0")), "it exited with code 0 without a greeting");
  EXPECT_THAT(found_with(script("echo no greeting >&3; sleep 1")),
              HasSubstr("bytes that begin no frame: \"no greeting"));
  EXPECT_EQ(found_with(script("sleep 60"), std::chrono::milliseconds(300)),
            "it did not greet within the deadline");
  EXPECT_EQ(found_with(script("kill -9 $$")), "it was ended by signal 9 without a greeting");
}

TEST_F(ProbeProgram, OfAnotherVersion) {
  const std::string hello =
      probing::encode_frame(R"({"type":"hello","protocol":2,"version":"9.9.9"})");
  std::ofstream(folder_.path() / "hello", std::ios::binary) << hello;
  EXPECT_THAT(found_with(script("cat '" + (folder_.path() / "hello").native() + "' >&3; sleep 1")),
              HasSubstr("version 9.9.9 with protocol 2 in place of "));
}

TEST_F(ProbeProgram, SaysWhatItIsWhenStartedByHand) {
  const std::string program = find_probe_executable().native();
  EXPECT_EQ(WEXITSTATUS(std::system((program + " 2>/dev/null").c_str())), 2);
  EXPECT_EQ(WEXITSTATUS(std::system((program + " --version >/dev/null").c_str())), 0);
}

TEST_F(ProbeProgram, LeavesNoChildBehind) {
  probe(load_set_of({fakes::path("none"), fakes::path("abort"), fakes::path("fork")}), patient());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(ProbeProgram, LeavesNoDescriptorOpen) {
  const auto open_descriptors = [] {
    std::size_t count = 0;
    for (int i = 0; i < 1024; ++i) count += fcntl(i, F_GETFD) >= 0 ? 1 : 0;
    return count;
  };
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 3; ++i)
    probe(load_set_of({fakes::path("none"), fakes::path("abort")}), patient());
  EXPECT_EQ(open_descriptors(), before);
}

// A host that ignores SIGCHLD gets no exit status; a good probe is good all the same.
TEST_F(ProbeProgram, WorksInAHostThatIgnoresItsChildren) {
  signal(SIGCHLD, SIG_IGN);
  const Findings found = probe(load_set_of({fakes::path("none"), fakes::path("abort")}), patient());
  signal(SIGCHLD, SIG_DFL);
  EXPECT_FALSE(found.libraries[0].rejection);
  ASSERT_TRUE(found.libraries[1].rejection);
  EXPECT_THAT(found.libraries[1].rejection->found, HasSubstr("fake: about to abort"));
}

TEST_F(ProbeProgram, WorksWhenTheHostClosedItsStandardDescriptors) {
  const int saved = fcntl(0, F_DUPFD_CLOEXEC, 100);
  close(0);
  const Findings found = probe(load_set_of({fakes::path("none")}), patient());
  dup2(saved, 0);
  close(saved);
  EXPECT_FALSE(found.libraries[0].rejection);
}

// malloc's and the linker's locks are taken all the time while probes start.
TEST_F(ProbeProgram, StartsFromABusyProcessWithoutHanging) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 6; ++i) {
    busy.emplace_back([&stop] {
      while (!stop) {
        std::vector<std::string> garbage(50, std::string(100, 'x'));
        std::this_thread::yield();
      }
    });
  }
  std::vector<std::thread> probers;
  std::atomic<int> rejected{0};
  for (int i = 0; i < 3; ++i) {
    probers.emplace_back([&rejected] {
      for (int round = 0; round < 5; ++round) {
        const Findings found = probe(load_set_of({fakes::path("none")}), patient());
        if (found.libraries[0].rejection) ++rejected;
      }
    });
  }
  for (std::thread& prober : probers) prober.join();
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(rejected.load(), 0);
}

TEST_F(ProbeProgram, GetsAConstructedEnvironmentAndNoDescriptors) {
  setenv("LD_PRELOAD_CANARY", "1", 1);
  setenv("PYTHONPATH", "/nowhere", 1);
  setenv("NVIDIA_VISIBLE_DEVICES", "none", 1);
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  const int leaked = fcntl(open("/dev/null", O_RDONLY), F_DUPFD, 200);
  const std::filesystem::path log = folder_.path() / "log";
  const std::filesystem::path program =
      script("env >'" + log.native() + "'; ls /proc/self/fd >>'" + log.native() + "'");
  found_with(program);
  close(leaked);
  std::ifstream file(log);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_THAT(text, HasSubstr("LANG=C.UTF-8\n"));
  EXPECT_THAT(text, HasSubstr("NVIDIA_VISIBLE_DEVICES=none\n"));
  EXPECT_THAT(text, HasSubstr("CUDA_VISIBLE_DEVICES=7\n"));
  EXPECT_THAT(text, Not(HasSubstr("CANARY")));
  EXPECT_THAT(text, Not(HasSubstr("PYTHONPATH")));
  EXPECT_THAT(text, Not(HasSubstr("\n200\n")));
  EXPECT_THAT(text, HasSubstr("\n3\n"));
}

TEST_F(ProbeProgram, ReportsItsProgress) {
  std::vector<std::string> events;
  ProbeOptions options = patient();
  options.progress = [&events](const std::string& event) { events.push_back(event); };
  probe(load_set_of({fakes::path("none"), fakes::path("abort")}), options);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], "probing 2 libraries and 0 plugin modules");
  EXPECT_THAT(events[1], HasSubstr("[probe.signal]"));
  EXPECT_EQ(events[2], "probing 1 libraries and 0 plugin modules");
}

}  // namespace
}  // namespace opmux
