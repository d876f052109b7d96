// SPDX-License-Identifier: Apache-2.0
//
// A lock comes from version control or an image, so from anybody: everything that is not exactly of
// the documented form is refused with its place.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/lock/lock.hpp"

namespace opmux::lock {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 6;

// What is wrong, and where: "bindings[3].contract.kind". Stays inside this file.
struct Fault {
  std::string place, expected, found;
};

std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::null:
      return "null";
    default:
      return "`" + printable(value.dump().substr(0, 80)) + "`";
  }
}

std::string in_brackets(std::size_t index) { return "[" + std::to_string(index) + "]"; }

bool is_sha256(const std::string& text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// A name that stays inside its folder.
bool is_inside(const std::string& text) {
  const std::filesystem::path path(text);
  return !text.empty() && path.is_relative() && text.find('\0') == std::string::npos &&
         std::none_of(path.begin(), path.end(), [](const std::filesystem::path& part) {
           return part == ".." || part == ".";
         });
}

// Reads the keys of one object and refuses those that nobody asked for.
class Object {
 public:
  Object(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json_.is_object()) throw Fault{shown(), "an object", kind_of(json_)};
  }

  std::string text(const char* key) {
    const Json& value = required(key);
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      throw Fault{place(key), "a text that is not empty", kind_of(value)};
    return value.get<std::string>();
  }
  std::string optional_text(const char* key) { return has(key) ? text(key) : std::string(); }

  std::string one_of(const char* key, std::initializer_list<const char*> words) {
    std::string word = text(key);
    if (std::find(words.begin(), words.end(), word) == words.end()) {
      const std::vector<std::string> known(words.begin(), words.end());
      throw Fault{place(key), "one of " + join(known, ", "), "`" + printable(word) + "`"};
    }
    return word;
  }

  std::string sha256(const char* key) {
    std::string digest = text(key);
    if (!is_sha256(digest))
      throw Fault{place(key), "64 digits of a SHA-256, in lower case",
                  "`" + printable(digest.substr(0, 80)) + "`"};
    return digest;
  }

  std::string relative_path(const char* key) {
    std::string path = text(key);
    if (!is_inside(path))
      throw Fault{place(key), "a relative path without `.` and `..`", "`" + printable(path) + "`"};
    return path;
  }

  std::uint64_t number(const char* key) {
    const Json& value = required(key);
    if (!value.is_number_unsigned()) throw Fault{place(key), "a whole number", kind_of(value)};
    return value.get<std::uint64_t>();
  }

  bool boolean(const char* key) {
    const Json& value = required(key);
    if (!value.is_boolean()) throw Fault{place(key), "true or false", kind_of(value)};
    return value.get<bool>();
  }

  bool has(const char* key) const { return json_.contains(key); }

  template <class Read>
  auto object(const char* key, Read read) {
    return read(Object(required(key), place(key)));
  }

  template <class Read>
  auto list(const char* key, Read read) {
    std::vector<decltype(read(std::declval<Object>()))> items;
    const Json& value = required(key);
    if (!value.is_array()) throw Fault{place(key), "a list", kind_of(value)};
    for (std::size_t index = 0; index < value.size(); ++index)
      items.push_back(read(Object(value[index], place(key) + in_brackets(index))));
    return items;
  }

  std::vector<std::string> texts(const char* key) {
    const Json& value = required(key);
    const auto is_text = [](const Json& item) {
      return item.is_string() && !item.get_ref<const std::string&>().empty();
    };
    if (!value.is_array() || value.empty() || !std::all_of(value.begin(), value.end(), is_text))
      throw Fault{place(key), "a list of texts that are not empty", kind_of(value)};
    return value.get<std::vector<std::string>>();
  }

  // To be called last.
  void expect_no_other() const {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
      const std::string near = nearest(key, known_);
      throw Fault{shown(), "only known keys" + (near.empty() ? "" : ", such as `" + near + "`"),
                  "the key `" + printable(key.substr(0, 80)) + "`"};
    }
  }

  std::string place(const std::string& key) const {
    return place_.empty() ? key : place_ + "." + key;
  }

 private:
  const Json& required(const char* key) {
    known_.emplace_back(key);
    const auto found = json_.find(key);
    if (found == json_.end()) throw Fault{shown(), std::string("the key `") + key + "`", "none"};
    return *found;
  }
  std::string shown() const { return place_.empty() ? "the whole" : place_; }

  const Json& json_;
  std::string place_;
  std::vector<std::string> known_;
};

