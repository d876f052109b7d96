// SPDX-License-Identifier: Apache-2.0
//
// A plugin module whose handshake does what one flag says.
#include <link.h>

#include <cstddef>
#include <cstring>

#include "opmux/plugin.h"

#if defined(FAKE_THROWS) || defined(FAKE_THROWS_WHILE_LISTING)
#include <stdexcept>
#endif

namespace {

[[maybe_unused]] OpmuxStatus call(void*, const OpmuxCall*) { return OPMUX_OK; }

constexpr OpmuxOperatorEntry kEntries[] = {
    {sizeof(OpmuxOperatorEntry), 0, "fake_first", "fake_first(Tensor(a!) out) -> ()",
     OPMUX_DEVICE_CPU, 0, call, nullptr},
    {sizeof(OpmuxOperatorEntry), 0, "fake_second", "fake_second(Tensor(a!) out) -> ()",
     OPMUX_DEVICE_CUDA, 0, call, nullptr}};

[[maybe_unused]] constexpr OpmuxOperatorEntry kBadEntries[] = {
    {sizeof(OpmuxOperatorEntry), 0, "fake_first", nullptr, OPMUX_DEVICE_CPU, 0, call, nullptr}};

// Entries of a later minor version are larger; their distance is theirs.
struct LargeEntry {
  OpmuxOperatorEntry known;
  void* unknown[4];
};
[[maybe_unused]] constexpr LargeEntry kLargeEntries[] = {
    {{sizeof(LargeEntry), 0, "fake_first", "fake_first(Tensor(a!) out) -> ()", OPMUX_DEVICE_CPU, 0,
      call, nullptr},
     {}},
    {{sizeof(LargeEntry), 0, "fake_second", "fake_second(Tensor(a!) out) -> ()", OPMUX_DEVICE_CUDA,
      0, call, nullptr},
     {}}};

// As if the library "registers" had defined an operator, once it is mapped.
[[maybe_unused]] OpmuxStatus list_registrations(OpmuxRegistrationVisitor visitor, void* context) {
#if defined(FAKE_THROWS_WHILE_LISTING)
  throw std::runtime_error("fake: the list is broken");
#endif
  struct Visit {
    OpmuxRegistrationVisitor visitor;
    void* context;
  } visit{visitor, context};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* opaque) {
        const char* const path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const char* const name = std::strrchr(path, '/');
        if (name == nullptr || std::strcmp(name, "/registers.so") != 0) return 0;
        const char* const keys[] = {"CPU", "CUDA"};
        const OpmuxRegistration registration{sizeof(OpmuxRegistration), 2, path,
                                             "fake_space::first(Tensor($0! -> ) out) -> ()", keys};
        const auto& target = *static_cast<Visit*>(opaque);
        target.visitor(target.context, &registration);
        return 0;
      },
      &visit);
  return OPMUX_OK;
}

[[maybe_unused]] const OpmuxHost* host_services = nullptr;

[[maybe_unused]] OpmuxStatus start_listening() {
#if defined(FAKE_REFUSES_TO_LISTEN)
  host_services->set_error("fake: no listener");
  return OPMUX_INCOMPATIBLE;
#else
  return OPMUX_OK;
#endif
}

[[maybe_unused]] OpmuxModule module_table() {
  OpmuxModule module{};
  module.struct_size = sizeof(OpmuxModule);
  module.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
  module.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
  module.operator_count = 2;
  module.name = "fake";
  module.version = "1.2";
  module.build_identity = "fake 3";
  module.operators = kEntries;
#if defined(FAKE_WRONG_MAJOR)
  module.abi_major = 2;
#elif defined(FAKE_NEWER_MINOR)
  module.abi_minor = 9;
#elif defined(FAKE_SMALL_STRUCT)
  // What lies beyond must not be read.
  module.struct_size = offsetof(OpmuxModule, start_listening);
  std::memset(reinterpret_cast<char*>(&module) + module.struct_size, 0xee,
              sizeof(module) - module.struct_size);
#elif defined(FAKE_TINY_STRUCT)
  module.struct_size = 8;
#elif defined(FAKE_NO_NAME)
  module.name = nullptr;
#elif defined(FAKE_NO_OPERATORS)
  module.operators = nullptr;
#elif defined(FAKE_BAD_ENTRY)
  module.operator_count = 1;
  module.operators = kBadEntries;
#elif defined(FAKE_LARGE_ENTRIES)
  module.operators = &kLargeEntries[0].known;
#elif defined(FAKE_LISTENS) || defined(FAKE_THROWS_WHILE_LISTING) || defined(FAKE_REFUSES_TO_LISTEN)
  module.start_listening = start_listening;
  module.list_registrations = list_registrations;
#endif
  return module;
}

}  // namespace

#if !defined(FAKE_NO_ENTRY)
extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus
opmux_plugin_open(const OpmuxHost* host, [[maybe_unused]] const OpmuxModule** module) {
  host_services = host;
#if defined(FAKE_REFUSES)
  host->set_error("fake: built for another world");
  return OPMUX_INCOMPATIBLE;
#elif defined(FAKE_REFUSES_SILENTLY)
  return OPMUX_INCOMPATIBLE;
#elif defined(FAKE_THROWS)
  throw std::runtime_error("fake: thrown by the entry");
#elif defined(FAKE_THROWS_NUMBER)
  throw 7;
#elif defined(FAKE_NO_TABLE)
  *module = nullptr;
  return OPMUX_OK;
#else
  static const OpmuxModule table = module_table();
  *module = &table;
  return OPMUX_OK;
#endif
}
#endif
