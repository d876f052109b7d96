// SPDX-License-Identifier: Apache-2.0
//
// A library that only adds kernels to an operator that was there before listening started.
#include <dlfcn.h>

#include "tests/vllm/dispatcher_world.hpp"

namespace opmux::testing {
namespace {

TEST(Registrations, ReportOnlyTheKeysThatAnOlderOperatorGained) {
  load(OPMUX_TORCH_FOLDER "/lib/libtorch_cpu.so");
  load(OPMUX_FAKE_PROVIDER);  // before start_listening
  vllm_module();
  load(OPMUX_IMPL_ONLY_PROVIDER);
  EXPECT_TRUE(registrations_of(OPMUX_FAKE_PROVIDER).empty());
  const auto found = registrations_of(OPMUX_IMPL_ONLY_PROVIDER);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.begin()->first,
            "opmux_fake::scale(Tensor input, float factor, Tensor($0! -> ) out) -> ()");
  EXPECT_EQ(found.begin()->second, std::vector<std::string>{"CUDA"});
}

}  // namespace
}  // namespace opmux::testing
