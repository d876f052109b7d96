// SPDX-License-Identifier: Apache-2.0
#include "core/manifest/version.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <compare>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/rules.hpp"
#include "core/base/text.hpp"

namespace opmux {
namespace {

constexpr std::size_t kLongestText = 256;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alphanumeric(char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); }
bool is_separator(char c) { return c == '.' || c == '-' || c == '_'; }

std::string lower(std::string_view text) {
  std::string result{text};
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// Walks over a version's normalised text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  bool skip(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool skip_separator() {
    if (rest_.empty() || !is_separator(rest_.front())) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Digits that fit into a long; nothing, and nothing consumed, otherwise.
  std::optional<long> number() {
    constexpr std::size_t kMostDigits = 18;
    std::size_t digits = 0;
    while (digits < rest_.size() && is_digit(rest_[digits])) ++digits;
    if (digits == 0 || digits > kMostDigits) return std::nullopt;
    long value = 0;
    for (std::size_t i = 0; i < digits; ++i) value = value * 10 + (rest_[i] - '0');
    rest_.remove_prefix(digits);
    return value;
  }

 private:
  std::string_view rest_;
};

// One of `words` after an optional separator, with an optional number after it; `c` consumed only
// when a word is there.
template <std::size_t size>
std::optional<std::pair<std::size_t, long>> labelled(
    Cursor& cursor, const std::array<std::string_view, size>& words) {
  Cursor ahead = cursor;
  ahead.skip_separator();
  for (std::size_t i = 0; i < size; ++i) {
    if (!ahead.skip(words[i])) continue;
    Cursor with_separator = ahead;
    with_separator.skip_separator();
    long number = 0;
    if (const auto separated = with_separator.number()) {
      number = *separated;
      ahead = with_separator;
    }
    cursor = ahead;
    return std::pair{i, number};
  }
  return std::nullopt;
}

std::strong_ordering compare_local(const std::vector<std::string>& left,
                                   const std::vector<std::string>& right) {
  const auto is_number = [](const std::string& part) {
    return std::all_of(part.begin(), part.end(), is_digit);
  };
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const bool left_number = is_number(left[i]);
    if (left_number != is_number(right[i]))
      return left_number ? std::strong_ordering::greater : std::strong_ordering::less;
    // Numbers carry no leading zeros here, so a longer one is larger.
    if (left_number && left[i].size() != right[i].size()) return left[i].size() <=> right[i].size();
    if (left[i] != right[i])
      return left[i] < right[i] ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  return left.size() <=> right.size();
}

std::vector<long> without_trailing_zeros(std::vector<long> release) {
  while (release.size() > 1 && release.back() == 0) release.pop_back();
  return release;
}

bool is_prefix(const std::vector<long>& prefix, const std::vector<long>& release) {
  for (std::size_t i = 0; i < prefix.size(); ++i)
    if (prefix[i] != (i < release.size() ? release[i] : 0)) return false;
  return true;
}

Rejection no_version(std::string_view text) {
  return reject(rules::kYamlWrongForm, printable(text.substr(0, kLongestText)),
                "a version as PEP 440 writes it, e.g. 2.11.0 or 2.11.0+cu130",
                "`" + printable(text.substr(0, kLongestText)) + "`");
}

Rejection no_range(std::string_view text, const std::string& why) {
  return reject(rules::kYamlWrongForm, printable(text.substr(0, kLongestText)),
                "a range as PEP 440 writes it, e.g. \">=2.11,!=2.12.0\" or \"13.*\"",
                "`" + printable(text.substr(0, kLongestText)) + "`: " + why);
}

}  // namespace

Result<Version> Version::parse(std::string_view text) {
  if (text.size() > kLongestText) return no_version(text);
  const std::string normal = lower(trim(text));
  Version version;
  version.text_ = std::string{trim(text)};
  Cursor cursor{normal};
  cursor.skip("v");

  Cursor epoch = cursor;
  if (const auto number = epoch.number(); number && epoch.skip("!")) {
    version.epoch_ = *number;
    cursor = epoch;
  }
  const auto first = cursor.number();
  if (!first) return no_version(text);
  version.release_.push_back(*first);
  for (Cursor ahead = cursor; ahead.skip(".");) {
    const auto number = ahead.number();
    if (!number) break;
    version.release_.push_back(*number);
    cursor = ahead;
  }

  // Longer spellings first, since "a" begins "alpha" and "r" begins "rc" and "rev".
  static constexpr std::array<std::string_view, 8> pre_words{"alpha", "beta", "preview", "pre",
                                                             "rc",    "a",    "b",       "c"};
  static constexpr std::string_view pre_kinds = "abrrrabr";
  static constexpr std::array<std::string_view, 3> post_words{"post", "rev", "r"};
  static constexpr std::array<std::string_view, 1> dev_words{"dev"};
  if (const auto pre = labelled(cursor, pre_words)) {
    version.pre_kind_ = pre_kinds[pre->first];
    version.pre_ = pre->second;
  }
  Cursor implicit_post = cursor;
  if (implicit_post.skip("-")) {
    if (const auto number = implicit_post.number()) {
      version.has_post_ = true;
      version.post_ = *number;
      cursor = implicit_post;
    }
  }
  if (!version.has_post_) {
    if (const auto post = labelled(cursor, post_words)) {
      version.has_post_ = true;
      version.post_ = post->second;
    }
  }
  if (const auto dev = labelled(cursor, dev_words)) {
    version.has_dev_ = true;
    version.dev_ = dev->second;
  }
  if (cursor.skip("+")) {
    std::string part;
    for (const char c : std::string{cursor.rest()} + ".") {
      if (is_alphanumeric(c)) {
        part += c;
        continue;
      }
      if (!is_separator(c) || part.empty()) return no_version(text);
      if (std::all_of(part.begin(), part.end(), is_digit))
        part.erase(0, std::min(part.find_first_not_of('0'), part.size() - 1));
      version.local_.push_back(std::exchange(part, {}));
    }
    return version;
  }
  if (!cursor.at_end()) return no_version(text);
  return version;
}

