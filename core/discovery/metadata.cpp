// SPDX-License-Identifier: Apache-2.0
#include "core/discovery/metadata.hpp"

#include <exception>
#include <nlohmann/json.hpp>

#include "core/base/text.hpp"

namespace opmux::discovery {
namespace {

// Takes the next line off `text`, without its end.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Takes a line off `text` that begins with a quoted field, which may hold line ends, and returns
// that field.
std::string take_quoted_line(std::string_view& text) {
  std::string field;
  std::size_t i = 1;
  for (; i < text.size(); ++i) {
    if (text[i] == '"') {
      if (i + 1 == text.size() || text[i + 1] != '"') break;
      ++i;
    }
    field += text[i];
  }
  text.remove_prefix(i);
  take_line(text);
  return field;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view left, std::string_view right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (lower(left[i]) != lower(right[i])) return false;
  return true;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

std::optional<std::string> decode_percent(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = digit_value(text[i + 1]);
      const int low = digit_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') return std::nullopt;
    decoded += c;
  }
  return decoded;
}

std::optional<std::filesystem::path> path_of_file_url(std::string_view url) {
  for (const std::string_view prefix : {"file://localhost/", "file:///"}) {
    if (url.substr(0, prefix.size()) != prefix) continue;
    const auto decoded = decode_percent(url.substr(prefix.size() - 1));
    if (!decoded) return std::nullopt;
    return std::filesystem::path(*decoded).lexically_normal();
  }
  return std::nullopt;
}

// The text of a quoted Python string without escapes; nothing for any other expression.
std::optional<std::string> quoted(std::string_view expression) {
  expression = trim(expression);
  if (expression.empty() || (expression.front() != '\'' && expression.front() != '"'))
    return std::nullopt;
  const std::size_t end = expression.find(expression.front(), 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(expression.substr(1, end - 1));
}

}  // namespace

bool is_plain_path(std::string_view path) {
  return !path.empty() && path.front() != '/' && path.find("./") == std::string_view::npos &&
         path.find("//") == std::string_view::npos;
}

std::string metadata_field(std::string_view text, std::string_view field) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.empty()) break;  // the description follows
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && same_word(line.substr(0, colon), field))
      return std::string(trim(line.substr(colon + 1)));
  }
  return {};
}

std::vector<std::string> record_paths(std::string_view text, std::string_view prefix) {
  std::vector<std::string> paths;
  while (!text.empty()) {
    std::string path;
    if (text.front() != '"') {
      // Nearly all lines: names, a hash and a size, none of them quoted.
      const std::string_view line = take_line(text);
      const std::string_view field = line.substr(0, line.find(','));
      if (is_plain_path(field) && field.substr(0, prefix.size()) != prefix) continue;
      path = field;
    } else {
      path = take_quoted_line(text);
    }
    if (!path.empty() && path.find('\0') == std::string::npos) paths.push_back(std::move(path));
  }
  return paths;
}

std::optional<std::filesystem::path> editable_root(std::string_view text) {
  try {
    const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
    if (!document.is_object()) return std::nullopt;
    const auto information = document.find("dir_info");
    const auto url = document.find("url");
    if (information == document.end() || !information->is_object() || url == document.end() ||
        !url->is_string())
      return std::nullopt;
    const auto editable = information->find("editable");
    if (editable == information->end() || !editable->is_boolean() || !editable->get<bool>())
      return std::nullopt;
    return path_of_file_url(url->get_ref<const std::string&>());
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

TorchVersion torch_version(std::string_view text) {
  TorchVersion result;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    // `name = value` or `name: annotation = value`, at the start of a line.
    const std::string_view target = line.substr(0, equals);
    const std::string_view name = target.substr(0, target.find_first_of(" \t:"));
    if (name == "__version__")
      result.version = quoted(line.substr(equals + 1)).value_or("");
    else if (name == "cuda")
      result.cuda = quoted(line.substr(equals + 1)).value_or("");
  }
  return result;
}

VirtualEnvironmentConfig virtual_environment_config(std::string_view text) {
  VirtualEnvironmentConfig config;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, equals));
    const std::string_view value = trim(line.substr(equals + 1));
    if (same_word(key, "home"))
      config.home = std::filesystem::path(value);
    else if (same_word(key, "include-system-site-packages"))
      config.includes_system_packages = same_word(value, "true");
  }
  return config;
}

}  // namespace opmux::discovery
