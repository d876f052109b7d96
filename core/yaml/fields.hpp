// SPDX-License-Identifier: Apache-2.0
//
// Typed values out of the plain tree. A form is accepted only when it is the documented one: `yes`
// is no bool, `010` and `1e3` are no integers, `"4"` is text. Every refusal goes into `Errors`, so
// that one reading of a file reports several faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rules.hpp"
#include "core/yaml/reader.hpp"

namespace opmux::yaml {

// What is wrong with one file.
class Errors {
 public:
  static constexpr std::size_t kCap = 20;  // what comes after it is dropped

  explicit Errors(std::filesystem::path file) : file_(std::move(file)) {}

  void add(const Rule& rule, Position position, std::string expected, std::string found,
           std::string hint = {});
  void add(Rejection rejection);

  // Whether more would only be counted; then no hint is worth its time.
  bool full() const { return rejections_.size() == kCap; }
  bool empty() const { return found_ == 0; }
  // All that were found, also those past the cap.
  std::size_t size() const { return found_; }
  const std::filesystem::path& file() const { return file_; }
  const std::vector<Rejection>& rejections() const { return rejections_; }

 private:
  std::filesystem::path file_;
  std::vector<Rejection> rejections_;
  std::size_t found_ = 0;
};

// "`word`" with hostile characters escaped.
std::string in_quotes(std::string_view text);
// What stands there, in words: "a map", "nothing", "`yes`", "the quoted text `false`".
std::string describe(const Node& node);
// "Did you mean `x`?", or empty when no candidate is near. Case and outer spaces do not count.
std::string nearest_hint(std::string_view word, const std::vector<std::string>& candidates);

// The forms alone, without an error; `quoted` scalars have none but text.
std::optional<bool> as_bool(const Node& node);
std::optional<std::int64_t> as_integer(const Node& node);
std::optional<double> as_number(const Node& node);
// null, ~, none or nothing
bool is_none(const Node& node);

// `what` says which value is read: "`priority`". A wrong form is an error of yaml.wrong_form.
std::optional<std::string> read_text(const Node& node, std::string_view what, Errors& errors);
std::optional<bool> read_bool(const Node& node, std::string_view what, Errors& errors);
std::optional<std::int64_t> read_integer(const Node& node, std::string_view what, Errors& errors,
                                         std::int64_t low, std::int64_t high);
std::optional<double> read_number(const Node& node, std::string_view what, Errors& errors);
// A list of texts, or one text as a list of one; not empty.
std::optional<std::vector<std::string>> read_texts(const Node& node, std::string_view what,
                                                   Errors& errors);
// A list of words of a closed set, each once; may be empty. `one` names what a word is: "a
// property".
std::optional<std::vector<std::string>> read_words(const Node& node, std::string_view what,
                                                   std::string_view one,
                                                   const std::vector<std::string>& known,
                                                   Errors& errors);
bool is_map(const Node& node, std::string_view what, Errors& errors);

// A map with a closed set of keys. Reports what is no map and every unknown key when built.
class MapReader {
 public:
  MapReader(const Node& node, std::string what, std::initializer_list<const char*> known,
            Errors& errors);
  // For a map whose keys were checked before.
  MapReader(const Node& node, std::string what, Errors& errors);

  bool is_map() const { return node_.kind == Kind::kMap; }
  const Node& node() const { return node_; }
  const std::string& what() const { return what_; }

  // Null when the key is not there; a required one is then an error.
  const Node* find(std::string_view key) const;
  const Node* require(std::string_view key) const;

  // Nothing when the key is absent, or after an error.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<std::string> required_text(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low,
                                      std::int64_t high) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<std::vector<std::string>> texts(std::string_view key) const;

 private:
  const Node& node_;
  std::string what_;
  Errors& errors_;
};

}  // namespace opmux::yaml
