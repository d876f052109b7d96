// SPDX-License-Identifier: Apache-2.0
//
// The page that `opmux list --html` writes: of reports made up here, and of the command's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/html/page.hpp"
#include "cli/html/state.hpp"
#include "cli/html/text.hpp"

namespace opmux::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kEvil = "<script>alert('1')</script>\"&\x1b[31m\xe2\x80\xae";

Rejection evil_rejection() { return {kEvil, kEvil, kEvil, kEvil, kEvil, kEvil}; }

BindingReport binding(const std::string& provider, const std::string& device, bool usable = true) {
  BindingReport report;
  report.provider = provider;
  report.device = device;
  report.usable = usable;
  if (!usable)
    report.rejection =
        Rejection{"contract", "contract.schema_mismatch", "subject", "expected", "found", "hint"};
  return report;
}

// Every foreign text of a report.
Report evil_report() {
  Report report;
  report.version = kEvil;
  report.config_file = kEvil;
  report.torch_version = kEvil;
  report.torch_path = kEvil;
  report.python_version = kEvil;
  report.python_path = kEvil;
  report.driver = kEvil;
  report.devices = {{0, kEvil, kEvil}};
  report.environments = {{kEvil, kEvil}};
  report.manifests = {{kEvil, kEvil}};
  ProviderReport provider;
  provider.name = kEvil;
  report.providers = {provider};
  BindingReport evil = binding(kEvil, kEvil, false);
  evil.rejection = evil_rejection();
  evil.library = kEvil;
  evil.distribution = kEvil;
  evil.conditions = {kEvil};
  evil.alternatives = {{kEvil, kEvil, false, evil_rejection()}};
  report.operators = {{kEvil, kEvil, kEvil, {evil}}};
  report.rejections = {evil_rejection()};
  return report;
}

// What is open where it should not be: empty for a page whose elements are nested rightly.
std::string nesting_fault(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    if (page.compare(at, 2, "<!") == 0) continue;
    const bool closes = page[at + 1] == '/';
    const std::size_t begin = at + (closes ? 2 : 1);
    const std::string name = page.substr(begin, page.find_first_of(" >", begin) - begin);
    if (name == "meta" || name == "wbr") continue;
    if (!closes) {
      open.push_back(name);
      continue;
    }
    if (open.empty() || open.back() != name) return "</" + name + ">";
    open.pop_back();
  }
  return open.empty() ? "" : "<" + open.back() + ">";
}

std::string cell_of(const OperatorReport& each) {
  Report report;
  report.operators = {each};
  const std::string page = html_page(report);
  const std::size_t begin = page.find("<tbody>");
  return page.substr(begin, page.find("</tbody>") - begin);
}

TEST(HtmlText, EscapesMarkupAndWhatDisturbsATerminal) {
  EXPECT_EQ(html_text("a<b>&\"'c"), "a&lt;b&gt;&amp;&quot;&#39;c");
  EXPECT_EQ(html_text("\x1b\xe2\x80\xae\xff"), "\\x1b\\xe2\\x80\\xae\\xff");
  EXPECT_EQ(html_text("/a_b"), "/a_b");
  EXPECT_EQ(html_breakable("/a_b<"), "/<wbr>a_<wbr>b&lt;");
}

TEST(HtmlPage, ForeignTextIsNeverMarkup) {
  const std::string page = html_page(evil_report());
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("alert('1')")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(page, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_EQ(nesting_fault(page), "");
  // Once for each text above, and again where a text is shown twice.
  std::size_t shown = 0;
  const std::string escaped = "&lt;script&gt;";
  for (std::size_t at = page.find(escaped); at != std::string::npos;
       at = page.find(escaped, at + 1))
    ++shown;
  EXPECT_GE(shown, 39U);
}

TEST(HtmlPage, NeedsNothingFromElsewhereAndNoScript) {
  Report report = evil_report();
  report.environments = {{"https://example.org/", "src=https://example.org/x.js"}};
  const std::string page = html_page(report);
  EXPECT_THAT(page, HasSubstr("content=\"default-src 'none'; style-src 'unsafe-inline'\""));
  for (const char* part : {"<link", "<img", "<iframe", "url(", "@import", "@font-face", "onclick",
                           "href=\"http", "<a href=\"/"})
    EXPECT_THAT(page, Not(HasSubstr(part))) << part;
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, HasSubstr("<html lang=\"en\">"));
  EXPECT_THAT(page, HasSubstr("name=\"viewport\""));
}

TEST(HtmlPage, EmptyReportIsAPage) {
  const std::string page = html_page(Report{});
  EXPECT_EQ(nesting_fault(page), "");
  EXPECT_THAT(page, HasSubstr("<dt>torch</dt><dd>none in use</dd>"));
  EXPECT_THAT(page, HasSubstr("<dt>driver</dt><dd>none: no libcuda.so.1</dd>"));
}

TEST(HtmlPage, OperatorWithoutAProviderSaysSo) {
  Report report;
  report.operators = {{"lonely", "lonely() -> ()", "", {}}};
  EXPECT_THAT(html_page(report), HasSubstr("No provider: no native kernel"));
}

