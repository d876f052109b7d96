// SPDX-License-Identifier: Apache-2.0
//
// examples/decoder while its configuration and its drop-in folder are edited.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

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

}  // namespace
}  // namespace opmux::testing
