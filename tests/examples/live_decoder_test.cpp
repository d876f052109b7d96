// SPDX-License-Identifier: Apache-2.0
//
// examples/decoder while its configuration and its drop-in folder are edited.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "tests/examples/running_decoder.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;

std::string config(const std::string& routes) {
  return "config: 1\nmanifests: [" OPMUX_DROP_IN "/example_provider]\nroutes: {\"*\": " + routes +
         "}\n";
}

TEST(LiveDecoder, RoutesAreEditedAndTheTokensStay) {
  RunningDecoder decoder;
  const std::string calm = decoder.calm_tokens();
  decoder.write_config(config("[native]"));
  decoder.start();
  ASSERT_TRUE(decoder.await(" silu_and_mul=native\n"));
  decoder.replace_config(config("[example_provider, native]"));
  ASSERT_TRUE(decoder.await(" silu_and_mul=example_provider\n"));
  // Wrong in two ways; the running generation serves on.
  decoder.write_config(config("[nativ]"));
  ASSERT_TRUE(decoder.await("watch, refused; "));
  ASSERT_TRUE(decoder.await("config.unknown_provider"));
  ASSERT_TRUE(decoder.await(" silu_and_mul=example_provider\n"));
  decoder.write_config(config("[native"));
  ASSERT_TRUE(decoder.await("watch, refused; "));
  ASSERT_TRUE(decoder.await("yaml.syntax"));
  ASSERT_TRUE(decoder.await(" silu_and_mul=example_provider\n"));
  decoder.write_config(config("[native]"));
  ASSERT_TRUE(decoder.await(" silu_and_mul=native\n"));
  const Outcome outcome = decoder.finish();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(RunningDecoder::tokens_of(outcome), calm);
}

TEST(LiveDecoder, FolderThatIsDroppedInServesUntilItIsMaskedOrGone) {
  RunningDecoder decoder;
  const std::string calm = decoder.calm_tokens();
  const fs::path folder = decoder.folder() / "drop-in";
  const fs::path masks = decoder.folder() / "masks";
  fs::create_directory(folder);
  fs::create_directory(masks);
  decoder.write_config("config: 1\nmanifests: [" + masks.string() + ", " + folder.string() + "]\n");
  decoder.start();
  ASSERT_TRUE(decoder.await(" silu_and_mul=native\n"));
  fs::copy(OPMUX_DROP_IN "/example_provider", folder / "example_provider",
           fs::copy_options::recursive);
  const auto dropped = std::chrono::steady_clock::now();
  ASSERT_TRUE(decoder.await(" silu_and_mul=example_provider\n"));
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - dropped;
  RecordProperty("seconds_until_served", std::to_string(waited.count()));
  EXPECT_LT(waited.count(), 1.0);

  decoder.folder().write("masks/example_provider/example_provider.yaml", "");
  ASSERT_TRUE(decoder.await(" silu_and_mul=native\n"));
  fs::remove_all(masks / "example_provider");
  ASSERT_TRUE(decoder.await(" silu_and_mul=example_provider\n"));
  fs::remove_all(folder / "example_provider");
  ASSERT_TRUE(decoder.await(" silu_and_mul=native\n"));
  const Outcome outcome = decoder.finish();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(RunningDecoder::tokens_of(outcome), calm);
}

// The only provider of a route does not take this program's calls: no edit is refused for that.
TEST(LiveDecoder, WhatWasGeneratedBeforeAnErrorIsInTheJson) {
  Command command("opmux-decoder");
  const fs::path manifest = command.folder().write(
      "providers/half.yaml",
      "manifest: 1\nprovider: half\nplugin: example_provider\noperators:\n"
      "  silu_and_mul: {module: silu_and_mul, when: {device: cpu, input: {dtype: float16}}}\n");
  fs::copy_file(OPMUX_DROP_IN "/example_provider/opmux_example_provider.so",
                manifest.parent_path() / "opmux_example_provider.so");
  const std::string head = "config: 1\nmanifests: [providers]\nroutes: {silu_and_mul: ";
  const fs::path file = command.folder().write("opmux.yaml", head + "[native]}\n");
  const fs::path socket = command.folder() / "decoder.sock";
  command.set("OPMUX_REPORT_SOCKET", socket.string());
  auto running = std::async(std::launch::async, [&] {
    return command.run(
        {"--tokens", "2000", "--delay-ms", "10", "--watch", "--json", "--config", file.string()});
  });
  while (!fs::exists(socket) &&
         running.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // for some steps
  fs::rename(command.folder().write("next.yaml", head + "[half]}\n"), file);
  const Outcome outcome = running.get();
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_GT(json.at("tokens").size(), 0u);
  EXPECT_EQ(json.at("tokens").size(), json.at("steps").size());
  EXPECT_EQ(json.at("tokens").at(0), 92) << "that of every run";
  EXPECT_FALSE(json.at("smallest_margin").is_null());
  EXPECT_NE(json.value("error", ""), "");
  EXPECT_TRUE(json.contains("rejection"));
  EXPECT_EQ(json.at("changes").back().at("outcome"), "published");
}

}  // namespace
}  // namespace opmux::testing
