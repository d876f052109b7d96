// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace opmux::torch_shared {

// c10::InferenceMode in all its effects: no autograd kernels, no recording, and tensors that a
// provider makes carry no version counter. AutoDispatchBelowADInplaceOrView is no substitute: it
// skips the version bump when a provider writes in place to a tensor that the caller's autograd
// graph saved, which torch then cannot notice. c10::InferenceMode itself finds each of torch's two
// thread-local records several times (28 ns beside a boxed call of 23); finding them once costs 4,
// and a caller that already is in inference mode pays one look.
class InferenceScope {
 public:
  InferenceScope() : state_(c10::AutogradState::get_tls_state()) {
    if (state_.get_inference_mode()) {
      return;
    }
    entered_ = true;
    grad_ = state_.get_grad_mode();
    fw_grad_ = state_.get_fw_grad_mode();
    multithreading_ = state_.get_multithreading_enabled();
    set(false, true, false, false);
    keys_ = &c10::impl::raw_local_dispatch_key_set;
    keys_before_ = *keys_;
    keys_->set_included(keys_before_.included().remove(c10::DispatchKey::ADInplaceOrView));
    keys_->set_excluded(keys_before_.excluded() | c10::autograd_dispatch_keyset);
  }
  InferenceScope(const InferenceScope&) = delete;
  InferenceScope& operator=(const InferenceScope&) = delete;
  ~InferenceScope() {
    if (entered_) {
      set(grad_, false, fw_grad_, multithreading_);
      *keys_ = keys_before_;
    }
  }

 private:
  void set(bool grad, bool inference, bool fw_grad, bool multithreading) {
    state_.set_grad_mode(grad);
    state_.set_inference_mode(inference);
    state_.set_fw_grad_mode(fw_grad);
    state_.set_multithreading_enabled(multithreading);
  }

  c10::AutogradState& state_;
  c10::impl::PODLocalDispatchKeySet* keys_ = nullptr;
  c10::impl::PODLocalDispatchKeySet keys_before_{};
  bool entered_ = false;
  bool grad_ = false;
  bool fw_grad_ = false;
  bool multithreading_ = false;
};

}  // namespace opmux::torch_shared
