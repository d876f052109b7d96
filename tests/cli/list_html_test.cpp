// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cli/command.hpp"

namespace opmux::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Fields = std::array<std::string, 6>;

std::string content_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The text of an element's content.
std::string shown(std::string html) {
  for (const auto& [mark, text] : {std::pair<const char*, const char*>{"<wbr>", ""},
                                   {"&lt;", "<"},
                                   {"&gt;", ">"},
                                   {"&quot;", "\""},
                                   {"&#39;", "'"},
                                   {"&amp;", "&"}}) {
    const std::string wanted = mark;
    for (std::size_t at = html.find(wanted); at != std::string::npos;
         at = html.find(wanted, at + std::string{text}.size()))
      html.replace(at, wanted.size(), text);
  }
  return html;
}

std::vector<Fields> rejections_in_page(const std::string& page) {
  std::vector<Fields> all;
  const std::string start = "<details class=\"rejection\">";
  for (std::size_t at = page.find(start); at != std::string::npos; at = page.find(start, at + 1)) {
    Fields fields;
    std::size_t from = at;
    for (std::string& field : fields) {
      from = page.find("<dd>", from) + 4;
      field = shown(page.substr(from, page.find("</dd>", from) - from));
    }
    all.push_back(fields);
  }
  return all;
}

void collect(const nlohmann::json& rejection, std::vector<Fields>& all) {
  all.push_back({rejection.at("stage"), rejection.at("rule"), rejection.at("subject"),
                 rejection.at("expected"), rejection.at("found"), rejection.at("hint")});
}

std::vector<Fields> rejections_in_report(const nlohmann::json& report) {
  std::vector<Fields> all;
  for (const nlohmann::json& each : report.at("rejections")) collect(each, all);
  for (const nlohmann::json& each : report.at("operators"))
    for (const nlohmann::json& binding : each.at("bindings")) {
      if (binding.contains("rejection")) collect(binding.at("rejection"), all);
      for (const nlohmann::json& lost : binding.at("alternatives"))
        if (lost.contains("rejection")) collect(lost.at("rejection"), all);
    }
  return all;
}

class ListHtmlTest : public ::testing::Test {
 protected:
  fs::path file() const { return command_.folder() / "page.html"; }
  Command command_;
};

TEST_F(ListHtmlTest, TellsExactlyTheRejectionsOfTheReport) {
  command_.folder().write("drop-in/evil.yaml",
                          "manifest: 1\nprovider: \"<script>alert(1)</script>\"\nplugin: \"&\"\n");
  const Outcome outcome = command_.run({"list", "--json", "--html", file().string(), "--manifests",
                                        (command_.folder() / "drop-in").string()});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<Fields> expected = rejections_in_report(outcome.json());
  const std::string page = content_of(file());
  std::vector<Fields> found = rejections_in_page(page);
  std::sort(expected.begin(), expected.end());
  std::sort(found.begin(), found.end());
  EXPECT_GT(expected.size(), 20U);
  EXPECT_EQ(found, expected);
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)"));
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

TEST_F(ListHtmlTest, NativeIsCallableAndFirst) {
  const Outcome outcome = command_.run({"list", "--html", file().string()});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("page.html shows"));
  const std::string page = content_of(file());
  const std::size_t row = page.find(">rms_norm</a></th>");
  ASSERT_NE(row, std::string::npos);
  const std::string cells = page.substr(row, page.find("</tr>", row) - row);
  EXPECT_THAT(cells, HasSubstr(">callable</a> <span class=\"place\">cpu 1</span>"));
}

TEST_F(ListHtmlTest, FileIsReplacedWholeOrNotAtAll) {
  command_.folder().write("page.html", "older");
  fs::create_hard_link(file(), command_.folder() / "held");
  EXPECT_EQ(command_.run({"list", "--html", file().string()}).code, 0);
  EXPECT_THAT(content_of(file()), HasSubstr("<!DOCTYPE html>"));
  EXPECT_EQ(content_of(command_.folder() / "held"), "older") << "written in place, not renamed";

  fs::create_directory(command_.folder() / "folder");
  const Outcome folder = command_.run({"list", "--html", (command_.folder() / "folder").string()});
  EXPECT_EQ(folder.code, 1);
  EXPECT_THAT(folder.err, HasSubstr("--html: cannot replace"));
  const Outcome missing =
      command_.run({"list", "--html", (command_.folder() / "no" / "page.html").string()});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("--html: cannot open the folder"));
  EXPECT_THAT(missing.err, HasSubstr("No such file or directory"));
}

TEST_F(ListHtmlTest, EmptyFileNameIsWrongUsage) {
  EXPECT_EQ(command_.run({"list", "--html", ""}).code, 2);
}

}  // namespace
}  // namespace opmux::testing
