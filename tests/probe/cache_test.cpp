// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/log.hpp"
#include "core/probe/cache.hpp"
#include "tests/fakes/fakes.hpp"
#include "tests/probe/probing.hpp"

namespace opmux {
namespace {

using ::testing::HasSubstr;

class FindingsCache : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"none", "registers"}) {
      std::filesystem::copy_file(fakes::path(name), library(name));
    }
    load_set = load_set_of({library("none"), library("registers"), fakes::path("abort")});
    load_set.modules.push_back(fakes::path("module_listens"));
    options = patient();
    options.cache_folder = folder_.path() / "cache";
  }

  std::filesystem::path library(const std::string& name) const {
    return std::filesystem::canonical(folder_.path()) / (name + ".so");
  }

  std::filesystem::path entry() const {
    std::filesystem::path found;
    for (const auto& file :
         std::filesystem::directory_iterator(options.cache_folder / "findings")) {
      EXPECT_TRUE(found.empty()) << "one entry was expected";
      found = file.path();
    }
    return found;
  }

  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  // In place, so that owner and mode stay.
  static void write(const std::filesystem::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
  }

  TemporaryFolder folder_;
  LoadSet load_set;
  ProbeOptions options;
};

TEST_F(FindingsCache, AnswersTheSameWithoutAProbe) {
  EXPECT_FALSE(cached_findings(load_set, options));
  const Findings first = probe(load_set, options);
  EXPECT_EQ(first.probes, 2);
  const Findings second = probe(load_set, options);
  EXPECT_EQ(second.probes, 0);
  const auto cached = cached_findings(load_set, options);
  ASSERT_TRUE(cached);
  for (const Findings& found : {second, *cached}) {
    ASSERT_EQ(found.libraries.size(), 3u);
    EXPECT_FALSE(found.libraries[0].rejection);
    ASSERT_TRUE(found.libraries[2].rejection);
    EXPECT_EQ(to_string(*found.libraries[2].rejection), to_string(*first.libraries[2].rejection));
    ASSERT_EQ(found.registrations.size(), 1u);
    EXPECT_EQ(found.registrations[0].library, first.registrations[0].library);
    EXPECT_EQ(found.registrations[0].schema, first.registrations[0].schema);
    EXPECT_EQ(found.registrations[0].dispatch_keys, first.registrations[0].dispatch_keys);
    ASSERT_EQ(found.modules.size(), 1u);
    EXPECT_EQ(found.modules[0].name, "fake");
    EXPECT_EQ(found.modules[0].operators.size(), 2u);
  }
}

