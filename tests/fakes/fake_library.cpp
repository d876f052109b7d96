// SPDX-License-Identifier: Apache-2.0
//
// A provider's library whose static constructor does what one flag says. Each flag is a fault that
// a probe must survive and name.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// Few and small headers otherwise: this file is compiled many times.
#if defined(FAKE_THROW) || defined(FAKE_CONFLICT) || defined(FAKE_CONFLICT_OPERATOR)
#include <stdexcept>
#endif

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

#if !defined(FAKE_DEPENDS)
FAKE_EXPORT int fake_answer() { return 42; }
#endif

#if defined(FAKE_TWO_ANSWERS)
FAKE_EXPORT int fake_second_answer() { return 43; }
#endif

#if defined(FAKE_UNRESOLVED)
FAKE_EXPORT int fake_function_that_nobody_has();
FAKE_EXPORT int fake_caller() { return fake_function_that_nobody_has(); }
#endif

#if defined(FAKE_NEEDS_PYTHON)
FAKE_EXPORT const char* Py_GetVersion();
FAKE_EXPORT const char* fake_python_version() { return Py_GetVersion(); }
#endif

namespace {

[[maybe_unused]] void sleep_for_ever() {
  for (;;) sleep(3600);
}

[[maybe_unused]] void* spin_for_ever(void*) {
  for (;;) asm volatile("");
}

[[maybe_unused]] void* load_another(void*) { return dlopen("libm.so.6", RTLD_NOW); }

[[maybe_unused]] void* crash_later(void*) {
  usleep(50000);
  raise(SIGSEGV);
  return nullptr;
}

[[maybe_unused]] pthread_t start(void* (*body)(void*)) {
  pthread_t thread{};
  pthread_create(&thread, nullptr, body, nullptr);
  return thread;
}

[[maybe_unused]] void write_everywhere(const char* text) {
  for (int descriptor = 3; descriptor < 8192; ++descriptor) {
    if (write(descriptor, text, std::strlen(text)) < 0) continue;
  }
}

__attribute__((constructor)) void misbehave() {
#if defined(FAKE_ABORT)
  std::fputs("fake: about to abort\n", stderr);
  std::abort();
#elif defined(FAKE_THROW)
  throw std::runtime_error("fake: no kernel image");
#elif defined(FAKE_THROW_NUMBER)
  throw 7;
#elif defined(FAKE_EXIT_0)
  std::exit(0);
#elif defined(FAKE_EXIT_1)
  std::fputs("fake: licence not found\n", stderr);
  std::exit(1);
#elif defined(FAKE_QUICK_EXIT_0)
  _exit(0);
#elif defined(FAKE_QUICK_EXIT_1)
  _exit(1);
#elif defined(FAKE_SLEEP)
  std::fputs("fake: waiting for the licence server\n", stderr);
  sleep_for_ever();
#elif defined(FAKE_SPIN)
  spin_for_ever(nullptr);
#elif defined(FAKE_SPIN_IN_THREADS)
  for (int i = 0; i < 64; ++i) start(spin_for_ever);
  sleep_for_ever();
#elif defined(FAKE_DEADLOCK)
  // The thread waits for the dynamic linker's lock, which this constructor runs under.
  pthread_join(start(load_another), nullptr);
#elif defined(FAKE_PRINT)
  static char line[4096];
  std::memset(line, '#', sizeof(line) - 1);
  for (int i = 0; i < 262144; ++i) std::puts(line);
#elif defined(FAKE_CLOSE_DESCRIPTORS)
  for (int descriptor = 0; descriptor <= 1000; ++descriptor) close(descriptor);
#elif defined(FAKE_CLOSE_ALL)
  for (int descriptor = 0; descriptor < 8192; ++descriptor) close(descriptor);
#elif defined(FAKE_SEGFAULT)
  std::fputs("fake: about to read address 8\n", stderr);
  raise(SIGSEGV);
#elif defined(FAKE_ILLEGAL)
  // What a CPU without the instruction does.
  __builtin_trap();
#elif defined(FAKE_BUS)
  raise(SIGBUS);
#elif defined(FAKE_KILL_ITSELF)
  raise(SIGKILL);
#elif defined(FAKE_FORK)
  // The child keeps every descriptor of the probe, and would keep a reader waiting for their end.
  if (fork() == 0) sleep_for_ever();
#elif defined(FAKE_GARBAGE)
  write_everywhere("garbage that begins no frame");
#elif defined(FAKE_FILL_MEMORY)
  for (;;) std::memset(new char[16 << 20], 1, 4096);
#elif defined(FAKE_HOLD_MEMORY)
  // A real call, which a compiler must not remove.
  void* (*volatile allocate)(std::size_t) = std::malloc;
  while (allocate(1 << 20) != nullptr) {
  }
#elif defined(FAKE_OPEN_FILES)
  while (open("/dev/null", O_RDONLY) >= 0) {
  }
#elif defined(FAKE_WRITE_FILE)
  std::FILE* const file = std::tmpfile();
  static char block[1 << 20];
  for (int i = 0; i < 64; ++i) std::fwrite(block, 1, sizeof(block), file);
#elif defined(FAKE_CONFLICT)
  // torch's words, without torch.
  throw std::runtime_error(
      "Only a single TORCH_LIBRARY can be used to register the namespace fake_space; please put "
      "all "
      "of your definitions in a single TORCH_LIBRARY block.  Previous registration of "
      "TORCH_LIBRARY "
      "was registered at /build/first.cpp:3; latest registration was registered at "
      "/build/second.cpp:5");
#elif defined(FAKE_CONFLICT_OPERATOR)
  throw std::runtime_error(
      "Tried to register an operator (unseen_space::twice() -> ()) with the same name and overload "
      "name multiple times. Each overload's schema should only be registered with a single call to "
      "def(). Duplicate registration: registered at /build/second.cpp:5. Original registration: "
      "registered at /build/first.cpp:3\n");
#elif defined(FAKE_FLOATING_POINT)
  std::fesetround(FE_UPWARD);
#elif defined(FAKE_SIGNAL_HANDLER)
  std::signal(SIGTERM, SIG_IGN);
#elif defined(FAKE_LOCALE)
  std::setlocale(LC_ALL, "C.UTF-8");
#elif defined(FAKE_CRASH_LATER)
  start(crash_later);
#endif
}

}  // namespace