TEST(HtmlPage, TableHasHeadersForRowsAndColumns) {
  Report report;
  report.operators = {{"first", "", "", {binding("acme", "cpu")}},
                      {"second", "", "", {binding("other", "cpu")}}};
  const std::string page = html_page(report);
  for (const char* header :
       {"<th scope=\"col\">operator</th>", "<th scope=\"col\">acme</th>",
        "<th scope=\"col\">other</th>", "<th scope=\"row\"><a href=\"#operator-0\">first</a></th>",
        "id=\"operator-1\"", "role=\"region\"", "tabindex=\"0\""})
    EXPECT_THAT(page, HasSubstr(header));
  // first is not served by other, nor second by acme.
  EXPECT_THAT(cell_of({"x", "", "", {binding("acme", "cpu")}}), Not(HasSubstr(">none<")));
  std::size_t none = 0;
  for (std::size_t at = page.find(">none</span></td>"); at != std::string::npos;
       at = page.find(">none</span></td>", at + 1))
    ++none;
  EXPECT_EQ(none, 2U);
}

TEST(HtmlPage, EveryLinkLeadsSomewhere) {
  Report report = evil_report();
  report.operators.push_back({"second", "", "", {binding("a", "cpu"), binding("a", "cuda")}});
  const std::string page = html_page(report);
  std::size_t links = 0;
  for (std::size_t at = page.find("href=\"#"); at != std::string::npos;
       at = page.find("href=\"#", at + 1)) {
    const std::size_t begin = at + 7;
    const std::string target = page.substr(begin, page.find('"', begin) - begin);
    EXPECT_THAT(page, HasSubstr("id=\"" + target + "\""));
    ++links;
  }
  EXPECT_EQ(links, 5U);
}

struct StateCase {
  const char* word;
  const char* style;
  BindingReport report;
};

std::vector<StateCase> state_cases() {
  std::vector<StateCase> cases{{"usable", "usable", binding("p", "cpu")},
                               {"callable", "callable", binding("p", "cpu")},
                               {"stub driver", "stub-driver", binding("p", "cuda")},
                               {"not routed", "not-routed", binding("p", "cpu")},
                               {"not routed", "not-routed", binding("p", "cpu", false)},
                               {"rejected", "rejected", binding("p", "cpu", false)},
                               {"rejected", "rejected", binding("p", "cpu", false)}};
  cases[1].report.callable = true;
  cases[2].report.stub_driver = true;
  cases[3].report.routed = false;
  cases[3].report.callable = true;
  cases[4].report.routed = false;
  cases[4].report.rejection->rule = "registry.not_routed";
  cases[6].report.routed = false;
  return cases;
}

TEST(HtmlPage, EachStateHasItsWordInTheCellAndWithTheOperator) {
  for (const StateCase& each : state_cases()) {
    const OperatorReport report{"op", "", "", {each.report}};
    EXPECT_THAT(cell_of(report), HasSubstr("<a class=\"state " + std::string{each.style} +
                                           "\" href=\"#binding-0-0\">" + each.word + "</a>"));
    Report whole;
    whole.operators = {report};
    EXPECT_THAT(html_page(whole), HasSubstr("<strong>p</strong><span class=\"state " +
                                            std::string{each.style} + "\">" + each.word));
  }
}

TEST(HtmlPage, PlaceCountsWhatACallOnTheDeviceTries) {
  OperatorReport report{"op", "", "", {}};
  report.bindings = {binding("broken", "cpu", false), binding("first", "cpu"),
                     binding("gpu", "cuda"), binding("out", "cpu"), binding("last", "cpu")};
  report.bindings[3].routed = false;
  std::vector<std::size_t> places;
  for (const BindingReport& each : report.bindings) places.push_back(route_place(report, each));
  EXPECT_EQ(places, (std::vector<std::size_t>{0, 1, 1, 0, 2}));
  EXPECT_THAT(cell_of(report), HasSubstr("<span class=\"place\">cpu 2</span>"));
}

TEST(HtmlPage, BothBindingsOfAProviderStandInItsCell) {
  const std::string cell = cell_of({"op", "", "", {binding("p", "cpu"), binding("p", "cuda")}});
  EXPECT_THAT(cell, HasSubstr("cpu 1"));
  EXPECT_THAT(cell, HasSubstr("cuda 1"));
}

TEST(HtmlPage, RejectionIsToldInFull) {
  Report report;
  BindingReport rejected = binding("p", "cpu", false);
  rejected.rejection = Rejection{"stage!", "rule!", "subject!", "expected!", "found!", "hint!"};
  report.operators = {{"op", "", "", {rejected}}};
  EXPECT_THAT(html_page(report),
              HasSubstr("<dl>\n<dt>stage</dt><dd>stage!</dd>\n<dt>rule</dt><dd>rule!</dd>\n"
                        "<dt>subject</dt><dd>subject!</dd>\n<dt>expected</dt><dd>expected!</dd>\n"
                        "<dt>found</dt><dd>found!</dd>\n<dt>do</dt><dd>hint!</dd>\n</dl>"));
}

}  // namespace
}  // namespace opmux::cli
