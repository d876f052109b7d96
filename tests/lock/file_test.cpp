// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/lock/locks.hpp"
#include "tests/support/temporary_folder.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;
using testing::example_lock;
using ::testing::HasSubstr;

std::string text_of(const lock::Lock& lock) {
  Result<std::string> text = lock::to_text(lock);
  EXPECT_TRUE(text.ok());
  return text.ok() ? *text : std::string();
}

std::string content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The example's text with one part replaced.
std::string changed(const std::string& before, const std::string& after) {
  std::string text = text_of(example_lock());
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  return at == std::string::npos ? text : text.replace(at, before.size(), after);
}

void expect_refused(const std::string& text, const std::string& place, const std::string& expected,
                    const std::string& found) {
  const Result<lock::Lock> lock = lock::parse(text, "opmux.lock");
  ASSERT_FALSE(lock.ok());
  EXPECT_EQ(lock.rejection().rule, "lock.form");
  EXPECT_EQ(lock.rejection().subject, "opmux.lock: " + place);
  EXPECT_EQ(lock.rejection().expected, expected);
  EXPECT_EQ(lock.rejection().found, found);
}

TEST(LockFile, WhatIsWrittenIsReadBack) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(lock::write(example_lock(), folder / "opmux.lock"), std::nullopt);
  const Result<lock::Lock> read = lock::read(folder / "opmux.lock");
  ASSERT_TRUE(read.ok()) << to_string(read.rejection());
  EXPECT_EQ(*read, example_lock());
}

TEST(LockFile, TheTextDoesNotDependOnTheOrderOfTheFindings) {
  lock::Lock shuffled = example_lock();
  std::swap(shuffled.files[0], shuffled.files[2]);
  std::swap(shuffled.manifests[0], shuffled.manifests[1]);
  std::swap(shuffled.bindings[0], shuffled.bindings[2]);
  lock::sort(shuffled);
  EXPECT_EQ(text_of(shuffled), text_of(example_lock()));
  EXPECT_THAT(text_of(shuffled), HasSubstr("\n      \"operator\": \"silu_and_mul\",\n"))
      << "one fact per line, so that version control shows what changed";
}

TEST(LockFile, ANameThatIsNoUtf8IsNotWritten) {
  lock::Lock lock = example_lock();
  lock.files[0].path = "vllm/\xff.so";
  const testing::TemporaryFolder folder;
  const fs::path file = folder.write("opmux.lock", "before");
  const Check refused = lock::write(lock, file);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->rule, "lock.unwritable");
  EXPECT_EQ(content_of(file), "before");
}

TEST(LockFile, AFolderThatIsNotThereIsTold) {
  const testing::TemporaryFolder folder;
  const Check refused = lock::write(example_lock(), folder / "no/opmux.lock");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->rule, "lock.unwritable");
  EXPECT_THAT(refused->found, HasSubstr("No such file or directory"));
}

TEST(LockFile, AWriteThatFailsLeavesTheOldLockAndNothingElse) {
  const testing::TemporaryFolder folder;
  folder.write("lock/opmux.lock", "before");
  // A file that replaces a folder cannot be renamed over it.
  fs::create_directories(folder / "lock/taken.lock/x");
  const Check refused = lock::write(example_lock(), folder / "lock/taken.lock");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->rule, "lock.unwritable");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder / "lock"))
    names.push_back(entry.path().filename());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("opmux.lock", "taken.lock"));
  EXPECT_EQ(content_of(folder / "lock/opmux.lock"), "before");
}

TEST(LockFile, AMissingLockAPipeAndAFolder) {
  const testing::TemporaryFolder folder;
  const Result<lock::Lock> missing = lock::read(folder / "opmux.lock");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.rejection().rule, "lock.missing");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const auto& [name, found] :
       {std::pair{folder / "pipe", "a pipe"}, {folder.path(), "a folder"}}) {
    const Result<lock::Lock> refused = lock::read(name);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.rejection().rule, "lock.unreadable");
    EXPECT_EQ(refused.rejection().found, found);
  }
}

TEST(LockFile, EveryPrefixIsRefused) {
  const std::string text = text_of(example_lock());
  // The last two bytes are the brace that closes it and the end of its line.
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    const Result<lock::Lock> lock = lock::parse(text.substr(0, size), "opmux.lock");
    ASSERT_FALSE(lock.ok()) << size;
    ASSERT_EQ(lock.rejection().rule, "lock.form") << size;
  }
}

TEST(LockFile, AnotherFormatIsRefused) {
  expect_refused(changed("\"lock\": 1", "\"lock\": 2"), "lock",
                 "`\"lock\": 1`, the format that this opmux reads", "2");
}

TEST(LockFile, AnUnknownKeyIsToldWithTheNearest) {
  expect_refused(changed("\"dispatch_key\"", "\"dispatch_kye\""), "bindings[0].contract",
                 "the key `dispatch_key`", "none");
  expect_refused(changed("\"stub\": false", "\"stub\": false, \"sean\": 1"), "driver",
                 "only known keys, such as `seen`", "the key `sean`");
}

TEST(LockFile, AKeyTwiceIsRefused) {
  expect_refused(changed("\"stub\": false", "\"stub\": true, \"stub\": false"), "the whole",
                 "each key once", "the key `stub` twice");
}

TEST(LockFile, WrongFormsAreToldWithTheirPlace) {
  expect_refused(changed("\"size\": 1000", "\"size\": -1"), "files[0].size", "a whole number",
                 "`-1`");
  expect_refused(changed("\"size\": 1000", "\"size\": 1e3"), "files[0].size", "a whole number",
                 "`1000.0`");
  expect_refused(changed("\"stub\": false", "\"stub\": \"false\""), "driver.stub", "true or false",
                 "`\"false\"`");
  expect_refused(changed("\"role\": \"library\"", "\"role\": \"libary\""), "files[0].role",
                 "one of library, module", "`libary`");
  expect_refused(changed("\"path\": \"vllm/_C.abi3.so\"", "\"path\": \"/vllm/_C.abi3.so\""),
                 "files[0].path", "a relative path without `.` and `..`", "`/vllm/_C.abi3.so`");
  expect_refused(changed("\"path\": \"vllm/_C.abi3.so\"", "\"path\": \"vllm/../../_C.abi3.so\""),
                 "files[0].path", "a relative path without `.` and `..`",
                 "`vllm/../../_C.abi3.so`");
  expect_refused(changed(testing::digest('a'), testing::digest('A')), "files[0].sha256",
                 "64 digits of a SHA-256, in lower case", "`" + testing::digest('A') + "`");
}

TEST(LockFile, ABindingOfAFileThatIsNotThereIsRefused) {
  expect_refused(changed("distribution vllm: vllm/_C.abi3.so", "distribution vllm: x.so"),
                 "the binding silu_and_mul on cuda by vllm", "a library of `files`",
                 "`distribution vllm: x.so`");
}

TEST(LockFile, ABindingTwiceIsRefused) {
  lock::Lock lock = example_lock();
  lock.bindings.push_back(lock.bindings[0]);
  expect_refused(text_of(lock), "bindings", "each once", "`silu_and_mul on cuda by vllm` twice");
}

TEST(LockFile, DeepAndLargeTextsAreRefused) {
  expect_refused(std::string(100'000, '['), "the whole", "at most 6 levels", "more");
  expect_refused(std::string(lock::kFileCap + 1, ' '), "the whole", "at most 4194304 bytes",
                 "4194305 bytes");
}

}  // namespace
}  // namespace opmux
