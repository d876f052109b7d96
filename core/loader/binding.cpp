// SPDX-License-Identifier: Apache-2.0
#include "core/loader/binding.hpp"

#include <dlfcn.h>

#include <exception>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

namespace fs = std::filesystem;

// Keeps what the values of a bind request point to until the module has copied them.
class ConstantStore {
 public:
  OpmuxValue value(const Literal& literal) {
    OpmuxValue value{};
    value.tag = OPMUX_VALUE_NONE;
    std::visit(
        [&](const auto& written) {
          using Written = std::decay_t<decltype(written)>;
          if constexpr (std::is_same_v<Written, bool>) {
            value.tag = OPMUX_VALUE_BOOL;
            value.payload.integer = written ? 1 : 0;
          } else if constexpr (std::is_same_v<Written, std::int64_t>) {
            value.tag = OPMUX_VALUE_INT;
            value.payload.integer = written;
          } else if constexpr (std::is_same_v<Written, double>) {
            value.tag = OPMUX_VALUE_FLOAT;
            value.payload.real = written;
          } else if constexpr (std::is_same_v<Written, std::string>) {
            value.tag = OPMUX_VALUE_STRING;
            value.payload.string = written.c_str();
          } else if constexpr (std::is_same_v<Written, std::vector<std::int64_t>>) {
            lists_.push_back(
                std::make_unique<OpmuxIntList>(OpmuxIntList{written.data(), written.size()}));
            value.tag = OPMUX_VALUE_INT_LIST;
            value.payload.int_list = lists_.back().get();
          }
        },
        literal);
    return value;
  }

 private:
  std::vector<std::unique_ptr<OpmuxIntList>> lists_;
};

OpmuxCallSource source_of(const CallSource& written, ConstantStore& constants) {
  OpmuxCallSource source{};
  source.argument = written.argument();
  source.tensor = -1;
  if (const auto* literal = std::get_if<Literal>(&written.source)) {
    source.kind = OPMUX_SOURCE_CONSTANT;
    source.constant = constants.value(*literal);
  } else if (const auto* item = std::get_if<ListItem>(&written.source)) {
    source.kind = OPMUX_SOURCE_LIST_ITEM;
    source.index = static_cast<std::int32_t>(item->index);
  } else if (const auto* number = std::get_if<InverseSqrtDefault>(&written.source)) {
    source.kind = OPMUX_SOURCE_INVERSE_SQRT;
    source.tensor = number->tensor;
    source.index = number->dim;
  } else {
    source.kind = OPMUX_SOURCE_ARGUMENT;
  }
  return source;
}

bool is_same_file(const char* path, const fs::path& library) {
  std::error_code error;
  return path != nullptr && fs::equivalent(path, library, error) && !error;
}

}  // namespace

ForeignBinding foreign_binding(const Alternative& alternative,
                               const OperatorDeclaration& declaration,
                               std::vector<std::string> mangled) {
  ForeignBinding binding;
  binding.operator_name = declaration.name;
  binding.operator_schema = declaration.schema_text;
  binding.device = alternative.device;
  if (const auto* dispatcher = std::get_if<DispatcherContract>(&alternative.contract)) {
    binding.provider_schema = dispatcher->schema_text;
    binding.dispatch_key = dispatcher->dispatch_key;
  } else if (const auto* symbols = std::get_if<DirectSymbolContract>(&alternative.contract)) {
    binding.symbols = symbols->required_symbols;
    binding.returns = symbols->returns;
  }
  binding.mangled = std::move(mangled);
  binding.module_maps = alternative.module_maps;
  binding.call = alternative.call;
  binding.results = alternative.results;
  return binding;
}

Result<std::vector<void*>> resolve_symbols(void* handle, const fs::path& library,
                                           const ForeignBinding& binding) {
  std::vector<void*> addresses;
  for (std::size_t at = 0; at < binding.mangled.size(); ++at) {
    const std::string subject = library.string() + ": " + printable(binding.symbols[at]);
    void* const address = dlsym(handle, binding.mangled[at].c_str());
    Dl_info place{};
    const bool known = address != nullptr && dladdr(address, &place) != 0;
    if (!known || !is_same_file(place.dli_fname, library)) {
      return reject(rules::kContractSymbolElsewhere, subject, "defined in " + library.string(),
                    address == nullptr ? "not found after loading"
                    : known            ? std::string("defined in ") + printable(place.dli_fname)
                                       : std::string("defined in no mapped file"));
    }
    addresses.push_back(address);
  }
  return addresses;
}

Result<OpmuxBound> bind_foreign(const PluginModule& module, const ForeignBinding& binding,
                                const std::vector<void*>& symbols) {
  const std::string subject = module.path.string() + ": " + binding.operator_name;
  if (module.module->bind == nullptr) {
    return reject(rules::kLoaderBindRefused, subject, "a module that binds foreign libraries",
                  "module `" + std::string(module.module->name) + "` has its own table only");
  }
  ConstantStore constants;
  std::vector<OpmuxCallSource> sources;
  for (const CallSource& written : binding.call) sources.push_back(source_of(written, constants));
  std::vector<OpmuxResultTarget> results;
  for (const ResultTarget& target : binding.results) {
    std::uint32_t flags = 0;
    if (target.negative_infinity) flags |= OPMUX_RESULT_NEGATIVE_INFINITY;
    results.push_back({target.argument, flags});
  }
  std::vector<const char*> names;
  for (const std::string& name : binding.symbols) names.push_back(name.c_str());

  OpmuxBindRequest request{};
  request.struct_size = sizeof request;
  const bool direct = !binding.symbols.empty();
  request.contract = direct ? OPMUX_CONTRACT_DIRECT_SYMBOL : OPMUX_CONTRACT_DISPATCHER;
  request.device_type = binding.device == "cuda" ? OPMUX_DEVICE_CUDA : OPMUX_DEVICE_CPU;
  request.source_count = static_cast<std::uint32_t>(sources.size());
  request.result_count = static_cast<std::uint32_t>(results.size());
  request.symbol_count = static_cast<std::uint32_t>(symbols.size());
  request.operator_name = binding.operator_name.c_str();
  request.operator_schema = binding.operator_schema.c_str();
  request.provider_schema = binding.provider_schema.c_str();
  request.dispatch_key = binding.dispatch_key.c_str();
  request.sources = sources.data();
  request.results = results.data();
  request.symbol_names = names.data();
  request.symbols = symbols.data();
  request.returns = binding.returns.c_str();
  request.flags = 0;
  if (binding.module_maps) request.flags |= OPMUX_BIND_MODULE_MAPS;

  OpmuxBound bound{};
  bound.struct_size = sizeof bound;
  take_module_error();
  const std::string wanted =
      "the module to bind " + (direct ? binding.symbols.front() : binding.provider_schema);
  std::string said;
  try {
    const OpmuxStatus status = module.module->bind(&request, &bound);
    said = take_module_error();
    if (status == OPMUX_OK && bound.call != nullptr) return bound;
    if (said.empty()) said = "status " + std::to_string(status);
  } catch (const std::exception& error) {
    said = std::string("it threw: ") + error.what();
  } catch (...) {
    said = "it threw something that is no std::exception";
  }
  return reject(rules::kLoaderBindRefused, subject, wanted, printable(said));
}

}  // namespace opmux
