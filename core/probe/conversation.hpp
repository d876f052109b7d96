// SPDX-License-Identifier: Apache-2.0
//
// What one probe has said so far. Takes the bytes of its replies as they come, in whatever state a
// library left them, and accepts only what a probe of this request could say in this order.
// Thread safety: values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/probe/frame.hpp"
#include "core/probe/messages.hpp"

namespace opmux::probing {

class Conversation {
 public:
  Conversation(std::size_t modules, std::size_t libraries, std::size_t bindings = 0);

  // False once something could not be understood; `fault` then says what.
  bool take(std::string_view bytes);

  const std::string& fault() const { return fault_; }
  // A probe of this version and protocol answered. When another answered, `fault` is set, too.
  bool greeted() const { return greeted_; }
  bool done() const { return done_; }
  // Nothing more is to come: done, a limit, or a fault.
  bool over() const { return done_ || !limit_.empty() || !fault_.empty(); }
  // The step in progress, or the last one that was: threads that a library started may strike
  // later.
  const std::optional<Step>& last_step() const { return last_step_; }
  // The limit that the last step reached, empty when none.
  const std::string& limit() const { return limit_; }

  // In the order of the request.
  std::vector<std::optional<ModuleFinding>> modules;  // empty: not reached
  std::vector<std::optional<Rejection>> libraries;
  std::vector<std::optional<Rejection>> bindings;
  std::vector<Registration> registrations;
  std::optional<Rejection> python_rejection;
  std::optional<Rejection> torch_rejection;
  std::optional<Rejection> driver_rejection;
  bool devices_known = false;
  int cuda_driver_version = 0;
  std::vector<DeviceFinding> devices;

 private:
  std::string accept(Reply reply);
  std::string accept_loaded(Reply& reply);
  bool in_request(const Step& step) const;

  FrameReader frames_;
  std::string fault_;
  std::string limit_;
  bool greeted_ = false;
  bool done_ = false;
  std::optional<Step> current_step_;
  std::optional<Step> last_step_;
};

}  // namespace opmux::probing
