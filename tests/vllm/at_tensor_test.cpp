// SPDX-License-Identifier: Apache-2.0
//
// Callers that hold at::Tensors (opmux/torch.hpp): the provider gets the very tensor.
#include "opmux/torch.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>

#include "tests/vllm/fake_provider.hpp"

namespace opmux::testing {
namespace {

using ::testing::HasSubstr;

class AtTensor : public ::testing::Test {
 protected:
  void SetUp() override { fake_provider(); }
};

Bound scale() {
  return Bound("scale(Tensor input, float factor, Tensor(a!) out) -> ()",
               "opmux_fake::scale(Tensor input, float factor, Tensor! out) -> ()",
               {from(0), from(1), from(2)});
}

TEST_F(AtTensor, IsUsedAsItIsAndNotKept) {
  const at::Tensor input = at::arange(6, at::kFloat).view({2, 3}).t();
  at::Tensor out = at::empty({3, 2});
  EXPECT_EQ(scale()({value(view_of(input)), value(2.0), value(view_of(out))}), OPMUX_OK)
      << take_error();
  EXPECT_TRUE(at::equal(out, input * 2));
  EXPECT_EQ(out.use_count(), 1U);
  EXPECT_EQ(input.use_count(), 1U);
}

TEST_F(AtTensor, ReachesTheProviderItself) {
  // Only the very tensor can be given other memory in a way that the caller sees.
  const Bound replace("f(Tensor(a!) x) -> ()", "opmux_fake::replace_storage(Tensor! out) -> ()",
                      {from(0)});
  const at::Tensor tensor = at::zeros({3});
  EXPECT_EQ(replace({value(view_of(tensor))}), OPMUX_OK) << take_error();
  EXPECT_TRUE(at::equal(tensor, at::ones({3})));
}

TEST_F(AtTensor, IsReleasedAfterAnException) {
  const Bound failing("f(Tensor(a!) x) -> ()", "opmux_fake::throw_after(Tensor! out) -> ()",
                      {from(0)});
  const at::Tensor tensor = at::zeros({3});
  EXPECT_EQ(failing({value(view_of(tensor))}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_EQ(tensor.use_count(), 1U);
}

TEST_F(AtTensor, LeavesTheThreadsModesAsTheyWere) {
  const Bound failing("f(Tensor(a!) x) -> ()", "opmux_fake::throw_after(Tensor! out) -> ()",
                      {from(0)});
  const at::Tensor tensor = at::zeros({3});
  for (const bool grad : {true, false}) {
    const c10::AutoGradMode mode(grad);
    const auto keys = c10::impl::tls_local_dispatch_key_set();
    EXPECT_EQ(failing({value(view_of(tensor))}), OPMUX_ERROR_AFTER_LAUNCH);
    EXPECT_FALSE(c10::InferenceMode::is_enabled());
    EXPECT_EQ(c10::GradMode::is_enabled(), grad);
    EXPECT_EQ(c10::impl::tls_local_dispatch_key_set().included_, keys.included_);
    EXPECT_EQ(c10::impl::tls_local_dispatch_key_set().excluded_, keys.excluded_);
  }
  const c10::InferenceMode inference;
  EXPECT_EQ(failing({value(view_of(tensor))}), OPMUX_ERROR_AFTER_LAUNCH);
  EXPECT_TRUE(c10::InferenceMode::is_enabled());
}

TEST_F(AtTensor, SeesTheSameKeysAsInTorchsOwnInferenceMode) {
  static c10::impl::LocalDispatchKeySet seen(c10::impl::tls_local_dispatch_key_set());
  const auto set_callback =
      symbol<void (*)(void (*)(void*), void*)>(fake_provider(), "fake_set_callback");
  set_callback([](void*) { seen = c10::impl::tls_local_dispatch_key_set(); }, nullptr);
  const Bound bound("f(Tensor x, Tensor(a!) y) -> ()",
                    "opmux_fake::call_back(Tensor input, Tensor! out) -> ()", {from(0), from(1)});
  const at::Tensor tensor = at::zeros({3});
  const at::Tensor out = at::zeros({3});
  EXPECT_EQ(bound({value(view_of(tensor)), value(view_of(out))}), OPMUX_OK) << take_error();
  set_callback(nullptr, nullptr);
  const c10::InferenceMode inference;
  EXPECT_EQ(seen.included_, c10::impl::tls_local_dispatch_key_set().included_);
  EXPECT_EQ(seen.excluded_, c10::impl::tls_local_dispatch_key_set().excluded_);
}

TEST_F(AtTensor, KeepsTorchsNoticeOfWritesToWhatAGraphSaved) {
  at::Tensor leaf = at::ones({2}).requires_grad_();
  at::Tensor saved = leaf * 1;
  const at::Tensor input = at::zeros({2});
  const auto before = saved._version();
  EXPECT_EQ(scale()({value(view_of(input)), value(1.0), value(view_of(saved))}), OPMUX_OK)
      << take_error();
  EXPECT_GT(saved._version(), before);
}

TEST_F(AtTensor, MixesWithPlainViews) {
  const at::Tensor input = at::full({2}, 3.0F);
  std::array<float, 2> out{};
  EXPECT_EQ(scale()({value(view_of(input)), value(2.0),
                     value(TensorView(out.data(), DType::kFloat32, {2}))}),
            OPMUX_OK)
      << take_error();
  EXPECT_EQ(out[1], 6);
}

TEST_F(AtTensor, IsIgnoredWhenTheCallDoesNotSayThatItIsThere) {
  const at::Tensor input = at::full({2}, 3.0F);
  at::Tensor out = at::zeros({2});
  EXPECT_EQ(scale().call({value(view_of(input)), value(2.0), value(view_of(out))}, 0,
                         {OPMUX_DEVICE_CPU, 0}, OPMUX_STREAM_NONE),
            OPMUX_OK)
      << take_error();
  EXPECT_TRUE(at::equal(out, at::full({2}, 6.0F)));
}

TEST_F(AtTensor, HasNoViewWhenNoViewCanExpressIt) {
  const at::Tensor undefined;
  EXPECT_THROW(view_of(undefined), std::invalid_argument);
  const at::Tensor complex = at::zeros({2}, at::kComplexFloat);
  EXPECT_THROW(view_of(complex), std::invalid_argument);
  const at::Tensor meta = at::empty({2}, at::TensorOptions().device(at::kMeta));
  EXPECT_THROW(view_of(meta), std::invalid_argument);
}

}  // namespace
}  // namespace opmux::testing
