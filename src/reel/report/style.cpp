#include "reel/report/style.h"

namespace reel::report {

std::string_view style_sheet() {
  return R"css(:root {
  --page: #ffffff; --panel: #f6f7f9; --text: #1d2127; --quiet: #656d78; --rule: #e3e6ea; --grid: #eceef1;
  --notice: #fff7e6; --notice-edge: #d99a1c;
  --c0: #2368d1; --c1: #d4581b; --c2: #268764; --c3: #8150cb; --c4: #bf3661; --c5: #a37f00; --c6: #1787a5; --c7: #7b828c;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #14161a; --panel: #1c1f25; --text: #e3e6ea; --quiet: #98a0ab; --rule: #2d3139; --grid: #23272e;
    --notice: #2a2415; --notice-edge: #d9a53a;
    --c0: #6aa5fb; --c1: #f08f5a; --c2: #57bf97; --c3: #b493f5; --c4: #ee7ba0; --c5: #d8b53c; --c6: #55bfdb; --c7: #9aa1ab;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 48px 32px 96px; }
h1 { margin: 0; font-size: 30px; font-weight: 650; line-height: 1.2; letter-spacing: -0.015em; }
h2 { margin: 0 0 16px; font-size: 20px; font-weight: 650; letter-spacing: -0.01em; }
h3 { margin: 0 0 10px; font-size: 14px; font-weight: 600; }
p { margin: 0 0 16px; max-width: 72ch; }
section { margin-top: 56px; }
.subtitle { margin: 6px 0 0; color: var(--quiet); }
h1, h2, h3, p, li, dd, dt, figcaption { overflow-wrap: break-word; }

.headline {
  display: flex; flex-wrap: wrap; gap: 1px; margin: 32px 0 0;
  border: 1px solid var(--rule); border-radius: 8px; background: var(--rule); overflow: hidden;
}
.headline div { flex: 1 1 auto; white-space: nowrap; padding: 14px 18px 12px; background: var(--page); }
.headline dt { font-size: 13px; color: var(--quiet); }
.headline dd { margin: 2px 0 0; font-size: 22px; font-weight: 600; letter-spacing: -0.01em; font-variant-numeric: tabular-nums; }

.notices { margin: 24px 0 0; padding: 12px 18px; list-style: none; background: var(--notice); border-left: 3px solid var(--notice-edge); border-radius: 4px; font-size: 14px; }
.notices li + li { margin-top: 4px; }

.facts { margin: 0 0 16px; font-size: 14px; }
.facts div { display: flex; gap: 16px; justify-content: space-between; padding: 7px 0; border-bottom: 1px solid var(--rule); }
.facts dt { color: var(--quiet); flex: none; max-width: 50%; }
.facts dd { margin: 0; text-align: right; min-width: 0; font-variant-numeric: tabular-nums; }

.wide { overflow-x: auto; margin: 0 0 24px; }
table { border-collapse: collapse; min-width: min(100%, 480px); font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--quiet); border-bottom: 1px solid var(--quiet); }
td { border-bottom: 1px solid var(--rule); }
th, td { padding: 7px 32px 7px 0; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
.number { text-align: right; white-space: nowrap; }

details { border: 1px solid var(--rule); border-radius: 8px; }
summary { padding: 10px 18px; cursor: pointer; font-size: 14px; font-weight: 600; }
pre { margin: 0; padding: 14px 18px; overflow-x: auto; border-top: 1px solid var(--rule); background: var(--panel); font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }

.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 32px 40px; margin-bottom: 32px; }
.grid > div { min-width: 0; }
.images { display: flex; flex-wrap: wrap; gap: 16px; }
.images figure { margin: 0; max-width: 100%; }
.images img { display: block; max-width: 100%; height: auto; border-radius: 4px; }
.images figcaption { margin-top: 6px; font-size: 13px; color: var(--quiet); }

.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); } .c7 { --c: var(--c7); }
.chart { margin: 0 0 28px; }
.grid .chart { margin: 0; }
.chart figcaption { display: flex; flex-wrap: wrap; gap: 2px 20px; align-items: baseline; }
.chart .name { font-size: 14px; font-weight: 600; }
.keys { display: flex; flex-wrap: wrap; gap: 2px 16px; align-items: center; font-size: 13px; color: var(--quiet); font-variant-numeric: tabular-nums; }
.key::before { content: ""; display: inline-block; width: 12px; height: 3px; margin-right: 6px; border-radius: 2px; vertical-align: 4px; background: var(--c); }
.ramp { width: 140px; height: 10px; margin: 0 -8px; border-radius: 2px; }
.note { margin: 4px 0 0; font-size: 13px; color: var(--quiet); }
.chart svg { overflow: visible; }
.chart > svg { display: block; width: 100%; font-size: 12px; font-variant-numeric: tabular-nums; }
.chart text { fill: var(--text); }
.chart .mid { text-anchor: middle; } .chart .end { text-anchor: end; }
.chart .tick, .chart .empty { fill: var(--quiet); }
.chart .empty { text-anchor: middle; }
.chart .rule { stroke: var(--grid); }
.chart .base { stroke: var(--quiet); stroke-opacity: 0.5; }
.curve, .raw, .dots { fill: none; stroke: var(--c); vector-effect: non-scaling-stroke; stroke-linejoin: round; stroke-linecap: round; }
.curve { stroke-width: 1.75px; }
.raw { stroke-width: 1px; stroke-opacity: 0.28; }
.dots { stroke-width: 5.5px; }
.chart .last { fill: var(--c); font-weight: 600; }
.chart line.reference { stroke: var(--quiet); stroke-dasharray: 4 4; }
.chart text.reference { fill: var(--quiet); paint-order: stroke; stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; }
.bar { fill: var(--c); }
.bar.quiet { fill: var(--quiet); fill-opacity: 0.45; }
.bar.gap { stroke: var(--page); stroke-width: 1px; }
.chart .label, .chart .value { paint-order: stroke; stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; }
.chart .label { font-size: 13px; }
.chart .value { font-weight: 600; }
.chart .void { fill: var(--grid); }
.cells rect { fill: transparent; }
.cells rect:hover { stroke: var(--text); stroke-width: 1.5px; }
.readouts > g { opacity: 0; }
.readouts > g:hover { opacity: 1; }
.readouts rect { fill: transparent; }
.readouts line { stroke: var(--quiet); stroke-opacity: 0.6; pointer-events: none; }
.readouts circle { fill: var(--c); stroke: var(--page); stroke-width: 1.5px; pointer-events: none; }
.readouts text { text-anchor: end; pointer-events: none; paint-order: stroke; stroke: var(--page); stroke-width: 4px; }

