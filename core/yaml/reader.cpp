// SPDX-License-Identifier: Apache-2.0
#include "core/yaml/reader.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <istream>
#include <streambuf>
#include <unordered_map>
#include <utility>

#include "core/base/files.hpp"
#include "core/base/rules.hpp"
#include "core/base/text.hpp"
#include "core/yaml/characters.hpp"

namespace opmux::yaml {
namespace {

// Carries a rejection out of yaml-cpp's event calls; never leaves this file.
struct Refused {
  Rejection rejection;
};

// The text with LF line ends and without a byte-order mark, and where its lines begin.
class Source {
 public:
  Source(std::string_view text, const std::filesystem::path& file) : file_(file) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    text_.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
      text_ += text[i];
      if (text[i] == '\n') lines_.push_back(text_.size());
    }
  }

  const std::string& text() const { return text_; }

  std::size_t offset(const YAML::Mark& mark) const {
    if (mark.line < 0 || mark.column < 0) return 0;
    const auto line = std::min(static_cast<std::size_t>(mark.line), lines_.size() - 1);
    return std::min(lines_[line] + static_cast<std::size_t>(mark.column), text_.size());
  }

  Position position(std::size_t offset) const {
    const auto next = std::upper_bound(lines_.begin(), lines_.end(), offset);
    const std::size_t begin = *(next - 1);
    const auto characters =
        std::count_if(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                      text_.begin() + static_cast<std::ptrdiff_t>(offset),
                      [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
    return {static_cast<int>(next - lines_.begin()), static_cast<int>(characters) + 1};
  }
  Position position(const YAML::Mark& mark) const { return position(offset(mark)); }

  char at(const YAML::Mark& mark) const {
    const std::size_t where = offset(mark);
    return where < text_.size() ? text_[where] : '\0';
  }
  std::string_view line_at(std::size_t offset) const {
    const std::size_t end = text_.find('\n', offset);
    return std::string_view{text_}.substr(
        offset, end == std::string::npos ? std::string::npos : end - offset);
  }
  const std::vector<std::size_t>& lines() const { return lines_; }

  Rejection rejection(const Rule& rule, Position position, std::string expected, std::string found,
                      std::string hint = {}) const {
    return reject(rule, subject(file_, position), std::move(expected), std::move(found),
                  std::move(hint));
  }

 private:
  const std::filesystem::path& file_;
  std::string text_;
  std::vector<std::size_t> lines_{0};
};

// Reads memory in place; std::istringstream would copy.
class MemoryBuffer : public std::streambuf {
 public:
  explicit MemoryBuffer(const std::string& text) {
    // The get area is never written to; the interface predates const.
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

std::string in_quotes(std::string_view text) { return "`" + printable(text) + "`"; }

Check check_characters(const Source& source) {
  if (const auto bad = find_bad_character(source.text()))
    return source.rejection(rules::kYamlEncoding, source.position(bad->offset),
                            "UTF-8 without control or bidirectional characters",
                            bad->reason + " " + bad->escaped);
  const std::size_t tab = source.text().find('\t');
  if (tab != std::string::npos)
    return source.rejection(rules::kYamlSyntax, source.position(tab),
                            "spaces for indentation and separation", "a tab (\\x09)",
                            "Replace the tab by spaces; in double quotes write \\t.");
  return std::nullopt;
}

// `%YAML` and `%TAG` stand before the document.
Check check_directives(const Source& source) {
  for (const std::size_t begin : source.lines()) {
    const std::string_view line = source.line_at(begin);
    if (line.starts_with('%'))
      return source.rejection(rules::kYamlFeature, source.position(begin), "no directives",
                              "the directive " + in_quotes(line.substr(0, 40)), "Remove the line.");
    if (!trim(line).empty() && !trim(line).starts_with('#')) break;
  }
  return std::nullopt;
}

// Builds the tree from yaml-cpp's events and refuses what is not plain data. Holds its own stack,
// so that nesting is bounded before yaml-cpp recurses into it.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const Source& source) : source_(source) {}

  bool has_document() const { return documents_ > 0; }
  Node take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    const std::size_t offset = source_.offset(mark);
    // yaml-cpp begins a new document at whatever follows a complete one; only a marker line makes
    // it one that the author meant.
    const std::string_view before = std::string_view{source_.text()}.substr(0, offset);
    const bool marked = source_.line_at(offset).starts_with("---") ||
                        before.find("\n---") != std::string_view::npos ||
                        before.find("\n...") != std::string_view::npos;
    if (marked)
      refuse(rules::kYamlSecondDocument, mark, "the end of the file", "a second document");
    refuse(rules::kYamlSyntax, mark, "the end of the document",
           in_quotes(source_.line_at(offset).substr(0, 40)));
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_anchor(mark, anchor);
    if (expects_key())
      refuse(rules::kYamlSyntax, mark, "a key that is text", "an empty or null key",
             "Write the key, in quotes if it is a word such as null.");
    Node node;
    node.position = stack_.empty() || stack_.back().node.kind != Kind::kMap
                        ? source_.position(mark)
                        : stack_.back().key_position;
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { refuse_alias(mark); }

  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    refuse(rules::kYamlFeature, mark, "no anchors", "the anchor " + in_quotes("&" + name));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    const bool is_quoted = tag == "!";
    if (is_quoted)
      if (const auto bad = find_bad_character(value))
        refuse(rules::kYamlEncoding, mark, "text without control or bidirectional characters",
               bad->reason + " " + bad->escaped + " written as an escape");
    if (expects_key()) {
      set_key(mark, value, is_quoted);
      return;
    }
    Node node;
    node.kind = Kind::kScalar;
    node.text = value;
    node.quoted = is_quoted;
    node.position = source_.position(mark);
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  [[noreturn]] void refuse_alias(const YAML::Mark& mark) const {
    std::string_view name = source_.line_at(source_.offset(mark)).substr(0, 40);
    name = name.substr(0, name.find_first_of(" ,]}"));
    refuse(rules::kYamlFeature, mark, "no aliases", "the alias " + in_quotes(name));
  }

 private:
  struct Frame {
    Node node;
    bool has_key = false;
    std::string key;
    Position key_position;
    std::unordered_map<std::string, Position> seen;
  };

  [[noreturn]] void refuse(const Rule& rule, const YAML::Mark& mark, std::string expected,
                           std::string found, std::string hint = {}) const {
    throw Refused{source_.rejection(rule, source_.position(mark), std::move(expected),
                                    std::move(found), std::move(hint))};
  }

  bool expects_key() const {
    return !stack_.empty() && stack_.back().node.kind == Kind::kMap && !stack_.back().has_key;
  }

  void check_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) refuse(rules::kYamlFeature, mark, "no anchors", "an anchor");
  }

  // yaml-cpp gives "?" to plain and "!" to quoted values; an explicit `!` looks like the latter.
  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    const bool explicit_tag = tag == "!" && source_.at(mark) == '!';
    if (tag == "?" || tag.empty() || (tag == "!" && !explicit_tag)) return;
    refuse(rules::kYamlFeature, mark, "no tags", "the tag " + in_quotes(tag));
  }