std::string Version::base() const {
  std::string text = epoch_ == 0 ? "" : std::to_string(epoch_) + "!";
  for (std::size_t i = 0; i < release_.size(); ++i)
    text += (i == 0 ? "" : ".") + std::to_string(release_[i]);
  return text;
}

std::string Version::local() const { return join(local_, "."); }

int Version::compare(const Version& other) const {
  // PEP 440: dev < a < b < rc < final < post, each of them with a dev release before it.
  const auto key = [](const Version& version) {
    constexpr int kBeforeAll = -1;
    constexpr int kAfterAll = 0x7FFF;
    int pre_rank = kAfterAll;
    if (version.pre_kind_ != 0)
      pre_rank = static_cast<unsigned char>(version.pre_kind_);
    else if (!version.has_post_ && version.has_dev_)
      pre_rank = kBeforeAll;
    return std::tuple{version.epoch_,    without_trailing_zeros(version.release_),
                      pre_rank,          version.pre_,
                      version.has_post_, version.post_,
                      !version.has_dev_, version.dev_};
  };
  const auto left = key(*this);
  const auto right = key(other);
  if (left < right) return -1;
  if (right < left) return 1;
  const auto local = compare_local(local_, other.local_);
  return std::is_lt(local) ? -1 : (std::is_gt(local) ? 1 : 0);
}

Result<VersionRange> VersionRange::parse(std::string_view text) {
  if (text.size() > kLongestText) return no_range(text, "too long");
  VersionRange range;
  range.text_ = std::string{trim(text)};
  if (range.text_.empty()) return no_range(text, "empty");
  // Longer operators first.
  static constexpr std::array<std::string_view, 8> operators{
      "===", "==", "~=", "!=", "<=", ">=", "<", ">"};
  for (const std::string& part : split(range.text_, ',')) {
    std::string_view rest = trim(part);
    if (rest.empty()) return no_range(text, "an empty clause");
    Clause clause;
    clause.operation = "==";
    for (const std::string_view operation : operators) {
      if (!rest.starts_with(operation)) continue;
      clause.operation = operation;
      rest = trim(rest.substr(operation.size()));
      break;
    }
    if (clause.operation == "===") {
      if (rest.empty()) return no_range(text, "no version after ===");
      clause.version.text_ = std::string{rest};
      range.clauses_.push_back(std::move(clause));
      continue;
    }
    if (rest.ends_with(".*")) {
      if (clause.operation != "==" && clause.operation != "!=")
        return no_range(text, "`.*` after " + clause.operation);
      clause.wildcard = true;
      rest.remove_suffix(2);
    }
    Result<Version> version = Version::parse(rest);
    if (!version.ok()) return no_range(text, "`" + printable(rest) + "` is no version");
    clause.version = *std::move(version);
    const Version& bound = clause.version;
    if (clause.wildcard &&
        (bound.pre_kind_ != 0 || bound.has_post_ || bound.has_dev_ || !bound.local_.empty()))
      return no_range(text, "`.*` after something other than a release number");
    if (!bound.local_.empty() && clause.operation != "==" && clause.operation != "!=")
      return no_range(text, "a local version after " + clause.operation);
    if (clause.operation == "~=" && bound.release_.size() < 2)
      return no_range(text, "~= with a single release number");
    range.clauses_.push_back(std::move(clause));
  }
  return range;
}

bool VersionRange::contains(const Version& version) const {
  Version version_public = version;
  version_public.local_.clear();
  const auto meets = [&](const Clause& clause) {
    const Version& bound = clause.version;
    const auto equal = [&] {
      if (clause.wildcard)
        return version.epoch_ == bound.epoch_ && is_prefix(bound.release_, version.release_);
      // A bound without a local part does not look at the version's.
      return (bound.local_.empty() ? version_public : version).compare(bound) == 0;
    };
    const bool same_release =
        version.epoch_ == bound.epoch_ &&
        without_trailing_zeros(version.release_) == without_trailing_zeros(bound.release_);
    const bool is_pre = version.pre_kind_ != 0 || version.has_dev_;
    const bool bound_is_pre = bound.pre_kind_ != 0 || bound.has_dev_;
    if (clause.operation == "===") return lower(version.text_) == lower(bound.text_);
    if (clause.operation == "==") return equal();
    if (clause.operation == "!=") return !equal();
    if (clause.operation == "<=") return version_public.compare(bound) <= 0;
    if (clause.operation == ">=") return version_public.compare(bound) >= 0;
    if (clause.operation == "<")
      return version.compare(bound) < 0 && !(is_pre && !bound_is_pre && same_release);
    if (clause.operation == ">") {
      if (version.compare(bound) <= 0) return false;
      if (version.has_post_ && !bound.has_post_ && same_release) return false;
      return version.local_.empty() || !same_release;
    }
    // ~= V.N: at least V.N and equal to V.*
    std::vector<long> prefix = bound.release_;
    prefix.pop_back();
    return version_public.compare(bound) >= 0 && version.epoch_ == bound.epoch_ &&
           is_prefix(prefix, version.release_);
  };
  return std::all_of(clauses_.begin(), clauses_.end(), meets);
}

}  // namespace opmux
