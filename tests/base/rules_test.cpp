// SPDX-License-Identifier: Apache-2.0
#include "core/base/rules.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace opmux {
namespace {

TEST(Rules, IdsAreUniqueAndWellFormed) {
  std::set<std::string> ids;
  for (const Rule& rule : all_rules()) {
    const std::string id{rule.id};
    EXPECT_TRUE(ids.insert(id).second) << id << " stands twice";
    const std::size_t dot = id.find('.');
    ASSERT_NE(dot, std::string::npos) << id;
    EXPECT_EQ(rule.stage(), id.substr(0, dot));
    EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_."), std::string::npos)
        << id;
    EXPECT_EQ(id.find('.', dot + 1), std::string::npos) << id;
  }
  EXPECT_GT(ids.size(), 50U);
}

TEST(Rules, MeaningAndRemedyAreSentences) {
  for (const Rule& rule : all_rules()) {
    for (const std::string text : {rule.meaning, rule.remedy}) {
      ASSERT_GT(text.size(), 5U) << rule.id;
      EXPECT_TRUE(text.back() == '.') << rule.id << ": " << text;
    }
  }
}

TEST(Reject, FillsEveryFieldAndTakesTheRemedyAsHint) {
  const Rejection rejection = reject(rules::kContractNotElf, "file.so", "64 bytes", "10 bytes");
  EXPECT_EQ(rejection.stage, "contract");
  EXPECT_EQ(rejection.rule, rules::kContractNotElf.id);
  EXPECT_EQ(rejection.subject, "file.so");
  EXPECT_EQ(rejection.expected, "64 bytes");
  EXPECT_EQ(rejection.found, "10 bytes");
  EXPECT_EQ(rejection.hint, rules::kContractNotElf.remedy);
  EXPECT_EQ(reject(rules::kContractNotElf, "a", "b", "c", "own hint").hint, "own hint");
}

TEST(Rejection, PrintsOnOneLine) {
  EXPECT_EQ(to_string(Rejection{"yaml", "yaml.x", "a.yaml:1:2", "a map", "a list", "write a map"}),
            "a.yaml:1:2: expected a map, found a list [yaml.x]; write a map");
  EXPECT_EQ(to_string(Rejection{"yaml", "yaml.x", "a.yaml", "a map", "", ""}),
            "a.yaml: expected a map [yaml.x]");
}

TEST(Status, SuccessIsEmpty) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.rejection(), nullptr);
}

TEST(Status, CopiesAndMovesKeepTheStoredRejection) {
  const Status status{StatusCode::kFailed, "no",
                      reject(rules::kContractNotElf, "file.so", "64 bytes", "10 bytes")};
  Status copy = status;
  ASSERT_NE(copy.rejection(), nullptr);
  EXPECT_NE(copy.rejection(), status.rejection());
  EXPECT_EQ(copy.rejection()->subject, "file.so");
  const Status moved = std::move(copy);
  EXPECT_EQ(moved.code(), StatusCode::kFailed);
  EXPECT_EQ(moved.message(), "no");
  Status assigned;
  assigned = moved;
  EXPECT_EQ(assigned.rejection()->found, "10 bytes");
  assigned = Status{};
  EXPECT_TRUE(assigned.ok());
}

TEST(Status, OfARejectionSaysItAll) {
  const Status status{reject(rules::kContractNotElf, "file.so", "64 bytes", "10 bytes")};
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(), to_string(*status.rejection()));
}

}  // namespace
}  // namespace opmux
