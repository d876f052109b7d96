// SPDX-License-Identifier: Apache-2.0
#include "plugins/torch/host.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>

namespace opmux::torch_shared {
namespace {

const OpmuxHost* g_host = nullptr;

}  // namespace

void set_host(const OpmuxHost* host) noexcept { g_host = host; }

OpmuxStatus refuse(OpmuxStatus status, const std::string& text) noexcept {
  g_host->set_error(text.c_str());
  return status;
}

std::string current_exception_text() noexcept {
  constexpr std::size_t kMaximum = 2000;
  try {
    std::string text;
    try {
      throw;
    } catch (const c10::Error& error) {
      text = error.what_without_backtrace();
    } catch (const std::exception& error) {
      text = error.what();
    } catch (...) {
      text = "an exception that is no std::exception";
    }
    // Some errors carry a C++ stack in their text nevertheless.
    text.resize(std::min(text.size(), text.find("\nException raised from")));
    text.resize(std::min(text.size(), kMaximum));
    return text;
  } catch (...) {
    return {};  // out of memory; the status still tells
  }
}

}  // namespace opmux::torch_shared
