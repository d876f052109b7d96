// SPDX-License-Identifier: Apache-2.0
//
// Each fault that a library can have while it is loaded: the library is rejected by the right rule,
// the libraries before and after it are found, and this process lives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "core/probe/sanitizers.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/probe/probing.hpp"

namespace opmux {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Fault : public ::testing::Test {
 protected:
  // The rejection of the fake, which stands between two libraries without a fault.
  Rejection of(const std::string& fake, const ProbeOptions& options = patient()) {
    const LoadSet load_set =
        load_set_of({fakes::path("none"), fakes::path(fake), fakes::path("other")});
    const auto begin = std::chrono::steady_clock::now();
    findings = probe(load_set, options);
    const auto time = std::chrono::steady_clock::now() - begin;
    // One process for the fault, one for the rest.
    EXPECT_LT(time, 2 * options.deadline + std::chrono::seconds(10));
    EXPECT_EQ(findings.libraries.size(), 3u);
    EXPECT_FALSE(findings.libraries[0].rejection) << to_string(*findings.libraries[0].rejection);
    EXPECT_FALSE(findings.libraries[2].rejection) << to_string(*findings.libraries[2].rejection);
    EXPECT_TRUE(findings.libraries[1].rejection) << fake;
    if (!findings.libraries[1].rejection) return {};
    const Rejection rejection = *findings.libraries[1].rejection;
    EXPECT_EQ(rejection.subject, fakes::path(fake).native());
    EXPECT_FALSE(rejection.hint.empty());
    return rejection;
  }

  static ProbeOptions impatient() {
    ProbeOptions options;
    options.deadline = std::chrono::seconds(2);
    return options;
  }

