// SPDX-License-Identifier: Apache-2.0
//
// Strict reading and writing of the messages' JSON. Inside core/probe only, and there in the
// sources that read or write messages. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/probe/probe.hpp"

namespace opmux::probing {

using Json = nlohmann::json;

// What is wrong with a message; read_or_fault() catches it.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bytes as code points 0 to 255, so that any byte survives a text that must be UTF-8.
Json text_to_json(std::string_view bytes);
std::string bytes_of(const std::string& text);

// ---- fields of an object; what is missing or of another kind is a fault ----

const Json& field(const Json& object, const char* name);
std::string text(const Json& object, const char* name);
bool boolean(const Json& object, const char* name);
// An item of a list.
std::string plain_text(const Json& value);

template <class Integer>
Integer integer(const Json& object, const char* name) {
  const Json& value = field(object, name);
  if (!value.is_number_integer()) throw Fault(std::string("`") + name + "` is no integer");
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::cmp_less_equal(number, std::numeric_limits<Integer>::max())) {
      return static_cast<Integer>(number);
    }
  } else {
    const auto number = value.get<std::int64_t>();
    if (std::cmp_greater_equal(number, std::numeric_limits<Integer>::min()) &&
        std::cmp_less_equal(number, std::numeric_limits<Integer>::max())) {
      return static_cast<Integer>(number);
    }
  }
  throw Fault(std::string("`") + name + "` is out of range");
}

template <class Read>
auto list(const Json& object, const char* name, Read read) {
  const Json& value = field(object, name);
  if (!value.is_array()) throw Fault(std::string("`") + name + "` is no list");
  std::vector<decltype(read(value))> items;
  items.reserve(value.size());
  for (const Json& item : value) items.push_back(read(item));
  return items;
}

template <class Items, class Write>
Json list_to_json(const Items& items, Write write) {
  Json result = Json::array();
  for (const auto& item : items) result.push_back(write(item));
  return result;
}

Json parse(std::string_view text);
std::string write(const Json& json);

template <class Read>
auto read_or_fault(std::string_view json, std::string& fault, Read read)
    -> std::optional<decltype(read(Json()))> {
  try {
    return read(parse(json));
  } catch (const std::exception& error) {
    fault = error.what();
    return std::nullopt;
  }
}

// ---- bindings (binding_messages.cpp) ----

Json binding_to_json(const ProbeBinding& item);
ProbeBinding read_binding(const Json& value);

}  // namespace opmux::probing
