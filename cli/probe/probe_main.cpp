// SPDX-License-Identifier: Apache-2.0
//
// opmux-probe: loads libraries so that nobody else has to. Started by the probe stage with the
// protocol on descriptor 3, never by hand.
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdio>
#include <string_view>

#include "core/probe/child.hpp"
#include "core/probe/child_process.hpp"
#include "core/probe/messages.hpp"
#include "core/probe/sanitizers.hpp"

// A library's crash must look as it would without a sanitizer. The names are the sanitizers' own.
// NOLINTBEGIN(bugprone-reserved-identifier)
#if defined(OPMUX_WITH_ADDRESS_SANITIZER)
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:"
         "detect_leaks=0:allocator_may_return_null=1:verify_asan_link_order=0";
}
#elif defined(OPMUX_WITH_THREAD_SANITIZER)
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0";
}
#endif
// NOLINTEND(bugprone-reserved-identifier)

namespace {

bool is_socket(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 2 && std::string_view(arguments[1]) == "--version") {
    std::printf("opmux-probe %s\n", opmux::probing::opmux_version());
    return 0;
  }
  if (count != 1 || !is_socket(opmux::probing::kProtocolDescriptor)) {
    std::fputs(
        "opmux-probe is started by opmux, which speaks with it on descriptor 3.\n"
        "To see what it finds: opmux list, opmux validate MANIFEST.\n",
        stderr);
    return 2;
  }
  opmux::probing::run_probe(opmux::probing::kProtocolDescriptor);
}
