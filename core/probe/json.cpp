// SPDX-License-Identifier: Apache-2.0
#include "core/probe/json.hpp"

namespace opmux::probing {

Json text_to_json(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text.push_back(c);
    } else {
      text.push_back(static_cast<char>(0xc0 | (byte >> 6)));
      text.push_back(static_cast<char>(0x80 | (byte & 0x3f)));
    }
  }
  return text;
}

std::string bytes_of(const std::string& text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      bytes.push_back(text[i]);
    } else if ((lead == 0xc2 || lead == 0xc3) && i + 1 < text.size()) {
      const auto trail = static_cast<unsigned char>(text[++i]);
      bytes.push_back(static_cast<char>(((lead & 3) << 6) | (trail & 0x3f)));
    } else {
      throw Fault("a character beyond U+00FF");
    }
  }
  return bytes;
}

const Json& field(const Json& object, const char* name) {
  if (!object.is_object()) throw Fault("an object was expected");
  const auto found = object.find(name);
  if (found == object.end()) throw Fault(std::string("`") + name + "` is missing");
  return *found;
}

std::string text(const Json& object, const char* name) {
  const Json& value = field(object, name);
  if (!value.is_string()) throw Fault(std::string("`") + name + "` is no text");
  return bytes_of(value.get_ref<const std::string&>());
}

bool boolean(const Json& object, const char* name) {
  const Json& value = field(object, name);
  if (!value.is_boolean()) throw Fault(std::string("`") + name + "` is no boolean");
  return value.get<bool>();
}

std::string plain_text(const Json& value) {
  if (!value.is_string()) throw Fault("a text was expected in a list");
  return bytes_of(value.get_ref<const std::string&>());
}

Json parse(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw Fault("it is no JSON");
  return json;
}

// Bytes above 0x7f never reach the JSON library, so writing cannot fail on them.
std::string write(const Json& json) { return json.dump(); }

}  // namespace opmux::probing
