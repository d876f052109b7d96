// SPDX-License-Identifier: Apache-2.0
#include "core/probe/conversation.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/text.hpp"

namespace opmux::probing {

namespace {

// More than any real provider registers; a flood is not stored.
constexpr std::size_t kMostRegistrations = 100000;

std::tuple<Step::What, std::size_t> order(const Step& step) { return {step.what, step.index}; }

}  // namespace

Conversation::Conversation(std::size_t module_count, std::size_t library_count,
                           std::size_t binding_count)
    : modules(module_count), libraries(library_count), bindings(binding_count) {}

bool Conversation::take(std::string_view bytes) {
  if (!fault_.empty()) return false;
  frames_.append(bytes);
  std::string payload;
  while (!over()) {
    switch (frames_.next(payload)) {
      case FrameReader::Next::kIncomplete:
        return true;
      case FrameReader::Next::kBroken:
        fault_ = frames_.fault();
        return false;
      case FrameReader::Next::kFrame:
        break;
    }
    std::string fault;
    std::optional<Reply> reply = parse_reply(payload, fault);
    if (reply) fault = accept(std::move(*reply));
    if (!fault.empty()) {
      fault_ = "a reply that is not understood (" + printable(fault) + "): \"" +
               printable(std::string_view(payload).substr(0, 64)) + "\"";
    }
  }
  return fault_.empty();
}

bool Conversation::in_request(const Step& step) const {
  switch (step.what) {
    case Step::What::kModule:
      return step.index < modules.size();
    case Step::What::kLibrary:
      return step.index < libraries.size();
    case Step::What::kBinding:
      return step.index < bindings.size();
    default:
      return step.index == 0;
  }
}

// Empty, or why this reply cannot come here.
std::string Conversation::accept(Reply reply) {
  if (!greeted_ && reply.kind != Reply::Kind::kHello) return "it comes before the greeting";
  switch (reply.kind) {
    case Reply::Kind::kHello:
      if (greeted_) return "a second greeting";
      if (reply.protocol != kProtocolVersion || reply.text != opmux_version()) {
        return "version " + reply.text + " with protocol " + std::to_string(reply.protocol) +
               " in place of " + opmux_version() + " with " + std::to_string(kProtocolVersion);
      }
      greeted_ = true;
      return {};
    case Reply::Kind::kLoading:
      if (current_step_) return "the step before is not over";
      if (!in_request(reply.step)) return "a step that was not asked for";
      if (last_step_ && order(reply.step) <= order(*last_step_)) return "a step out of order";
      current_step_ = last_step_ = reply.step;
      return {};
    case Reply::Kind::kLoaded:
      if (current_step_ != reply.step) return "the end of a step that did not begin";
      current_step_.reset();
      return accept_loaded(reply);
    case Reply::Kind::kRefused:
      if (reply.step.what != Step::What::kModule || !in_request(reply.step) || !reply.rejection ||
          !modules[reply.step.index]) {
        return "a refusal by no module";
      }
      modules[reply.step.index]->rejection = std::move(reply.rejection);
      return {};
    case Reply::Kind::kRegistrations:
      for (Registration& registration : reply.registrations) {
        const auto known =
            std::find_if(registrations.begin(), registrations.end(), [&](const auto& other) {
              return other.schema == registration.schema && other.library == registration.library;
            });
        if (known != registrations.end()) {
          known->dispatch_keys = std::move(registration.dispatch_keys);
        } else if (registrations.size() < kMostRegistrations) {
          registrations.push_back(std::move(registration));
        } else {
          return "more than " + std::to_string(kMostRegistrations) + " registrations";
        }
      }
      return {};
    case Reply::Kind::kDevices:
      devices_known = true;
      cuda_driver_version = reply.cuda_driver_version;
      devices = std::move(reply.devices);
      return {};
    case Reply::Kind::kLimit:
      if (last_step_ != reply.step || reply.text.empty()) return "a limit of no step";
      limit_ = std::move(reply.text);
      return {};
    case Reply::Kind::kDone:
      if (current_step_) return "the last step is not over";
      done_ = true;
      return {};
  }
  return "an unknown reply";
}

std::string Conversation::accept_loaded(Reply& reply) {
  switch (reply.step.what) {
    case Step::What::kDriver:
      driver_rejection = std::move(reply.rejection);
      return {};
    case Step::What::kPython:
      python_rejection = std::move(reply.rejection);
      return {};
    case Step::What::kTorch:
      torch_rejection = std::move(reply.rejection);
      return {};
    case Step::What::kModule:
      if (!reply.module) return "a module's step without the module";
      modules[reply.step.index] = std::move(reply.module);
      modules[reply.step.index]->rejection = std::move(reply.rejection);
      return {};
    case Step::What::kLibrary:
      libraries[reply.step.index] = std::move(reply.rejection);
      return {};
    case Step::What::kBinding:
      bindings[reply.step.index] = std::move(reply.rejection);
      return {};
  }
  return {};
}

}  // namespace opmux::probing
