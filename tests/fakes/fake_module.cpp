// SPDX-License-Identifier: Apache-2.0
//
// A plugin module whose handshake does what one flag says.
#include <link.h>

#include <cstddef>
#include <cstring>

#include "opmux/plugin.h"

#if defined(FAKE_THROWS) || defined(FAKE_THROWS_WHILE_LISTING) || defined(FAKE_BINDS)
#include <stdexcept>
#endif
#if defined(FAKE_BINDS)
#include <cstdio>
#include <cstdlib>
#include <string>
#endif

namespace {

[[maybe_unused]] OpmuxStatus call(void*, const OpmuxCall*) { return OPMUX_OK; }

constexpr OpmuxOperatorEntry kEntries[] = {
    {sizeof(OpmuxOperatorEntry), 0, "fake_first", "fake_first(Tensor(a!) out) -> ()",
     OPMUX_DEVICE_CPU, 0, call, nullptr},
    {sizeof(OpmuxOperatorEntry), OPMUX_PROPERTY_GRAPH_CAPTURE, "fake_second",
     "fake_second(Tensor(a!) out) -> ()", OPMUX_DEVICE_CUDA, 0, call, nullptr}};

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

#if defined(FAKE_BINDS)
// The last request of this thread, in words.
thread_local std::string last_request;

std::string text_of(const OpmuxValue& value) {
  switch (value.tag) {
    case OPMUX_VALUE_NONE:
      return "none";
    case OPMUX_VALUE_BOOL:
      return value.payload.integer != 0 ? "true" : "false";
    case OPMUX_VALUE_INT:
      return std::to_string(value.payload.integer);
    case OPMUX_VALUE_FLOAT:
      return std::to_string(value.payload.real);
    case OPMUX_VALUE_STRING:
      return std::string("'") + value.payload.string + "'";
    case OPMUX_VALUE_INT_LIST: {
      std::string list = "[";
      for (std::size_t at = 0; at < value.payload.int_list->size; ++at)
        list += (at == 0 ? "" : " ") + std::to_string(value.payload.int_list->data[at]);
      return list + "]";
    }
    default:
      return "tag " + std::to_string(value.tag);
  }
}

std::string text_of(const OpmuxCallSource& source) {
  const std::string argument = std::to_string(source.argument);
  switch (source.kind) {
    case OPMUX_SOURCE_ARGUMENT:
      return "argument " + argument;
    case OPMUX_SOURCE_CONSTANT:
      return "constant " + text_of(source.constant) + " of " + argument;
    case OPMUX_SOURCE_LIST_ITEM:
      return "item " + std::to_string(source.index) + " of " + argument;
    case OPMUX_SOURCE_INVERSE_SQRT:
      return "inverse_sqrt of dimension " + std::to_string(source.index) + " of " +
             std::to_string(source.tensor) + " for " + argument;
    default:
      return "kind " + std::to_string(source.kind);
  }
}

std::string text_of(const OpmuxBindRequest& request) {
  std::string text = "size " + std::to_string(request.struct_size == sizeof(OpmuxBindRequest)) +
                     "; contract " + std::to_string(request.contract) + "; device " +
                     std::to_string(request.device_type) + "; operator " + request.operator_name +
                     "; schema " + request.operator_schema + "; provider " +
                     request.provider_schema + "; key " + request.dispatch_key + "; returns " +
                     request.returns + "; flags " + std::to_string(request.flags);
  for (std::uint32_t at = 0; at < request.source_count; ++at)
    text += "; " + text_of(request.sources[at]);
  for (std::uint32_t at = 0; at < request.result_count; ++at)
    text += "; result to " + std::to_string(request.results[at].copy_to_argument) +
            (request.results[at].flags == OPMUX_RESULT_NEGATIVE_INFINITY ? " -inf" : "");
  for (std::uint32_t at = 0; at < request.symbol_count; ++at)
    text += std::string("; symbol ") + request.symbol_names[at] +
            (request.symbols[at] == nullptr ? " nowhere" : "");
  return text;
}

// Writes what the bound function answers into the first float of the last tensor.
OpmuxStatus call_symbol(void* binding, const OpmuxCall* call) {
  const auto answer = reinterpret_cast<int (*)()>(binding);
  const OpmuxValue& last = call->values[call->value_count - 1];
  if (last.tag != OPMUX_VALUE_TENSOR) return OPMUX_INVALID_ARGUMENT;
  static_cast<float*>(last.payload.tensor->data)[0] = static_cast<float>(answer());
  return OPMUX_OK;
}

// Binds whatever it is asked for, but for operators whose name says another thing.
OpmuxStatus bind(const OpmuxBindRequest* request, OpmuxBound* bound) {
  last_request = text_of(*request);
  const std::string name = request->operator_name;
  if (name == "refused") {
    host_services->set_error("fake: no such function is known");
    return OPMUX_UNSUPPORTED;
  }
  if (name == "refused_silently") return OPMUX_UNSUPPORTED;
  if (name == "thrown") throw std::runtime_error("fake: thrown by bind");
  if (name == "thrown_number") throw 7;
  if (name == "unbound") return OPMUX_OK;
  if (name == "crashed") {
    std::fputs("fake: about to abort in bind\n", stderr);
    std::abort();
  }
  if (name == "copied") bound->copies = 2;
  bound->call = call_symbol;
  bound->binding = request->symbol_count == 0 ? nullptr : request->symbols[0];
  return OPMUX_OK;
}
#endif

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
  module.abi_major = OPMUX_PLUGIN_ABI_MAJOR + 1;
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
#elif defined(FAKE_BINDS)
  module.bind = bind;
#endif
  return module;
}

}  // namespace

#if defined(FAKE_BINDS)
extern "C" OPMUX_PLUGIN_EXPORT const char* fake_last_request() { return last_request.c_str(); }
#endif

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
