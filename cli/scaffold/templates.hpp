// SPDX-License-Identifier: Apache-2.0
//
// What `opmux new-plugin` writes. @PLUGIN@, @OPERATOR@ and others are filled in by scaffold.cpp;
// examples/provider holds the outcome. Width and style are those of this project.
#pragma once

#include <string_view>

namespace opmux::cli {

inline constexpr std::string_view kManifestTemplate = R"yaml(# SPDX-License-Identifier: Apache-2.0
# Every key: docs/manifest.md. The module lies beside this file: opmux_@PLUGIN@.so.
manifest: 1
provider: @PLUGIN@
plugin: @PLUGIN@
# Providers are tried by priority, highest first; opmux's own kernels have 0.
priority: 60
operators:
  @OPERATOR@:
    module: @OPERATOR@
    # A call that does not meet these goes to the next provider. @PLUGIN@.cpp relies on them.
    when:
      device: cpu
      input: {dtype: float32, contiguous: true}
      out: {dtype: float32, contiguous: true}
@DECLARATION@)yaml";

inline constexpr std::string_view kDeclaration =
    R"yaml(# An operator of your own. What an operator means never changes: a new meaning takes a new name.
declare:
  @OPERATOR@:
    schema: "@OPERATOR@@SCHEMA@"
    summary: "@FORMULA@"
    dtypes: [float32]
    # Inputs for `opmux run @OPERATOR@`.
    example:
      dims: {tokens: 16, hidden: 256}
      input: {shape: [tokens, hidden], dtype: $dtype, fill: normal}
      out: {shape: [tokens, hidden], dtype: $dtype, fill: zeros}
)yaml";

inline constexpr std::string_view kSourceTemplate = R"code(// SPDX-License-Identifier: Apache-2.0
//
// The plugin module: one operator, reached through opmux/plugin.h alone. Nothing is linked.
// @OPERATOR@: @FORMULA@
#include <opmux/plugin.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace {

const OpmuxHost* host = nullptr;

OpmuxStatus invalid(const char* text) {
  host->set_error(text);
  return OPMUX_INVALID_ARGUMENT;
}

float* data_of(const OpmuxTensor& tensor) {
  return reinterpret_cast<float*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
}

// Runs on any thread, on many at once. No exception may leave it. dtype and contiguity are
// conditions of the manifest, so opmux has checked them; sizes are checked here, before anything is
// written.
OpmuxStatus call(void*, const OpmuxCall* call) {
  const OpmuxTensor& input = *call->values[0].payload.tensor;
  const OpmuxTensor& out = *call->values[1].payload.tensor;
  if (input.rank < 1 || out.rank != input.rank)
    return invalid("expected input and out of one rank, not 0");
  const std::int64_t columns = input.shape[input.rank - 1];
  bool misfit = @MISFIT@;
  std::int64_t rows = 1;
  for (std::int32_t dim = 0; dim + 1 < input.rank; ++dim) {
    misfit = misfit || out.shape[dim] != input.shape[dim];
    rows *= input.shape[dim];
  }
  if (misfit) return invalid("expected @FIT@");

@BODY@  return OPMUX_OK;
}

// Filled in by name: later versions of the ABI add fields, and zero says that they are not used.
OpmuxOperatorEntry make_entry() {
  OpmuxOperatorEntry entry = {};
  entry.struct_size = sizeof entry;
  entry.name = "@OPERATOR@";
  // The same text as in the declaration: opmux compares the two.
  entry.schema = "@OPERATOR@@SCHEMA@";
  entry.device_type = OPMUX_DEVICE_CPU;
  entry.call = call;
  return entry;
}

const OpmuxOperatorEntry kOperators[] = {make_entry()};

OpmuxModule make_module() {
  OpmuxModule module = {};
  module.struct_size = sizeof module;
  module.abi_major = OPMUX_PLUGIN_ABI_MAJOR;
  module.abi_minor = OPMUX_PLUGIN_ABI_MINOR;
  module.operator_count = sizeof kOperators / sizeof kOperators[0];
  module.name = "@PLUGIN@";
  module.version = "0.1.0";
  module.build_identity = "";  // built against nothing in particular
  module.operators = kOperators;
  return module;
}

