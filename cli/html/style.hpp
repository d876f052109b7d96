// SPDX-License-Identifier: Apache-2.0
//
// The page's look. Colours of text have a contrast of at least 4.5 to 1 in both schemes; states are
// words, so that none hangs on a colour.
#pragma once

namespace opmux::cli {

inline constexpr const char* kStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --raised: #f4f5f7; --text: #1b1f24; --faint: #57606a; --line: #d0d7de; --link: #0550ae;
  --good: #116329; --good-back: #dafbe1; --fine: #0550ae; --fine-back: #ddf4ff;
  --bad: #a40e26; --bad-back: #ffebe9; --off: #57606a; --off-back: #eaeef2; --stub: #7d4e00; --stub-back: #fff3c9;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0d1117; --raised: #161b22; --text: #e6edf3; --faint: #9aa4af; --line: #30363d; --link: #79c0ff;
    --good: #7ee787; --good-back: #12331d; --fine: #a5d6ff; --fine-back: #0f2d4d;
    --bad: #ffa198; --bad-back: #451a1a; --off: #9aa4af; --off-back: #21262d; --stub: #f2cc60; --stub-back: #3a2d00;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 100rem; background: var(--page); color: var(--text);
  font: 0.9375rem/1.5 system-ui, sans-serif; overflow-wrap: break-word;
}
h1 { margin: 0 0 1rem; font-size: 1.5rem; }
h2 { margin: 2.5rem 0 0.75rem; font-size: 1.2rem; }
h3 { margin: 0; font-size: 1rem; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
code, h3, th[scope=row], .path { font-family: ui-monospace, monospace; font-size: 0.9em; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.25rem 1rem; margin: 0; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
ul { margin: 0; padding: 0; list-style: none; }
.faint { color: var(--faint); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: separate; border-spacing: 0; width: 100%; }
caption { padding: 0.5rem 0.75rem; text-align: left; color: var(--faint); }
th, td { padding: 0.4rem 0.75rem; border-top: 1px solid var(--line); text-align: left; vertical-align: top; white-space: nowrap; }
thead th { background: var(--raised); }
tbody th { position: sticky; left: 0; background: var(--page); border-right: 1px solid var(--line); font-weight: 600; }
thead th:first-child { position: sticky; left: 0; z-index: 1; border-right: 1px solid var(--line); }
td > div + div { margin-top: 0.3rem; }
.state { display: inline-block; padding: 0 0.5em; border-radius: 1em; font-size: 0.85em; line-height: 1.6; white-space: nowrap; text-decoration: none; }
a.state:hover { text-decoration: underline; }
.callable { color: var(--good); background: var(--good-back); }
.usable { color: var(--fine); background: var(--fine-back); }
.stub-driver { color: var(--stub); background: var(--stub-back); }
.not-routed { color: var(--off); background: var(--off-back); }
.rejected { color: var(--bad); background: var(--bad-back); }
.place { font-size: 0.85em; color: var(--faint); }
.legend { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.25rem 0.75rem; margin: 0.75rem 0; font-size: 0.9em; }
.operator { padding: 1rem 0; border-top: 1px solid var(--line); }
.operator > p { margin: 0.15rem 0; }
.bindings > li { margin-top: 0.5rem; padding: 0.5rem 0.75rem; background: var(--raised); border-radius: 6px; border: 1px solid transparent; }
.bindings > li:target, .operator:target { border-color: var(--link); }
.line { display: flex; flex-wrap: wrap; gap: 0.25rem 0.75rem; align-items: baseline; }
details { margin-top: 0.25rem; }
dd > details { margin-top: 0; }
.none { font-size: 0.85em; color: var(--faint); }
details details { margin-left: 1rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
details > dl, details > ul { margin: 0.5rem 0 0.5rem 1rem; }
.rejection dd { white-space: pre-wrap; }
@media (max-width: 48rem) {
  body { padding: 1rem 0.75rem; }
  .matrix { display: none; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: 0.4rem; }
}
@media print { .scroll { overflow: visible; } }
)css";

}  // namespace opmux::cli
