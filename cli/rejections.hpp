// SPDX-License-Identifier: Apache-2.0
//
// Rejections as text: those that say the same about several subjects are told once.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "opmux/status.hpp"

namespace opmux::cli {

class RejectionList {
 public:
  // The number under which the rejection will be told, from 1.
  std::size_t add(const Rejection& rejection);
  bool empty() const { return groups_.empty(); }
  void print() const;

 private:
  struct Group {
    Rejection first;
    std::vector<std::string> subjects;  // distinct, in order
    std::size_t count = 0;
  };
  std::vector<Group> groups_;
};

// "trust.writable: /srv/opmux_x.so: expected no write permission ..., found it has mode 0775": on
// one line, all that tells what was refused and why. As it is: foreign text is made safe by who
// prints it.
std::string in_short(const Rejection& rejection);

nlohmann::ordered_json as_json(const Rejection& rejection);

// All fields of one rejection, on lines that begin with `indent` spaces.
void print_rejection(const Rejection& rejection, std::size_t indent);

}  // namespace opmux::cli