.clips { display: flex; flex-wrap: wrap; gap: 32px 40px; }
.clips .sampled { flex: 1 1 560px; min-width: 0; }
.clips .real { flex: 0 1 298px; position: sticky; top: 24px; align-self: flex-start; }
.clips h3 { color: var(--text); }
.clips .row { display: flex; gap: 18px; margin-bottom: 14px; }
.clips .row > span { flex: none; width: var(--label); padding-top: 2px; white-space: nowrap; font-size: 13px; color: var(--quiet); text-align: right; font-variant-numeric: tabular-nums; }
.clips .row > div { display: flex; flex-wrap: wrap; gap: 10px; }
.clips.rows, .clips.rows .row, .clips.rows .row > span { display: block; }
.clips.rows .row > span { width: auto; padding: 10px 0 4px; text-align: left; }
.clips figure { --w: var(--wide); margin: 0; width: var(--w); }
.clips figcaption { margin-top: 3px; font-size: 12px; line-height: 1.35; color: var(--quiet); }
.clip { width: var(--w); overflow: hidden; border-radius: 3px; background: var(--panel); }
.clip img { display: block; width: calc(var(--w) * var(--frames)); max-width: none; height: 100%; animation: play 1s infinite; }
.clip.sharp img { image-rendering: pixelated; }
.clip:hover img { animation-play-state: paused; }
@keyframes play { to { transform: translateX(-100%); } }
@property --shift { syntax: "<percentage>"; inherits: true; initial-value: 0%; }
@keyframes together { to { --shift: -100%; } }
.clips.rows { animation: together 1s infinite; }
.clips.rows:hover { animation-play-state: paused; }
.clips.rows .clip img { animation: none; transform: translateX(var(--shift)); }

@media (max-width: 600px) {
  main { padding: 28px 16px 64px; }
  h1 { font-size: 24px; }
  section { margin-top: 40px; }
  .headline div { flex: 1 1 40%; padding: 10px 14px 9px; }
  .headline dd { font-size: 19px; }
  .readouts text { font-size: 11px; }
  .clips .real { flex-basis: 100%; position: static; }
  .clips.rows, .clips.rows .row, .clips.rows .row > span { display: block; }
.clips.rows .row > span { width: auto; padding: 10px 0 4px; text-align: left; }
.clips figure { --w: var(--small); }
  .clips .row { display: block; }
  .clips .row > span { display: block; width: auto; padding-bottom: 4px; text-align: left; }
}
@media (prefers-reduced-motion: reduce) { .clip img, .clips.rows { animation: none; } }
@media print {
  main { max-width: none; padding: 0; }
  section { margin-top: 28px; }
  .grid { grid-template-columns: 1fr 1fr; }
  figure, .headline, .notices, .facts div, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .clip img, .clips.rows { animation: none; }
  body, svg, .ramp { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";
}

}  // namespace reel::report
