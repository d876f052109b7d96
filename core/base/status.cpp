// SPDX-License-Identifier: Apache-2.0
#include "opmux/status.hpp"

#include <optional>

namespace opmux {

struct Status::Detail {
  StatusCode code;
  std::string message;
  std::optional<Rejection> rejection;
};

void Status::Deleter::operator()(Detail* detail) const noexcept {
  if (detail != &no_memory()) delete detail;
}

// Shared by all, so that a copy needs no memory either.
Status::Detail& Status::no_memory() noexcept {
  static Detail detail{StatusCode::kInternal, "out of memory", std::nullopt};  // within the string
  return detail;
}

Status Status::out_of_memory() noexcept {
  Status status;
  status.detail_.reset(&no_memory());
  return status;
}

Status::Detail* Status::copy_of(const Status& other) {
  const bool is_shared = other.detail_ == nullptr || other.detail_.get() == &no_memory();
  return is_shared ? other.detail_.get() : new Detail(*other.detail_);
}

Status::Status(StatusCode code, std::string message)
    : detail_(new Detail{code, std::move(message), std::nullopt}) {}

Status::Status(Rejection rejection)
    : detail_(new Detail{StatusCode::kUnsupported, to_string(rejection), std::nullopt}) {
  detail_->rejection = std::move(rejection);
}

Status::Status(StatusCode code, std::string message, Rejection rejection)
    : detail_(new Detail{code, std::move(message), std::move(rejection)}) {}

Status::Status(const Status& other) : detail_(copy_of(other)) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) detail_.reset(copy_of(other));
  return *this;
}

StatusCode Status::code() const noexcept { return ok() ? StatusCode::kOk : detail_->code; }

const std::string& Status::message() const noexcept {
  static const std::string empty;
  return ok() ? empty : detail_->message;
}

const Rejection* Status::rejection() const noexcept {
  return ok() || !detail_->rejection ? nullptr : &*detail_->rejection;
}

std::string to_string(const Rejection& rejection) {
  std::string text = rejection.subject + ": expected " + rejection.expected;
  if (!rejection.found.empty()) text += ", found " + rejection.found;
  text += " [" + rejection.rule + "]";
  if (!rejection.hint.empty()) text += "; " + rejection.hint;
  return text;
}

}  // namespace opmux
