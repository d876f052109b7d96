// SPDX-License-Identifier: Apache-2.0
#include "cli/watch/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/watch/read_report.hpp"
#include "core/base/text.hpp"

namespace opmux::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BindingReport binding(const std::string& provider, std::uint64_t calls) {
  BindingReport report;
  report.provider = provider;
  report.device = "cpu";
  report.contract = "module";
  report.usable = report.callable = true;
  report.calls = calls;
  return report;
}

Report report_of(std::vector<BindingReport> bindings) {
  Report report;
  report.version = "0.1.0";
  report.program = "/usr/bin/program";
  report.process_id = 42;
  report.generation = 3;
  report.operators.push_back({"rms_norm", "rms_norm() -> ()", "", std::move(bindings)});
  return report;
}

std::string text_of(const Report& report, const EarlierReport& earlier = {},
                    const ViewOptions& options = {}) {
  return join(view(report, earlier, options), "\n") + "\n";
}

TEST(WatchViewTest, TellsWhyCallsWentElsewhere) {
  BindingReport first = binding("vllm_cpu", 5);
  first.refused = 4;
  first.refused_by_condition = 3;
  first.refused_by_provider = 1;
  first.copied = 1;
  first.errors = 2;
  first.quarantined = 6;
  first.shadow_calls = 10;
  first.shadow_differences = 2;
  first.quarantine =
      Rejection{"call", "call.quarantined", "rms_norm", "no failures", "3 failures", ""};
  const std::string text = text_of(report_of({first, binding("native", 9)}));
  EXPECT_THAT(text, HasSubstr("\n      fell back: 3 by condition, 1 by provider\n"));
  EXPECT_THAT(text, HasSubstr("\n      1 output copied\n"));
  EXPECT_THAT(text, HasSubstr("\n      2 calls failed\n"));
  EXPECT_THAT(text, HasSubstr("\n      in quarantine: call.quarantined: rms_norm: expected no "
                              "failures, found 3 failures\n"));
  EXPECT_THAT(text, HasSubstr("\n      6 calls passed it by in quarantine\n"));
  EXPECT_THAT(text, HasSubstr("\n      shadow: 10 compared, 2 differ, 0 failed\n"));
  EXPECT_THAT(text, HasSubstr("\n    vllm_cpu ")) << "what is in quarantine serves nobody";
  EXPECT_THAT(text, HasSubstr("\n  > native "));
}

TEST(WatchViewTest, RatesAreOfTheTimeBetween) {
  const Report before = report_of({binding("native", 1000)});
  const Report now = report_of({binding("native", 4000)});
  EXPECT_THAT(text_of(now, {&before, &before, 2.0}),
              HasSubstr("cpu        1.50k           4000\n"));
  EXPECT_THAT(text_of(before, {&now, &now, 2.0}), HasSubstr("cpu            -           1000\n"))
      << "a count that went down is another program's";
}

TEST(WatchViewTest, ShowsOperatorsWhoseServerChanged) {
  const Report first = report_of({binding("vllm_cpu", 0), binding("native", 0)});
  EXPECT_THAT(text_of(first, {&first, nullptr, 0.0}), Not(HasSubstr("rms_norm")));
  EXPECT_THAT(text_of(first, {&first, nullptr, 0.0}, {100, 0, true}), HasSubstr("rms_norm"));
  Report now = first;
  now.operators[0].bindings[0].callable = false;
  EXPECT_THAT(text_of(now, {&first, nullptr, 0.0}), HasSubstr("rms_norm\n  > native"));
}

TEST(WatchViewTest, AnOperatorThatNobodyServesSaysSo) {
  const Report first = report_of({binding("native", 0)});
  Report now = first;
  now.operators[0].bindings[0].routed = false;
  EXPECT_THAT(text_of(now, {&first, nullptr, 0.0}), HasSubstr("rms_norm\n    nobody serves it\n"));
}

