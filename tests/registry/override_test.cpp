// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>

#include "tests/registry/operators.hpp"

namespace opmux {
namespace {

class OverrideTest : public testing::Test {
 protected:
  void SetUp() override {
    op_.add("first");
    op_.add("second");
    op_.publish();
    RouteSet other = op_.routes();
    std::swap(other.routes.begin()->second[0].entries[0],
              other.routes.begin()->second[0].entries[1]);
    turned_ = &op_.registry().prepare(std::move(other));
  }

  std::string server() {
    float x = 0;
    EXPECT_TRUE(
        Operator<void(Tensor)>(op_.op().state())(TensorView(&x, DType::kFloat32, {1})).ok());
    return op_.op().last_provider();
  }
  OverrideScope turn() { return *OverrideScope::make(op_.registry(), *turned_); }

  test::OneOperator op_{"op(Tensor(a!) x) -> ()"};
  const Generation* turned_ = nullptr;
};

TEST_F(OverrideTest, CountsOnItsThreadWhileItLives) {
  EXPECT_EQ(server(), "first");
  {
    const OverrideScope scope = turn();
    EXPECT_EQ(server(), "second");
    std::thread([&] { EXPECT_EQ(server(), "first"); }).join();
  }
  EXPECT_EQ(server(), "first");
}

TEST_F(OverrideTest, TheInnermostCounts) {
  const OverrideScope outer = turn();
  {
    const OverrideScope inner = *OverrideScope::make(op_.registry(), op_.registry().current());
    EXPECT_EQ(server(), "first");
  }
  EXPECT_EQ(server(), "second");
}

TEST_F(OverrideTest, LeavesOtherRuntimesAlone) {
  test::OneOperator other("op(Tensor(a!) x) -> ()");
  other.add("other");
  other.publish();
  const OverrideScope scope = turn();
  float x = 0;
  EXPECT_TRUE(
      Operator<void(Tensor)>(other.op().state())(TensorView(&x, DType::kFloat32, {1})).ok());
  EXPECT_EQ(other.op().last_provider(), "other");
}

TEST_F(OverrideTest, ScopesMayEndInAnyOrder) {
  std::optional<OverrideScope> outer = turn();
  std::optional<OverrideScope> inner =
      *OverrideScope::make(op_.registry(), op_.registry().current());
  outer.reset();
  EXPECT_EQ(server(), "first");
  inner.reset();
  EXPECT_EQ(server(), "first");
}

TEST_F(OverrideTest, EndsForItsThreadWhenAnotherThreadDestroysIt) {
  std::optional<OverrideScope> scope = turn();
  EXPECT_EQ(server(), "second");
  std::thread([taken = std::move(*scope)] {}).join();
  EXPECT_EQ(server(), "first");
  scope.reset();
  EXPECT_EQ(server(), "first");
}

TEST_F(OverrideTest, StaysWithItsGenerationWhenAnotherIsPublished) {
  const OverrideScope scope = turn();
  op_.publish(/*strict=*/true);
  EXPECT_EQ(server(), "second");
  EXPECT_EQ(op_.op().last_call().generation, turned_->number);
}

TEST_F(OverrideTest, AnOperatorThatIsNewerThanTheOverrideHasTheCurrentRoute) {
  const OverrideScope scope = turn();
  const auto* const later = test::declared(op_.registry(), "later(Tensor(a!) x) -> ()");
  RouteSet routes = op_.routes();
  routes.routes[later] = routes.routes.begin()->second;
  op_.registry().publish(std::move(routes));
  float x = 0;
  EXPECT_TRUE(Operator<void(Tensor)>(later)(TensorView(&x, DType::kFloat32, {1})).ok());
  EXPECT_EQ(op_.op().last_provider(), "first");
  EXPECT_EQ(server(), "second");
}

}  // namespace
}  // namespace opmux
