"""How a report looks: light, dark, narrow, and on a sheet of A4."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1f; --soft: #55555e; --line: #c9c9d1; --back: #fff;
  --raised: #f4f4f7; --fault: #b3261e; --clean: #1c6b3c; --undecided: #8a5a00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6ea; --soft: #a9a9b4; --line: #44444d; --back: #18181b; --raised: #242429;
    --fault: #ff8a7a; --clean: #7fd6a0; --undecided: #f0c060; }
}
body { font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 78rem; margin: 1rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 .5rem; }
p { margin: .3rem 0; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .87rem; }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left;
  vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th { background: var(--raised); font-weight: 600; }
.wide { overflow-x: auto; }
.grade { color: #1b1b1f; border-radius: 3px; padding: 0 .35rem; border: 1px solid #0003; }
.soft { color: var(--soft); }
code, pre { font: .85rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere;
  white-space: pre-wrap; margin: .2rem 0; }
details { border: 1px solid var(--line); border-radius: 4px; margin: .4rem 0;
  padding: .3rem .7rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.lead { border-left: 4px solid #1a56db; padding-left: 1rem; margin: 1rem 0; }
.first { display: grid; gap: 1rem; align-items: start; margin: .8rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); }
.card { border: 1px solid var(--line); border-left: 6px solid var(--undecided); border-radius: 6px;
  padding: .7rem 1rem; }
.card.fault { border-left-color: var(--fault); } .card.fault h2 { color: var(--fault); }
.card.clean { border-left-color: var(--clean); } .card.clean h2 { color: var(--clean); }
.card dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem .8rem; margin: 0; }
.card dt { color: var(--soft); } .card dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
.card dd p:first-child { margin-top: 0; }
.large { font-size: 1.35rem; font-weight: 600; }
svg.place { width: 100%; max-width: 42rem; display: block; }
svg.place text { font: 13px system-ui, sans-serif; fill: #1b1b1f; }
svg.small { width: 5rem; height: 5rem; display: block; }
@page { size: A4; margin: 14mm; }
@page broad { size: A4 landscape; margin: 12mm; }
@media print {
  :root { color-scheme: light; --text: #000; --soft: #444; --line: #999; --back: #fff;
    --raised: #eee; --fault: #b3261e; --clean: #1c6b3c; --undecided: #8a5a00; }
  body { font-size: 10.5pt; margin: 0; padding: 0; max-width: none;
    print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  details:not([open]) { display: none; }
  .first { display: block; } .card { margin-bottom: .6rem; }
  .card, svg, tr { break-inside: avoid; }
  .wide { overflow: visible; } .wide table { font-size: .72rem; } svg.place { max-width: 36rem; }
  /* Names of runs and nodes may be longer than a column is wide; words stay whole. */
  th, td { overflow-wrap: anywhere; min-width: 7em; } td.number { min-width: 0; }
  details .wide table { font-size: 6.5pt; } details th, details td { padding: .1rem .2rem; }
  details[open] { page: broad; } details[open] details { page: auto; }
  details table.dense { font-size: 6pt; }
  .dense th, .dense td { min-width: 5.4em; } .dense td.number { min-width: 0; }
}
"""