  void set_key(const YAML::Mark& mark, const std::string& key, bool is_quoted) {
    if (key == "<<" && !is_quoted)
      refuse(rules::kYamlFeature, mark, "no merge keys", "the merge key `<<`");
    Frame& frame = stack_.back();
    const Position position = source_.position(mark);
    const auto [seen, is_new] = frame.seen.emplace(key, position);
    if (!is_new)
      refuse(rules::kYamlDuplicateKey, mark, "each key once",
             "key " + in_quotes(key) + " again; it stands first at line " +
                 std::to_string(seen->second.line) + ", column " +
                 std::to_string(seen->second.column));
    frame.has_key = true;
    frame.key = key;
    frame.key_position = position;
  }

  void open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    check_anchor(mark, anchor);
    check_tag(mark, tag);
    if (expects_key())
      refuse(rules::kYamlSyntax, mark, "a key that is text",
             kind == Kind::kMap ? "a map as key" : "a list as key");
    if (stack_.size() >= kDepthCap)
      refuse(rules::kYamlTooDeep, mark, "at most " + std::to_string(kDepthCap) + " levels",
             "level " + std::to_string(kDepthCap + 1));
    Frame frame;
    frame.node.kind = kind;
    frame.node.position = source_.position(mark);
    stack_.push_back(std::move(frame));
  }

  void close() {
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
  }

  void add(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = stack_.back();
    if (parent.node.kind == Kind::kSequence) {
      parent.node.items.push_back(std::move(node));
      return;
    }
    parent.node.entries.push_back(
        Entry{std::move(parent.key), parent.key_position, std::move(node)});
    parent.has_key = false;
  }

  const Source& source_;
  std::vector<Frame> stack_;
  Node root_;
  int documents_ = 0;
};

Rejection too_large(const std::filesystem::path& file, std::size_t size) {
  return reject(rules::kYamlTooLarge, printable(file.string()),
                "at most " + std::to_string(kSizeCap) + " bytes", std::to_string(size) + " bytes");
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

std::string subject(const std::filesystem::path& file, Position position) {
  return printable(file.string()) + ":" + std::to_string(position.line) + ":" +
         std::to_string(position.column);
}

Result<Node> parse(std::string_view text, const std::filesystem::path& file) {
  if (text.size() > kSizeCap) return too_large(file, text.size());
  const Source source{text, file};
  if (Check bad = check_characters(source)) return *std::move(bad);
  if (Check bad = check_directives(source)) return *std::move(bad);

  TreeBuilder builder{source};
  try {
    MemoryBuffer buffer{source.text()};
    std::istream stream{&buffer};
    YAML::Parser parser{stream};
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refused& refused) {
    return refused.rejection;
  } catch (const YAML::ParserException& error) {
    // yaml-cpp resolves an alias before it tells us of it.
    if (source.at(error.mark) == '*' && error.msg.starts_with("the referenced anchor")) {
      try {
        builder.refuse_alias(error.mark);
      } catch (const Refused& refused) {
        return refused.rejection;
      }
    }
    return source.rejection(rules::kYamlSyntax, source.position(error.mark), "well-formed YAML",
                            printable(error.msg));
  } catch (const std::exception& error) {
    return source.rejection(rules::kYamlSyntax, Position{}, "well-formed YAML",
                            printable(error.what()));
  }
  Node root = builder.take_root();
  if (!builder.has_document() || root.kind == Kind::kNull)
    return source.rejection(rules::kYamlEmpty, Position{}, "one YAML document", "none");
  return root;
}

Result<std::string> read_text_file(const std::filesystem::path& file) {
  return read_regular_file(file, kSizeCap, rules::kYamlUnreadable, rules::kYamlTooLarge);
}

Result<Node> read(const std::filesystem::path& file) {
  Result<std::string> text = read_text_file(file);
  if (!text.ok()) return std::move(text).rejection();
  return parse(*text, file);
}

}  // namespace opmux::yaml
