// SPDX-License-Identifier: Apache-2.0
//
// Starts a program of build/bin with an environment of its own: no Python environment, no
// configuration, an empty cache.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace opmux::testing {

struct Outcome {
  int code = -1;  // 128 + the signal where one ended it
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

class Command {
 public:
  explicit Command(std::string program = "opmux");

  Outcome run(const std::vector<std::string>& arguments) const;
  // The same with another file for the program.
  Outcome run_program(const std::string& program, const std::vector<std::string>& arguments) const;

  const TemporaryFolder& folder() const { return folder_; }
  void set(const std::string& variable, const std::string& value) { variables_[variable] = value; }

 private:
  std::string program_;
  TemporaryFolder folder_;
  std::map<std::string, std::string> variables_;
};

// The operator of that name in a report; ends the test when there is none.
nlohmann::json operator_in(const nlohmann::json& report, const std::string& name);
// A provider's binding of an operator.
nlohmann::json binding_in(const nlohmann::json& report, const std::string& name,
                          const std::string& provider);

}  // namespace opmux::testing
