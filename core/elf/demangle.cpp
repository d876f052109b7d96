// SPDX-License-Identifier: Apache-2.0
#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/elf/elf.hpp"

namespace opmux::elf {
namespace {

constexpr std::size_t kMaxMangled = 4096;
// The readable form grows at most threefold with every three references, so 40 of them keep it
// within some megabytes, whatever the name.
constexpr int kMaxReferences = 40;

// Upper bound of the back references S_, S0_, T_, T0_ …
int references(std::string_view mangled) {
  int count = 0;
  for (std::size_t i = 0; i + 1 < mangled.size(); ++i) {
    if (mangled[i] != 'S' && mangled[i] != 'T') continue;
    std::size_t end = i + 1;
    while (end < mangled.size() && (std::isdigit(static_cast<unsigned char>(mangled[end])) != 0 ||
                                    std::isupper(static_cast<unsigned char>(mangled[end])) != 0)) {
      ++end;
    }
    if (end < mangled.size() && mangled[end] == '_') ++count;
  }
  return count;
}

}  // namespace

std::string demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z") || mangled.size() > kMaxMangled ||
      references(mangled) > kMaxReferences) {
    return std::string(mangled);
  }
  const std::string terminated(mangled);
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(terminated.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : terminated;
}

}  // namespace opmux::elf
