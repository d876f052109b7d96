// SPDX-License-Identifier: Apache-2.0
//
// Bindings in the messages of the probe.
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/probe/json.hpp"
#include "core/probe/messages.hpp"

namespace opmux::probing {

namespace {

// A source as [kind, ...]; a constant that is a list as a list in it.
Json source_to_json(const CallSource& source) {
  if (const int* argument = std::get_if<int>(&source.source)) return {"argument", *argument};
  if (const auto* item = std::get_if<ListItem>(&source.source))
    return {"item", item->argument, item->index};
  if (const auto* number = std::get_if<InverseSqrtDefault>(&source.source))
    return {"inverse_sqrt", number->argument, number->tensor, number->dim};
  Json constant = std::visit(
      [](const auto& written) -> Json {
        using Written = std::decay_t<decltype(written)>;
        if constexpr (std::is_same_v<Written, NoneLiteral>)
          return nullptr;
        else if constexpr (std::is_same_v<Written, std::string>)
          return text_to_json(written);
        else
          return written;
      },
      std::get<Literal>(source.source));
  Json json = Json::array({"constant"});
  json.push_back(std::move(constant));
  return json;
}

template <class Integer>
Integer number_at(const Json& list, std::size_t index) {
  return integer<Integer>(Json{{"item", list.at(index)}}, "item");
}

Literal read_constant(const Json& value) {
  if (value.is_null()) return NoneLiteral{};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return plain_text(value);
  if (value.is_number_integer()) return integer<std::int64_t>(Json{{"item", value}}, "item");
  if (!value.is_array()) throw Fault("a constant of no known kind");
  std::vector<std::int64_t> items;
  for (std::size_t at = 0; at < value.size(); ++at)
    items.push_back(number_at<std::int64_t>(value, at));
  return items;
}

CallSource read_source(const Json& value) {
  if (!value.is_array() || value.empty()) throw Fault("a source is no list");
  const std::string kind = plain_text(value.at(0));
  const auto expect = [&](std::size_t size) {
    if (value.size() != size) throw Fault("a source of the wrong length");
  };
  CallSource source;
  if (kind == "argument") {
    expect(2);
    source.source.emplace<int>(number_at<int>(value, 1));
  } else if (kind == "item") {
    expect(3);
    source.source.emplace<ListItem>(
        ListItem{number_at<int>(value, 1), number_at<std::int64_t>(value, 2)});
  } else if (kind == "inverse_sqrt") {
    expect(4);
    source.source.emplace<InverseSqrtDefault>(InverseSqrtDefault{
        number_at<int>(value, 1), number_at<int>(value, 2), number_at<int>(value, 3)});
  } else if (kind == "constant") {
    expect(2);
    source.source.emplace<Literal>(read_constant(value.at(1)));
  } else {
    throw Fault("a source of no known kind");
  }
  return source;
}

}  // namespace

Json binding_to_json(const ProbeBinding& item) {
  const ForeignBinding& binding = item.binding;
  return {{"module", item.module},
          {"library", item.library},
          {"operator_name", text_to_json(binding.operator_name)},
          {"operator_schema", text_to_json(binding.operator_schema)},
          {"device", text_to_json(binding.device)},
          {"symbols", list_to_json(binding.symbols, text_to_json)},
          {"mangled", list_to_json(binding.mangled, text_to_json)},
          {"returns", text_to_json(binding.returns)},
          {"module_maps", binding.module_maps},
          {"call", list_to_json(binding.call, source_to_json)},
          {"results", list_to_json(binding.results, [](const ResultTarget& target) {
             return Json{{"argument", target.argument},
                         {"negative_infinity", target.negative_infinity}};
           })}};
}

ProbeBinding read_binding(const Json& value) {
  ProbeBinding item;
  item.module = integer<std::size_t>(value, "module");
  item.library = integer<std::size_t>(value, "library");
  ForeignBinding& binding = item.binding;
  binding.operator_name = text(value, "operator_name");
  binding.operator_schema = text(value, "operator_schema");
  binding.device = text(value, "device");
  binding.symbols = list(value, "symbols", plain_text);
  binding.mangled = list(value, "mangled", plain_text);
  binding.returns = text(value, "returns");
  binding.module_maps = boolean(value, "module_maps");
  binding.call = list(value, "call", read_source);
  binding.results = list(value, "results", [](const Json& target) {
    return ResultTarget{integer<int>(target, "argument"), boolean(target, "negative_infinity")};
  });
  if (binding.symbols.size() != binding.mangled.size()) throw Fault("symbols without names");
  return item;
}

std::string binding_text(const ProbeBinding& binding) { return write(binding_to_json(binding)); }

}  // namespace opmux::probing

namespace opmux {

std::string to_text(const ForeignBinding& binding) {
  return probing::binding_text({0, 0, binding});
}

}  // namespace opmux
