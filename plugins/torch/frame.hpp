// SPDX-License-Identifier: Apache-2.0
//
// What a thread keeps between its calls of one binding, so that a call allocates nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace opmux::torch_shared {

// This thread's Frame for a binding, or one of its own while an outer call of the same binding runs
// on this thread. Frame is made from the Binding and has clear(), called on return whatever
// happened, so that no reference to a caller's tensor stays behind. Binding has `index`, unique
// among the bindings of its class.
template <class Frame, class Binding>
class FrameLease {
 public:
  explicit FrameLease(const Binding& binding) {
    if (binding.index >= t_frames.size()) {
      t_frames.resize(binding.index + 1);
    }
    std::unique_ptr<Kept>& kept = t_frames[binding.index];
    if (kept == nullptr) {
      kept = std::make_unique<Kept>(binding);
    }
    if (kept->busy) {
      nested_ = std::make_unique<Kept>(binding);
      kept_ = nested_.get();
    } else {
      kept_ = kept.get();
    }
    kept_->busy = true;
  }
  FrameLease(const FrameLease&) = delete;
  FrameLease& operator=(const FrameLease&) = delete;
  ~FrameLease() {
    kept_->frame.clear();
    kept_->busy = false;
  }

  Frame& operator*() const { return kept_->frame; }

 private:
  struct Kept {
    explicit Kept(const Binding& binding) : frame(binding) {}
    Frame frame;
    bool busy = false;
  };

  // By Binding::index. Destroyed when the thread ends, while torch is still mapped.
  inline static thread_local std::vector<std::unique_ptr<Kept>> t_frames;

  std::unique_ptr<Kept> nested_;
  Kept* kept_ = nullptr;
};

}  // namespace opmux::torch_shared
