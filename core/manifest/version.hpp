// SPDX-License-Identifier: Apache-2.0
//
// PEP 440 versions and ranges (https://peps.python.org/pep-0440). Thread safety: values.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace opmux {

class Version {
 public:
  // Rule manifest reading uses yaml.wrong_form; elsewhere discovery rules. The rejection's subject
  // is the text.
  static Result<Version> parse(std::string_view text);
  const std::string& text() const { return text_; }
  std::string base() const;   // epoch and release without pre, post, dev, local: "2.11.0"
  std::string local() const;  // "cu130" or empty

  // PEP 440 order.
  int compare(const Version& other) const;

 private:
  friend class VersionRange;
  std::string text_;
  long epoch_ = 0;
  std::vector<long> release_;
  // (-inf,) dev etc. are encoded by the implementation; see version.cpp.
  char pre_kind_ = 0;  // 'a', 'b', 'r' (rc) or 0
  long pre_ = 0;
  bool has_post_ = false;
  long post_ = 0;
  bool has_dev_ = false;
  long dev_ = 0;
  std::vector<std::string> local_;
};

// A comma-separated specifier set: ">=2.11,!=2.12.0", "13.*" (read as "==13.*").
class VersionRange {
 public:
  static Result<VersionRange> parse(std::string_view text);
  bool contains(const Version& version) const;
  const std::string& text() const { return text_; }

 private:
  struct Clause {
    std::string operation;  // == != <= >= < > ~= ===
    Version version;
    bool wildcard = false;
  };
  std::string text_;
  std::vector<Clause> clauses_;
};

}  // namespace opmux