const OpmuxModule kModule = make_module();

}  // namespace

extern "C" OPMUX_PLUGIN_EXPORT OpmuxStatus opmux_plugin_open(const OpmuxHost* services,
                                                             const OpmuxModule** module) {
  if (services->abi_major != OPMUX_PLUGIN_ABI_MAJOR) {
    services->set_error("built for another plugin ABI: build it again with this opmux");
    return OPMUX_INCOMPATIBLE;
  }
  host = services;
  *module = &kModule;
  return OPMUX_OK;
}
)code";

inline constexpr std::string_view kGatedBody = R"code(  const std::int64_t half = columns / 2;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const gate = data_of(input) + row * columns;
    const float* const up = gate + half;
    float* const target = data_of(out) + row * half;
    for (std::int64_t i = 0; i < half; ++i)
      target[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
  }
)code";

inline constexpr std::string_view kSquaredBody =
    R"code(  const float* const source = data_of(input);
  float* const target = data_of(out);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const float positive = std::fmax(source[i], 0.0F);
    target[i] = positive * positive;
  }
)code";

inline constexpr std::string_view kTestTemplate = R"code(// SPDX-License-Identifier: Apache-2.0
//
// Calls the plugin through opmux, as a program that was given its folder would.
#include <opmux/opmux.hpp>

#include <cmath>
#include <cstdio>

namespace {

int failed(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s\n", what, why);
  return 1;
}

}  // namespace

// The argument is the manifest in the drop-in folder that the build has made.
int main(int argc, char** argv) {
  if (argc != 2) return failed("usage", "@PLUGIN@_test MANIFEST");
  opmux::Options options;
  options.manifest_files = {argv[1]};  // and no other provider
  const auto runtime = opmux::Runtime::open(options);
  if (!runtime.ok()) return failed("open", runtime.status().message().c_str());
  const auto op = runtime->op<void(opmux::Tensor, opmux::Tensor)>("@OPERATOR@");
  if (!op.ok()) return failed("op", op.status().message().c_str());

  constexpr int kRows = 3;
  constexpr int kColumns = @COLUMNS@;
  constexpr int kOut = 4;
  float input[kRows][kColumns];
  float out[kRows][kOut] = {};
  for (int row = 0; row < kRows; ++row)
    for (int i = 0; i < kColumns; ++i)
      input[row][i] = 0.5F * static_cast<float>(i - row * kColumns / 2);
  opmux::Status status = (*op)(opmux::Tensor(input, opmux::DType::kFloat32, {kRows, kColumns}),
                               opmux::Tensor(out, opmux::DType::kFloat32, {kRows, kOut}));
  if (!status.ok()) return failed("call", status.message().c_str());
  if (op->boxed().last_provider() != "@PLUGIN@")
    return failed("served by", op->boxed().last_provider().c_str());

  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kOut; ++i) {
@EXPECTED@      const double difference = std::fabs(static_cast<double>(out[row][i]) - expected);
      // Written so that a NaN fails, too.
      if (!(difference <= 1e-6 * (1.0 + std::fabs(expected))))
        return failed("out", "not what the formula gives");
    }
  }

  // Sizes that do not fit are refused before anything is written.
  status = (*op)(opmux::Tensor(input, opmux::DType::kFloat32, {kRows, kColumns}),
                 opmux::Tensor(out, opmux::DType::kFloat32, {kRows, kOut - 1}));
  if (status.code() != opmux::StatusCode::kInvalidArgument)
    return failed("out that is too small", "expected an invalid argument");
  std::printf("@OPERATOR@ is served by @PLUGIN@\n");
  return 0;
}
)code";

inline constexpr std::string_view kGatedExpected =
    R"code(      const auto gate = static_cast<double>(input[row][i]);
      const auto up = static_cast<double>(input[row][i + kOut]);
      const double expected = gate / (1.0 + std::exp(-gate)) * up;
)code";

inline constexpr std::string_view kSquaredExpected =
    R"code(      const double positive = std::fmax(static_cast<double>(input[row][i]), 0.0);
      const double expected = positive * positive;
)code";

