// SPDX-License-Identifier: Apache-2.0
//
// A decoder that runs with --watch while a test edits what it reads.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>

#include "tests/cli/command.hpp"

namespace opmux::testing {

class RunningDecoder {
 public:
  const TemporaryFolder& folder() const { return command_.folder(); }

  void write_config(const std::string& content) { folder().write("opmux.yaml", content); }
  // As editors save: another file takes the name.
  void replace_config(const std::string& content) {
    std::filesystem::rename(folder().write("next.yaml", content), folder() / "opmux.yaml");
  }

  // Some seconds: each step is awaited by what it prints, and the rest is for slow machines.
  void start() {
    std::filesystem::remove(folder() / "stdout");  // of an earlier run
    running_ = std::async(std::launch::async, [this] {
      return command_.run({"--tokens", "700", "--delay-ms", "5", "--watch", "--config",
                           (folder() / "opmux.yaml").string()});
    });
  }
  // Until the program has printed `text` behind what was awaited before.
  ::testing::AssertionResult await(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end) {
      std::ifstream stream(folder() / "stdout");
      std::string out{std::istreambuf_iterator<char>(stream), {}};
      out.resize(out.rfind('\n') + 1);  // whole lines only
      const std::size_t at = out.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return ::testing::AssertionSuccess();
      }
      if (running_.wait_for(std::chrono::milliseconds(10)) == std::future_status::ready) {
        const Outcome outcome = running_.get();
        return ::testing::AssertionFailure()
               << "it ended before `" << text << "`, with " << outcome.code << "\n"
               << outcome.out << outcome.err;
      }
    }
    return ::testing::AssertionFailure() << "waited in vain for `" << text << "`";
  }
  Outcome finish() { return running_.get(); }

  // The tokens of a run of the same length on native kernels, without any change.
  std::string calm_tokens() const {
    const auto file = folder().write("calm.yaml", "config: 1\nroutes: {\"*\": [native]}\n");
    return tokens_of(command_.run({"--tokens", "700", "--config", file.string()}));
  }
  // The line of tokens at the end of the output.
  static std::string tokens_of(const Outcome& outcome) {
    const std::size_t begin = outcome.out.rfind("\ntokens ");
    if (begin == std::string::npos) return "no tokens: " + outcome.out + outcome.err;
    return outcome.out.substr(begin + 1, outcome.out.find('\n', begin + 1) - begin - 1);
  }

 private:
  Command command_{"opmux-decoder"};
  std::future<Outcome> running_;
  std::size_t seen_ = 0;
};

}  // namespace opmux::testing