TEST(WatchViewTest, EveryDeviceHasItsServer) {
  BindingReport on_cuda = binding("vllm", 1);
  on_cuda.device = "cuda";
  const std::string text = text_of(report_of({on_cuda, binding("native", 1)}));
  EXPECT_THAT(text, HasSubstr("\n  > vllm "));
  EXPECT_THAT(text, HasSubstr("\n  > native "));
}

TEST(WatchViewTest, KeepsToWidthAndHeight) {
  Report report = report_of({binding("native", 1)});
  report.torch_version = "2.11.0";
  report.torch_path = std::string(300, 'p');
  report.rejections.push_back({"s", "manifest.version", std::string(90, 'm'), "e", "f", "h"});
  for (int change = 0; change < 20; ++change) {
    report.history.push_back(
        {3, "reload", "refused", report.rejections, "2026-01-01T00:00:00.000Z", 0.5, 0.0});
  }
  for (const std::size_t width : {20u, 40u, 80u, 200u}) {
    const std::vector<std::string> lines = view(report, {}, {width, 12, true});
    EXPECT_EQ(lines.size(), 12u);
    for (const std::string& line : lines) EXPECT_LE(columns_of(line), width) << line;
    EXPECT_THAT(lines.back(), HasSubstr("lines below"));
  }
  EXPECT_THAT(text_of(report), HasSubstr("14 earlier changes: --all"));
}

TEST(WatchViewTest, FoldsAtSpacesAndKeepsCodes) {
  EXPECT_THAT(folded("abcdef", 3, 0), ElementsAre("abc", "def"));
  EXPECT_THAT(folded("abc", 3, 0), ElementsAre("abc"));
  EXPECT_THAT(folded("one two three", 8, 0), ElementsAre("one two", "three"));
  EXPECT_THAT(folded("one two", 3, 0), ElementsAre("one", "two"));
  EXPECT_THAT(folded("  one two three", 10, 2), ElementsAre("  one two", "  three"));
  EXPECT_THAT(folded("\033[1mone two\033[0m x", 4, 0),
              ElementsAre("\033[1mone\033[0m", "\033[1mtwo\033[0m", "x"));
  EXPECT_THAT(folded("ä€x", 2, 0), ElementsAre("ä€", "x"));
  EXPECT_THAT(folded("\033[1", 9, 0), ElementsAre("\033[1")) << "a code that does not end";
  EXPECT_THAT(folded("", 9, 2), ElementsAre(""));
}

TEST(WatchViewTest, ShortensPathsInTheMiddle) {
  const std::string path = "/srv/opmux/providers/acme/opmux_acme.yaml:12:3";
  EXPECT_EQ(shortened(path, 100), path);
  EXPECT_EQ(shortened(path, 30), "/srv/opm…/opmux_acme.yaml:12:3");
  EXPECT_EQ(columns_of(shortened(path, 23)), 23u);
  EXPECT_THAT(shortened(path, 12), ::testing::EndsWith("12:3")) << "the position stays longest";
  EXPECT_EQ(shortened("äöüäöü", 3), "ä…ü");
}

// A reason is what somebody watches for: nothing of it is lost, however long and narrow.
TEST(WatchViewTest, ReasonsAreWholeInEveryWidth) {
  Report report = report_of({binding("native", 1)});
  const std::string subject = "/srv/" + std::string(150, 's') + "/opmux_acme.yaml:12:3";
  const std::string found =
      "an unknown key, of which a good deal is said in many words " + std::string(90, 'f') + " end";
  report.rejections.push_back({"yaml", "yaml.unknown_key", subject, "only known keys", found, ""});
  report.history.push_back(
      {3, "watch", "refused", report.rejections, "2026-01-01T00:00:00.000Z", 0.5, 0.0});
  const std::string all =
      "yaml.unknown_key: " + subject + ": expected only known keys, found " + found;
  const auto without_space = [](std::string text) {
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    return text;
  };
  for (const std::size_t width : {0u, 20u, 50u, 80u, 200u}) {
    const std::string text = text_of(report, {}, {width, 0, false});
    EXPECT_THAT(without_space(text), HasSubstr("refused" + without_space(all))) << width;
    EXPECT_THAT(without_space(text), HasSubstr("0.500s" + without_space(all))) << width;
  }
  EXPECT_THAT(text_of(report, {}, {0, 0, false}), HasSubstr("refused     " + all + "\n"))
      << "no terminal, no fold";
}