  Findings findings;
};

TEST_F(Fault, NoneAtAll) {
  const Findings found = probe(load_set_of({fakes::path("none"), fakes::path("other")}), patient());
  ASSERT_EQ(found.libraries.size(), 2u);
  EXPECT_EQ(found.libraries[0].path, fakes::path("none"));
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_FALSE(found.libraries[1].rejection);
  EXPECT_EQ(found.probes, 1);
  EXPECT_GT(found.seconds, 0.0);
}

TEST_F(Fault, Abort) {
  const Rejection rejection = of("abort");
  EXPECT_EQ(rejection.stage, "probe");
  EXPECT_EQ(rejection.rule, "probe.signal");
  EXPECT_EQ(rejection.expected, "it is loaded without a signal");
  EXPECT_EQ(
      rejection.found,
      "probe ended by SIGABRT while loading it; its output ends with \"fake: about to abort\"");
  EXPECT_EQ(findings.probes, 2);
}

TEST_F(Fault, Segfault) {
  EXPECT_EQ(of("segfault").rule, "probe.signal");
  EXPECT_THAT(findings.libraries[1].rejection->found,
              StartsWith("probe ended by SIGSEGV while loading it"));
}

TEST_F(Fault, InstructionThatTheCpuDoesNotHave) {
  const Rejection rejection = of("illegal");
  EXPECT_EQ(rejection.rule, "probe.signal");
  EXPECT_EQ(rejection.found, "probe ended by SIGILL while loading it; it printed nothing");
}

TEST_F(Fault, BusError) {
  const Rejection rejection = of("bus");
  EXPECT_EQ(rejection.rule, "probe.signal");
  EXPECT_THAT(rejection.found, StartsWith("probe ended by SIGBUS while loading it"));
}

TEST_F(Fault, Exception) {
  const Rejection rejection = of("throw");
  EXPECT_EQ(rejection.rule, "probe.exception");
  EXPECT_EQ(rejection.expected, "static constructors that do not throw");
  EXPECT_EQ(rejection.found, "std::runtime_error: fake: no kernel image");
}

TEST_F(Fault, ExceptionWithoutAText) {
  const Rejection rejection = of("throw_number");
  EXPECT_EQ(rejection.rule, "probe.exception");
  EXPECT_EQ(rejection.found, "int, without a text");
}

TEST_F(Fault, ExitOfEveryKind) {
  const Rejection exit_1 = of("exit_1");
  EXPECT_EQ(exit_1.rule, "probe.exit");
  EXPECT_EQ(exit_1.expected, "it is loaded and the process goes on");
  EXPECT_EQ(exit_1.found,
            "probe exited with code 1 while loading it; its output ends with "
            "\"fake: licence not found\"");
  for (const auto& [fake, code] :
       {std::pair{"exit_0", "0"}, std::pair{"quick_exit_0", "0"}, std::pair{"quick_exit_1", "1"}}) {
    const Rejection rejection = of(fake);
    EXPECT_EQ(rejection.rule, "probe.exit");
    EXPECT_EQ(rejection.found, std::string("probe exited with code ") + code +
                                   " while loading it; it printed nothing");
  }
}

TEST_F(Fault, SleepingForEver) {
  const Rejection rejection = of("sleep", impatient());
  EXPECT_EQ(rejection.rule, "probe.deadline");
  EXPECT_EQ(rejection.expected, "it is loaded within the deadline of 2 s");
  EXPECT_EQ(rejection.found,
            "it was still being loaded; the probe was killed; its output ends with \"fake: waiting "
            "for the licence server\"");
}

TEST_F(Fault, SpinningForEver) { EXPECT_EQ(of("spin", impatient()).rule, "probe.deadline"); }

TEST_F(Fault, DeadlockOfAThreadWithTheLinkersLock) {
  EXPECT_EQ(of("deadlock", impatient()).rule, "probe.deadline");
}

TEST_F(Fault, PrintingAGigabyte) {
  const Rejection rejection = of("print");
  EXPECT_EQ(rejection.rule, "probe.output");
  EXPECT_EQ(rejection.expected, "at most 16 MiB of output");
  EXPECT_THAT(rejection.found, StartsWith("more than that; the probe was killed"));
  EXPECT_LT(rejection.found.size(), 1000u);
}

// The reply's descriptor lies above those that such code closes.
TEST_F(Fault, ClosingAThousandDescriptorsIsNone) {
  const Findings found =
      probe(load_set_of({fakes::path("close_descriptors"), fakes::path("other")}), patient());
  EXPECT_FALSE(found.libraries[0].rejection) << to_string(*found.libraries[0].rejection);
  EXPECT_FALSE(found.libraries[1].rejection);
  EXPECT_EQ(found.probes, 1);
}

TEST_F(Fault, ClosingEveryDescriptor) {
  const Rejection rejection = of("close_all");
  EXPECT_EQ(rejection.rule, "probe.protocol");
  EXPECT_EQ(rejection.expected, "the probe's own replies");
  EXPECT_EQ(rejection.found, "the descriptor that the probe replies on was closed");
}

TEST_F(Fault, WritingGarbageToEveryDescriptor) {
  const Rejection rejection = of("garbage");
  EXPECT_EQ(rejection.rule, "probe.protocol");
  EXPECT_THAT(rejection.found,
              StartsWith("bytes that begin no frame: \"garbage that begins no frame"));
}

// The child of the library keeps all descriptors of the probe; nobody waits for their end.
TEST_F(Fault, ForkedChildThatGoesOnIsNone) {
  ProbeOptions options;
  options.deadline = std::chrono::seconds(60);
  const Findings found = probe(load_set_of({fakes::path("fork"), fakes::path("other")}), options);
  EXPECT_FALSE(found.libraries[0].rejection);
  EXPECT_FALSE(found.libraries[1].rejection);
  EXPECT_LT(found.seconds, 30.0);
}

TEST_F(Fault, UndefinedSymbolCostsNoSecondProbe) {
  const Rejection rejection = of("unresolved");
  EXPECT_EQ(rejection.stage, "loader");
  EXPECT_EQ(rejection.rule, "loader.open_failed");
  EXPECT_EQ(rejection.found, fakes::path("unresolved").native() +
                                 ": undefined symbol: fake_function_that_nobody_has");
  EXPECT_EQ(findings.probes, 1);
}

TEST_F(Fault, UndefinedSymbolIsNoneOfAPythonExtension) {
  LoadSet load_set = load_set_of({fakes::path("unresolved")});
  load_set.libraries[0].python_extension = true;
  EXPECT_FALSE(probe(load_set, patient()).libraries[0].rejection);
}

TEST_F(Fault, FileThatIsNotThere) {
  const Rejection rejection = of("nothing_has_this_name");
  EXPECT_EQ(rejection.rule, "loader.open_failed");
  EXPECT_EQ(rejection.found, "no such file");
}

TEST_F(Fault, OpeningFilesUpToTheLimit) {
  const Rejection rejection = of("open_files");
  EXPECT_EQ(rejection.rule, "probe.limit");
  EXPECT_EQ(rejection.expected, "at most 4096 open files");
  EXPECT_EQ(rejection.found, "no descriptor is left after it was loaded; it printed nothing");
}

TEST_F(Fault, WritingALargeFile) {
  const Rejection rejection = of("write_file");
  EXPECT_EQ(rejection.rule, "probe.limit");
  EXPECT_EQ(rejection.expected, "files of at most 16 MiB");
  EXPECT_THAT(rejection.found, StartsWith("probe ended by SIGXFSZ"));
}

#if !defined(OPMUX_WITH_ADDRESS_SANITIZER) && !defined(OPMUX_WITH_THREAD_SANITIZER)
TEST_F(Fault, EatingMemory) {
  ProbeOptions options = patient();
  options.memory_limit = std::uint64_t{512} << 20;
  const Rejection thrown = of("fill_memory", options);
  EXPECT_EQ(thrown.rule, "probe.limit");
  EXPECT_EQ(thrown.expected, "at most 512 MiB of writable memory");
  EXPECT_THAT(thrown.found, StartsWith("std::bad_alloc"));
  // The next library must not be blamed for what this one holds.
  const Rejection held = of("hold_memory", options);
  EXPECT_EQ(held.rule, "probe.limit");
  EXPECT_THAT(held.found, StartsWith("no memory is left after it was loaded"));
}
#endif

TEST_F(Fault, ManyBusyThreads) {
  ProbeOptions options;
  options.deadline = std::chrono::seconds(2);
  const Rejection rejection = of("spin_in_threads", options);
  // By the deadline on few cores, by the limit of CPU time on many.
  if (rejection.rule == "probe.limit") {
    EXPECT_EQ(rejection.expected, "at most 7 s of CPU time");
  } else {
    EXPECT_EQ(rejection.rule, "probe.deadline");
  }
}

TEST_F(Fault, SecondDefinitionOfANamespaceNamesBothLibraries) {
  LoadSet load_set =
      load_set_of({fakes::path("registers"), fakes::path("conflict"), fakes::path("other")});
  load_set.modules.push_back(fakes::path("module_listens"));
  const Findings found = probe(load_set, patient());
  EXPECT_FALSE(found.libraries[0].rejection) << to_string(*found.libraries[0].rejection);
  EXPECT_FALSE(found.libraries[2].rejection);
  ASSERT_TRUE(found.libraries[1].rejection);
  const Rejection& rejection = *found.libraries[1].rejection;
  EXPECT_EQ(rejection.rule, "probe.conflict");
  EXPECT_EQ(rejection.subject, fakes::path("conflict").native());
  EXPECT_EQ(rejection.expected, "namespace `fake_space` defined once, by fake: registers (" +
                                    fakes::path("registers").native() + ")");
  EXPECT_EQ(rejection.found, "fake: conflict, which stands later in the load set, defines it, too");
  EXPECT_EQ(found.probes, 2);
  ASSERT_EQ(found.registrations.size(), 1u) << "of the libraries that stay";
}

TEST_F(Fault, SecondDefinitionOfAnOperatorNamesThePlaceOfTheFirst) {
  const Rejection rejection = of("conflict_operator");
  EXPECT_EQ(rejection.rule, "probe.conflict");
  EXPECT_EQ(rejection.expected,
            "namespace `unseen_space` defined once, by an earlier library (/build/first.cpp:3)");
}

TEST_F(Fault, CrashOfAThreadAfterItsLibraryIsThere) {
  // The thread strikes while a later library is loaded, or after the end, when nobody is hurt.
  const Findings found =
      probe(load_set_of({fakes::path("crash_later"), fakes::path("other")}), patient());
  for (const LibraryFinding& library : found.libraries) {
    if (library.rejection) {
      EXPECT_EQ(library.rejection->rule, "probe.signal");
    }
  }
}

TEST_F(Fault, SeveralInOneLoadSet) {
  const Findings found =
      probe(load_set_of({fakes::path("abort"), fakes::path("none"), fakes::path("throw"),
                         fakes::path("exit_0"), fakes::path("other")}),
            patient());
  EXPECT_EQ(found.libraries[0].rejection->rule, "probe.signal");
  EXPECT_FALSE(found.libraries[1].rejection);
  EXPECT_EQ(found.libraries[2].rejection->rule, "probe.exception");
  EXPECT_EQ(found.libraries[3].rejection->rule, "probe.exit");
  EXPECT_FALSE(found.libraries[4].rejection);
  EXPECT_EQ(found.probes, 4);
}

}  // namespace
}  // namespace opmux