inline constexpr std::string_view kBuildTemplate = R"cmake(# SPDX-License-Identifier: Apache-2.0
# cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX, where opmux was installed below PREFIX
cmake_minimum_required(VERSION 3.16)
project(@PLUGIN@ LANGUAGES CXX)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(opmux 0.1 REQUIRED)

# build/drop-in/@PLUGIN@ is the whole plugin: a manifest and the module that it names.
set(folder "${CMAKE_CURRENT_BINARY_DIR}/drop-in/@PLUGIN@")
add_library(opmux_@PLUGIN@ MODULE @PLUGIN@.cpp)
target_link_libraries(opmux_@PLUGIN@ PRIVATE opmux::plugin)
set_target_properties(opmux_@PLUGIN@ PROPERTIES
  PREFIX "" CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${folder}")
configure_file(@PLUGIN@.yaml "${folder}/@PLUGIN@.yaml" COPYONLY)

# cmake --install build --prefix DIR makes DIR/@PLUGIN@, where DIR is a folder of manifests,
# e.g. ~/.config/opmux/providers.d.
install(TARGETS opmux_@PLUGIN@ LIBRARY DESTINATION @PLUGIN@)
install(FILES @PLUGIN@.yaml DESTINATION @PLUGIN@)

include(CTest)
if(BUILD_TESTING)
  add_executable(opmux_@PLUGIN@_test @PLUGIN@_test.cpp)
  target_link_libraries(opmux_@PLUGIN@_test PRIVATE opmux::opmux)
  set_target_properties(opmux_@PLUGIN@_test PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
  add_test(NAME validate COMMAND "${opmux_COMMAND}" validate "${folder}/@PLUGIN@.yaml")
  add_test(NAME call COMMAND opmux_@PLUGIN@_test "${folder}/@PLUGIN@.yaml")
endif()
)cmake";

inline constexpr std::string_view kReadmeTemplate = R"text(# @PLUGIN@

A drop-in plugin for opmux: `@OPERATOR@` on the CPU, `@FORMULA@`.

| file | what |
|---|---|
| `@PLUGIN@.yaml` | the manifest: which operators are served, when, and before whom |
| `@PLUGIN@.cpp` | the plugin module: the kernel and its table |
| `@PLUGIN@_test.cpp` | calls it through opmux |

Build and test, with opmux installed below PREFIX (`cmake --install BUILD --prefix PREFIX`):

```sh
cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX
cmake --build build
ctest --test-dir build --output-on-failure
opmux run @OPERATOR@ --manifests build/drop-in
```

Drop it in, for every program of this user, and take it out again:

```sh
cmake --install build --prefix ~/.config/opmux/providers.d
rm -r ~/.config/opmux/providers.d/@PLUGIN@
```

A running program that watches its files (`watch: true` in `opmux.yaml`, `Options::watch`) follows within a fraction of a second; any
other when it is started again or calls `Runtime::reload()`:

```sh
providers=~/.config/opmux/providers.d
# Leave it out, files in place: an empty file of the same relative name in a folder of manifests above that one.
mkdir -p masks/@PLUGIN@ && touch masks/@PLUGIN@/@PLUGIN@.yaml    # with `manifests: [.../masks]` in opmux.yaml
# Replace the module: beside it first, then by rename. A module that is written over while it is mapped ends the program.
cp build/drop-in/@PLUGIN@/opmux_@PLUGIN@.so $providers/@PLUGIN@/opmux_@PLUGIN@.so.new
mv $providers/@PLUGIN@/opmux_@PLUGIN@.so.new $providers/@PLUGIN@/opmux_@PLUGIN@.so
# Remove it: calls that are inside end well.
rm -r $providers/@PLUGIN@
```

`cmake --install` removes the module and writes it anew; in between, calls go to the next provider of the route. `opmux watch` shows what the
program uses, and why it refused a change.

A folder elsewhere is named by `manifests:` in `opmux.yaml`, by `OPMUX_MANIFESTS` or by `--manifests`.

To serve another operator that opmux knows, take its schema from `opmux explain OPERATOR`, and write its name and schema into the
module's table and its name into the manifest; it needs no `declare`. For an operator of your own, the manifest declares it.
`opmux validate build/drop-in/@PLUGIN@/@PLUGIN@.yaml` says what does not fit. The files are yours, the licence line included.
)text";

}  // namespace opmux::cli