File read_file(Object json) {
  File file;
  file.role = json.one_of("role", {"library", "module"});
  file.origin = json.one_of("origin", {"distribution", "manifest", "installation", "cache"});
  file.name = json.optional_text("name");
  file.version = json.optional_text("version");
  file.path = json.relative_path("path");
  file.size = json.number("size");
  file.sha256 = json.sha256("sha256");
  file.machine = json.optional_text("machine");
  file.python = json.optional_text("python");
  file.glibc = json.optional_text("glibc");
  file.libstdcxx = json.optional_text("libstdcxx");
  json.expect_no_other();
  return file;
}

Contract read_contract(Object json) {
  Contract contract;
  contract.kind = json.one_of("kind", {"dispatcher", "direct_symbol", "module"});
  if (contract.kind == "dispatcher") {
    contract.schema = json.text("schema");
    contract.dispatch_key = json.text("dispatch_key");
  } else if (contract.kind == "direct_symbol") {
    contract.symbols = json.texts("symbols");
  } else {
    contract.operator_name = json.text("operator");
  }
  json.expect_no_other();
  return contract;
}

Binding read_binding(Object json) {
  Binding binding;
  binding.operator_name = json.text("operator");
  binding.device = json.one_of("device", {"cpu", "cuda"});
  binding.place = json.number("place");
  binding.provider = json.text("provider");
  binding.library = json.optional_text("library");
  binding.module = json.optional_text("module");
  binding.contract = json.object("contract", read_contract);
  json.expect_no_other();
  return binding;
}

Torch read_torch(Object json) {
  Torch torch;
  torch.version = json.text("version");
  torch.cuda = json.optional_text("cuda");
  torch.python = json.optional_text("python");
  json.object("libtorch_cpu", [&](Object library) {
    torch.size = library.number("size");
    torch.sha256 = library.sha256("sha256");
    library.expect_no_other();
    return 0;
  });
  json.expect_no_other();
  return torch;
}

Driver read_driver(Object json) {
  Driver driver;
  driver.floor = json.optional_text("floor");
  driver.stub = json.boolean("stub");
  driver.seen = json.optional_text("seen");
  json.expect_no_other();
  return driver;
}

ManifestFile read_manifest(Object json) {
  ManifestFile manifest{json.relative_path("path"), json.sha256("sha256")};
  json.expect_no_other();
  return manifest;
}

Route read_route(Object json) {
  Route route{json.text("pattern"), json.texts("providers")};
  json.expect_no_other();
  return route;
}

template <class Items, class Label>
void expect_distinct(const Items& items, const char* place, Label label) {
  std::set<std::string> seen;
  for (const auto& item : items)
    if (!seen.insert(label(item)).second)
      throw Fault{place, "each once", "`" + printable(label(item)) + "` twice"};
}

void check_references(const Lock& lock) {
  std::set<std::string> labels;
  for (const File& file : lock.files)
    labels.insert(std::string(file.role).append(" ").append(label_of(file)));
  for (const Binding& binding : lock.bindings) {
    for (const auto& [role, label] :
         {std::pair<std::string, std::string>{"library", binding.library},
          {"module", binding.module}}) {
      if (!label.empty() && !labels.contains(std::string(role).append(" ").append(label)))
        throw Fault{"the binding " + printable(label_of(binding)),
                    std::string("a ").append(role).append(" of `files`"),
                    "`" + printable(label) + "`"};
    }
  }
}

