// SPDX-License-Identifier: Apache-2.0
//
// The module's table, linked in and as a file.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/native/calls.hpp"

namespace opmux::test {
namespace {

// The module of the file, which stays mapped.
const OpmuxModule* module_of_file() {
  void* library = dlopen(OPMUX_NATIVE_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const auto open = reinterpret_cast<OpmuxPluginOpen>(dlsym(library, OPMUX_PLUGIN_ENTRY));
  if (open == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const OpmuxModule* module = nullptr;
  EXPECT_EQ(open(serial_host(), &module), OPMUX_OK);
  return module;
}

TEST(Module, DescribesItself) {
  const OpmuxModule& module = native_module();
  EXPECT_EQ(module.struct_size, sizeof(OpmuxModule));
  EXPECT_EQ(module.abi_major, OPMUX_PLUGIN_ABI_MAJOR);
  EXPECT_EQ(module.abi_minor, OPMUX_PLUGIN_ABI_MINOR);
  EXPECT_STREQ(module.name, "native");
  EXPECT_STREQ(module.build_identity, "");
  EXPECT_EQ(module.operator_count, 14u);
  EXPECT_EQ(module.bind, nullptr);
  EXPECT_EQ(module.start_listening, nullptr);
  EXPECT_EQ(module.list_registrations, nullptr);
  for (uint32_t i = 0; i < module.operator_count; ++i) {
    const OpmuxOperatorEntry& entry = module.operators[i];
    EXPECT_EQ(entry.struct_size, sizeof(OpmuxOperatorEntry));
    EXPECT_EQ(entry.device_type, OPMUX_DEVICE_CPU);
    EXPECT_EQ(entry.properties, OPMUX_PROPERTY_DETERMINISTIC | OPMUX_PROPERTY_IN_PLACE);
    EXPECT_EQ(std::string(entry.schema).rfind(std::string(entry.name) + "(", 0), 0u) << entry.name;
    EXPECT_NE(entry.call, nullptr);
    EXPECT_NE(entry.context, nullptr);
  }
}

TEST(Module, TheFileHasTheSameTable) {
  const OpmuxModule& linked = native_module();
  const OpmuxModule* file = module_of_file();
  ASSERT_NE(file, nullptr);
  EXPECT_NE(file, &linked);
  EXPECT_STREQ(file->name, linked.name);
  EXPECT_STREQ(file->version, linked.version);
  EXPECT_STREQ(file->build_identity, linked.build_identity);
  ASSERT_EQ(file->operator_count, linked.operator_count);
  for (uint32_t i = 0; i < linked.operator_count; ++i) {
    EXPECT_STREQ(file->operators[i].name, linked.operators[i].name);
    EXPECT_STREQ(file->operators[i].schema, linked.operators[i].schema);
    EXPECT_EQ(file->operators[i].device_type, linked.operators[i].device_type);
  }
}

TEST(Module, TheFileComputesTheSame) {
  const OpmuxModule* file = module_of_file();
  ASSERT_NE(file, nullptr);
  TestTensor input(Type::kBFloat16, {2, 64});
  TestTensor linked(Type::kBFloat16, {2, 32});
  TestTensor loaded(Type::kBFloat16, {2, 32});
  input.fill([](int64_t i) { return noise(i); });
  ASSERT_EQ(run("silu_and_mul", {value(input), value(linked)}), OPMUX_OK);
  const Values values = {value(input), value(loaded)};
  const OpmuxCall call = make_call(values, serial_host());
  ASSERT_EQ(file->operators[0].call(file->operators[0].context, &call), OPMUX_OK);
  EXPECT_EQ(linked.bytes(), loaded.bytes());
}

TEST(Module, RefusesAHostThatItCannotWorkWith) {
  const OpmuxModule* module = nullptr;
  OpmuxHost host = *serial_host();
  host.abi_major = 3;
  EXPECT_EQ(opmux_native_open(&host, &module), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(),
            "native: expected a host of ABI 2.x and at least 48 bytes, found ABI 3.1 and 48 bytes");
  host = *serial_host();
  host.struct_size = 40;
  EXPECT_EQ(opmux_native_open(&host, &module), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(),
            "native: expected a host of ABI 2.x and at least 48 bytes, found ABI 2.1 and 40 bytes");
  host.struct_size = 16;
  EXPECT_EQ(opmux_native_open(&host, &module), OPMUX_INCOMPATIBLE);
  EXPECT_EQ(take_error(), "");
  EXPECT_EQ(module, nullptr);
}

// The best target comes first, the baseline last; the table in use is the best one.
TEST(Module, ComputesWithTheBestTarget) {
  const std::vector<const native::KernelTable*> tables = targets();
  ASSERT_GE(tables.size(), 1u);
  EXPECT_STREQ(tables.back()->target, "baseline");
  EXPECT_EQ(native_module().operators[0].context, tables.front());
}

}  // namespace
}  // namespace opmux::test