TEST(WatchViewTest, CountsStayWhereTheTerminalIsNarrow) {
  const Report report = report_of({binding("a_provider_with_a_long_name", 1234567890)});
  for (const std::size_t width : {20u, 25u, 30u, 40u, 50u, 59u}) {
    const std::vector<std::string> lines = view(report, {}, {width, 0, false});
    EXPECT_THAT(lines, Contains(::testing::AllOf(::testing::StartsWith("  > a"),
                                                 ::testing::EndsWith(" 1234567890"))))
        << width;
    EXPECT_THAT(lines, Contains(::testing::AllOf(::testing::StartsWith("OPERATOR"),
                                                 ::testing::EndsWith(" CALLS"))))
        << width;
  }
  EXPECT_THAT(text_of(report, {}, {60, 0, false}), HasSubstr("CALLS/S"));
}

TEST(WatchViewTest, QuarantineNamesWhatItIsAbout) {
  BindingReport out = binding("one", 1);
  out.quarantine = Rejection{"call",        "call.quarantined",           "rms_norm by one",
                             "no failures", "3 failures\n  of them: all", ""};
  EXPECT_THAT(text_of(report_of({out}), {}, {0, 0, false}),
              HasSubstr("in quarantine: call.quarantined: rms_norm by one: expected no failures, "
                        "found 3 failures; of them: all\n"));
}

TEST(WatchViewTest, RatesInWords) {
  EXPECT_EQ(rate_in_words(0.0), "0");
  EXPECT_EQ(rate_in_words(9.54), "9.5");
  EXPECT_EQ(rate_in_words(123.4), "123");
  EXPECT_EQ(rate_in_words(1500.0), "1.50k");
  EXPECT_EQ(rate_in_words(12345.0), "12.3k");
  EXPECT_EQ(rate_in_words(4560000.0), "4.56M");
  EXPECT_EQ(rate_in_words(123456789.0), "123M");
}

// What the view shows comes through JSON whole.
TEST(ReadReportTest, ReadsWhatAReportSays) {
  BindingReport bound = binding("native", 7);
  bound.refused_by_condition = 1;
  bound.refused_by_provider = 2;
  bound.refused = 3;
  bound.quarantined = 4;
  bound.errors = 5;
  bound.copied = 6;
  bound.shadow_calls = 8;
  bound.shadow_differences = 9;
  bound.shadow_errors = 10;
  bound.quarantine = Rejection{"call", "call.quarantined", "a", "b", "c", "d"};
  Report report = report_of({bound});
  report.ready = false;
  report.strict = true;
  report.torch_version = "2.11.0";
  report.torch_path = "/t";
  report.cuda_version = "13.0";
  report.config_file = "/c";
  report.modules.push_back({"/m", "draining", true, 3});
  report.history.push_back({3, "reload", "refused", {*bound.quarantine}, "t", 0.5, 0.25});
  report.rejections.push_back(*bound.quarantine);
  const ReadReport read = read_report(to_json(report));
  ASSERT_TRUE(read.report.has_value()) << read.problem;
  EXPECT_EQ(text_of(*read.report, {}, {200, 0, true}), text_of(report, {}, {200, 0, true}));
  const BindingReport& found = read.report->operators.at(0).bindings.at(0);
  EXPECT_EQ(found.refused_by_provider, 2u);
  EXPECT_EQ(found.shadow_errors, 10u);
  EXPECT_EQ(found.quarantine->found, "c");
  EXPECT_EQ(read.report->modules.at(0).calls_inside, 3);
  EXPECT_EQ(read.report->history.at(0).reasons.at(0).rule, "call.quarantined");
}

}  // namespace
}  // namespace opmux::cli