TEST_F(FindingsCache, IsPrivate) {
  probe(load_set, options);
  struct stat status {};
  ASSERT_EQ(stat(entry().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ASSERT_EQ(stat((options.cache_folder / "findings").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(FindingsCache, HoldsTheHashOfEachFile) {
  probe(load_set, options);
  probing::Digests digests;
  std::string fault;
  ASSERT_TRUE(probing::parse_findings_file(read(entry()), digests, fault)) << fault;
  EXPECT_EQ(digests, probing::digest_files(load_set));
  ASSERT_EQ(digests.size(), 4u);
  EXPECT_EQ(digests[1].size(), 64u);
  options.verify_content = true;
  EXPECT_TRUE(cached_findings(load_set, options));
}

TEST_F(FindingsCache, NoticesATouchedFile) {
  probe(load_set, options);
  std::filesystem::last_write_time(
      library("none"), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  EXPECT_FALSE(cached_findings(load_set, options));
  EXPECT_EQ(probe(load_set, options).probes, 2);
}

// Case 55: same size and same mtime; the time of the change tells.
TEST_F(FindingsCache, NoticesAFileOfTheSameSizeAndTime) {
  probe(load_set, options);
  const auto time = std::filesystem::last_write_time(library("none"));
  std::string content = read(library("none"));
  content.back() = static_cast<char>(content.back() ^ 1);
  write(library("none"), content);
  std::filesystem::last_write_time(library("none"), time);
  EXPECT_FALSE(cached_findings(load_set, options));
}

// Case 55: strict trust and a lock ask.
TEST_F(FindingsCache, ComparesContentsWhenAsked) {
  const std::string key =
      probing::findings_key(load_set, find_probe_executable(), options.memory_limit);
  const Findings findings = probe(load_set, options);
  probing::Digests wrong = probing::digest_files(load_set);
  wrong[1][0] = wrong[1][0] == '0' ? '1' : '0';
  probing::write_findings(options.cache_folder, key, findings, wrong);
  EXPECT_TRUE(cached_findings(load_set, options));
  options.verify_content = true;
  EXPECT_FALSE(cached_findings(load_set, options));
}

TEST_F(FindingsCache, DistinguishesLoadSets) {
  probe(load_set, options);
  LoadSet other = load_set;
  std::swap(other.libraries[0], other.libraries[1]);
  EXPECT_FALSE(cached_findings(other, options)) << "another order";
  other = load_set;
  other.libraries[0].python_extension = true;
  EXPECT_FALSE(cached_findings(other, options)) << "another binding mode";
  other = load_set;
  other.libraries.pop_back();
  EXPECT_FALSE(cached_findings(other, options)) << "fewer libraries";
  other = load_set;
  other.driver = fakes::path("other");
  EXPECT_FALSE(cached_findings(other, options)) << "a driver";
  const std::string driver_key = probing::findings_key(other, "/p", 0);
  other.stub_driver = true;
  EXPECT_NE(probing::findings_key(other, "/p", 0), driver_key) << "a stub";
  EXPECT_NE(probing::findings_key(load_set, "/p", 1), probing::findings_key(load_set, "/p", 0));
  EXPECT_NE(probing::findings_key(load_set, "/p", 0), probing::findings_key(load_set, "/q", 0));
}

TEST_F(FindingsCache, DistinguishesBindings) {
  load_set = load_set_of({library("none")});
  load_set.modules.push_back(fakes::path("module_binds"));
  load_set.bindings = {answer_binding("answer")};
  const Findings first = probe(load_set, options);
  ASSERT_EQ(first.bindings.size(), 1u);
  EXPECT_FALSE(first.bindings[0]);
  EXPECT_EQ(probe(load_set, options).probes, 0);

  load_set.bindings[0].binding.returns = "long";
  EXPECT_FALSE(cached_findings(load_set, options)) << "another type";
  load_set.bindings[0].binding.returns = "int";
  EXPECT_TRUE(cached_findings(load_set, options));
  load_set.bindings[0].binding.call.emplace_back().source.emplace<int>(0);
  EXPECT_FALSE(cached_findings(load_set, options)) << "another mapping";
  load_set.bindings.clear();
  EXPECT_FALSE(cached_findings(load_set, options)) << "no binding";
}

TEST_F(FindingsCache, KeepsARefusalToBind) {
  load_set = load_set_of({library("none")});
  load_set.modules.push_back(fakes::path("module_binds"));
  load_set.bindings = {answer_binding("answer"), answer_binding("refused")};
  const Findings first = probe(load_set, options);
  const auto cached = cached_findings(load_set, options);
  ASSERT_TRUE(cached);
  ASSERT_EQ(cached->bindings.size(), 2u);
  EXPECT_FALSE(cached->bindings[0]);
  ASSERT_TRUE(cached->bindings[1]);
  EXPECT_EQ(to_string(*cached->bindings[1]), to_string(*first.bindings[1]));
}

TEST_F(FindingsCache, DistinguishesPythons) {
  LoadSet other = load_set;
  other.python = python_library(fakes::libpython("3.99"), "3.99");
  const std::string key = probing::findings_key(other, "/p", 0);
  EXPECT_NE(key, probing::findings_key(load_set, "/p", 0));
  other.python = python_library(fakes::libpython("3.98"), "3.98");
  EXPECT_NE(key, probing::findings_key(other, "/p", 0));
}

// Case 53: of an older or newer opmux, or of another machine, whose key is another file's name.
TEST_F(FindingsCache, IgnoresAnotherFormat) {
  probe(load_set, options);
  const std::string whole = read(entry());
  const std::size_t digit = whole.find_first_of("0123456789");
  ASSERT_LT(digit, whole.find('\n'));
  for (const int step : {-1, 1}) {
    std::string other = whole;
    other[digit] = static_cast<char>(other[digit] + step);
    write(entry(), other);
    EXPECT_FALSE(cached_findings(load_set, options));
  }
  write(entry(), whole);
  EXPECT_TRUE(cached_findings(load_set, options));
}

// Case 53; fuzz_findings_cache goes on where this ends.
TEST_F(FindingsCache, IgnoresEachCutAndEachChangedByte) {
  probe(load_set, options);
  const std::filesystem::path path = entry();
  const std::string whole = read(path);
  ASSERT_GT(whole.size(), 200u);
  for (std::size_t cut = 0; cut < whole.size(); cut += 1 + whole.size() / 199) {
    write(path, whole.substr(0, cut));
    EXPECT_FALSE(cached_findings(load_set, options)) << "cut at " << cut;
  }
  for (std::size_t i = 0; i < whole.size(); i += 1 + whole.size() / 499) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write(path, changed);
    EXPECT_FALSE(cached_findings(load_set, options)) << "changed at " << i;
  }
  write(path, whole + " ");
  EXPECT_FALSE(cached_findings(load_set, options));
  write(path, whole);
  EXPECT_TRUE(cached_findings(load_set, options));
}

// Case 56.
TEST_F(FindingsCache, IgnoresAFileThatOthersCouldHaveWritten) {
  probe(load_set, options);
  const std::filesystem::path path = entry();
  chmod(path.c_str(), 0602);
  EXPECT_FALSE(cached_findings(load_set, options));
  chmod(path.c_str(), 0600);
  EXPECT_TRUE(cached_findings(load_set, options));
  chmod((options.cache_folder / "findings").c_str(), 0777);
  EXPECT_FALSE(cached_findings(load_set, options));
  chmod((options.cache_folder / "findings").c_str(), 0700);
  std::filesystem::rename(path, folder_.path() / "real");
  std::filesystem::create_symlink(folder_.path() / "real", path);
  EXPECT_FALSE(cached_findings(load_set, options)) << "a link";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_FALSE(cached_findings(load_set, options)) << "a pipe";
}

// Case 54.
TEST_F(FindingsCache, DoesWithoutAPlaceToWrite) {
  std::ofstream(folder_.path() / "cache") << "a file, where a folder should be";
  const Findings findings = probe(load_set, options);
  EXPECT_EQ(findings.probes, 2);
  EXPECT_FALSE(findings.libraries[0].rejection);
}

TEST_F(FindingsCache, KeepsNothingThatTimeDecided) {
  options.deadline = std::chrono::seconds(1);
  load_set = load_set_of({library("none"), fakes::path("sleep")});
  EXPECT_EQ(probe(load_set, options).libraries[1].rejection->rule, "probe.deadline");
  EXPECT_FALSE(cached_findings(load_set, options));
  load_set = load_set_of({fakes::path("kill_itself")});
  EXPECT_EQ(probe(load_set, options).libraries[0].rejection->rule, "probe.signal");
  EXPECT_FALSE(cached_findings(load_set, options));
}

TEST_F(FindingsCache, KeepsNothingOfAProbeThatWasNotThere) {
  options.executable = "/nowhere/opmux-probe";
  EXPECT_EQ(probe(load_set, options).libraries[0].rejection->rule, "probe.unavailable");
  EXPECT_FALSE(cached_findings(load_set, options));
}

// Case 54: two writers.
TEST_F(FindingsCache, IsReadWhileOthersWrite) {
  const Findings findings = probe(load_set, options);
  const std::string key =
      probing::findings_key(load_set, find_probe_executable(), options.memory_limit);
  const probing::Digests digests = probing::digest_files(load_set);
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        probing::write_findings(options.cache_folder, key, findings, digests);
      }
    });
  }
  for (int round = 0; round < 50; ++round) EXPECT_TRUE(cached_findings(load_set, options));
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace opmux