Lock read_lock(const Json& json) {
  Object object(json, "");
  if (object.number("lock") != 1)
    throw Fault{"lock", "`\"lock\": 1`, the format that this opmux reads", json["lock"].dump()};
  Lock lock;
  lock.opmux = object.text("opmux");
  lock.machine = object.text("machine");
  if (object.has("torch")) lock.torch = object.object("torch", read_torch);
  lock.driver = object.object("driver", read_driver);
  lock.routes = object.list("routes", read_route);
  lock.manifests = object.list("manifests", read_manifest);
  lock.files = object.list("files", read_file);
  lock.bindings = object.list("bindings", read_binding);
  object.expect_no_other();
  expect_distinct(lock.manifests, "manifests", [](const ManifestFile& each) { return each.path; });
  expect_distinct(lock.files, "files",
                  [](const File& each) { return each.role + " " + label_of(each); });
  expect_distinct(lock.bindings, "bindings", [](const Binding& each) { return label_of(each); });
  check_references(lock);
  return lock;
}

// Refuses what nlohmann-json would accept: a key twice, of which it keeps the last, and any depth.
class Watch {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kDeepest)
      throw Fault{"the whole", "at most " + std::to_string(kDeepest) + " levels", "more"};
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        throw Fault{"the whole", "each key once", "the key `" + printable(key) + "` twice"};
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
};

// Without the library's own name for the fault, and without the place, which goes to the subject.
std::string in_words(const Json::exception& error) {
  std::string_view text = error.what();
  if (const std::size_t end = text.find("] "); text.starts_with('[') && end != text.npos)
    text.remove_prefix(end + 2);
  if (const std::size_t end = text.find(": ");
      text.starts_with("parse error at") && end != text.npos)
    text.remove_prefix(end + 2);
  return printable(text);
}

// "line 3, column 7": the parser counts bytes that it has read, from 1.
std::string position_in(std::string_view text, std::size_t bytes) {
  const std::string_view before = text.substr(0, bytes == 0 ? 0 : bytes - 1);
  const std::size_t line_end = before.rfind('\n');
  const std::size_t column = before.size() - (line_end == before.npos ? 0 : line_end + 1) + 1;
  return "line " + std::to_string(std::count(before.begin(), before.end(), '\n') + 1) +
         ", column " + std::to_string(column);
}

Rejection wrong_form(const std::filesystem::path& file, const std::string& place,
                     std::string expected, std::string found) {
  return reject(rules::kLockForm, printable(file.native()) + ": " + place, std::move(expected),
                std::move(found));
}

}  // namespace

Result<Lock> parse(std::string_view text, const std::filesystem::path& file) {
  if (text.size() > kFileCap)
    return wrong_form(file, "the whole", "at most " + std::to_string(kFileCap) + " bytes",
                      std::to_string(text.size()) + " bytes");
  try {
    Watch watch;
    return read_lock(Json::parse(text, std::ref(watch)));
  } catch (const Fault& fault) {
    return wrong_form(file, fault.place, fault.expected, fault.found);
  } catch (const Json::parse_error& error) {
    return wrong_form(file, position_in(text, error.byte), "JSON as `opmux lock` writes it",
                      in_words(error));
  } catch (const Json::exception& error) {
    return wrong_form(file, "the whole", "JSON as `opmux lock` writes it", in_words(error));
  }
}

Result<Lock> read(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error)))
    return reject(rules::kLockMissing, printable(file.native()), "a lock", "nothing");
  Result<std::string> text =
      read_regular_file(file, kFileCap, rules::kLockUnreadable, rules::kLockUnreadable);
  if (!text.ok()) return std::move(text).rejection();
  return parse(*text, file);
}

}  // namespace opmux::lock
