"""A report as one HTML page: no script, nothing from elsewhere, everything escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from msprobe_builder.base.codes import METRICS, SIDES, STATISTICS, Grade, words
from msprobe_builder.database.read.verdict import Verdict
from msprobe_builder.export.report_content import Content, Finding, Row

_STYLE = """
:root { color-scheme: light dark; --text: #1b1b1f; --soft: #55555e; --line: #c9c9d1; --back: #fff;
  --raised: #f4f4f7; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6ea; --soft: #a9a9b4; --line: #44444d; --back: #18181b; --raised: #242429; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; margin: .5rem 0; font-size: .87rem; }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: left;
  vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th { background: var(--raised); font-weight: 600; }
.wide { overflow-x: auto; }
.grade { color: #1b1b1f; border-radius: 3px; padding: 0 .35rem; border: 1px solid #0003; }
.soft { color: var(--soft); }
code, pre { font: .85rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere;
  white-space: pre-wrap; }
details { border: 1px solid var(--line); border-radius: 4px; margin: .4rem 0;
  padding: .3rem .7rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
"""
_COUNTS = words(Grade)
# Differences in units of the tensor say little in a list of different tensors.
_LEFT_OUT = ("euclidean_distance", "five_thousandths_ratio")
_SHOWN = [name for name in METRICS if not name.endswith("_diff") and name not in _LEFT_OUT]
_METRICS = (*_SHOWN, "md5_equal", "error")
_COLOUR = re.compile("#[0-9a-fA-F]{6}")
_SUSPECTS = 20
Cell = str | float | int | None


def page(name: str, content: Content) -> str:
    """The report on the file ``name``."""
    colours = {row["name"]: str(row["colour"]) for row in content.bands}
    worst = [_finding(one, colours) for one in content.worst]
    nodes = "".join(worst) or '<p class="soft">No node is worse than ok.</p>'
    parts = [
        f"<h1>{_escape(name)}</h1>",
        _table(("", ""), sorted(content.meta.items())),
        _verdict(content.verdict),
        "<h2>Overview</h2>",
        _overview(content, colours),
        _legend(content, colours),
        f"<h2>Worst nodes ({len(worst)})</h2>{nodes}",
    ]
    if content.overflowing:
        parts.append(f"<h2>Overflow ({len(content.overflowing)})</h2>")
        parts += [_finding(one, colours) for one in content.overflowing]
    parts += ["<h2>Unmatched</h2>", _unmatched(content)]
    parts += ["<h2>What the build noticed</h2>", _diagnostics(content)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'\">"
        f"<title>{_escape(name)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    rows = [
        (one.strength, one.step, one.rank, one.side, one.node, one.source, one.evidence)
        for one in verdict.suspects[:_SUSPECTS]
    ]
    head = ("strength", "step", "rank", "side", "node", "source", "evidence")
    return (
        f"<h2>Verdict: {_escape(verdict.conclusion)}</h2><p>{_escape(verdict.sentence)}</p>"
        f"{_table(head, rows) if rows else ''}"
    )


def _overview(content: Content, colours: dict[str, str]) -> str:
    rows = []
    for row in content.places:
        counts = [row[name] or 0 for name in _COUNTS]
        counts[row["own_grade"]] += 1
        grade = _grade(_COUNTS[row["worst_grade"] or 0], colours)
        place = (row["step"], row["rank"], SIDES[row["side"]], row["node_count"])
        rows.append((*place, _Markup(grade if row["side"] == 0 else ""), *counts))
    head = ("step", "rank", "side", "nodes", "worst", *_COUNTS)
    return _table(head, rows)


def _legend(content: Content, colours: dict[str, str]) -> str:
    rows = [
        (_Markup(_grade(row["name"], colours)), row["low"], row["high"])
        for row in content.bands
        if row["low"] is not None
    ]
    return _table(("grade", "error from", "to"), rows) if rows else ""


def _finding(finding: Finding, colours: dict[str, str]) -> str:
    node = finding.node
    overflow = f" <b>{_escape(node['overflow'])}</b>" if node["overflow"] else ""
    error = "" if node["error"] is None else f" {_number(node['error'])}"
    place = f"{_escape(node['side'])}, step {node['step']}, rank {node['rank']}"
    summary = (
        f"{_grade(node['grade'], colours)}{error}{overflow} <code>{_escape(node['name'])}</code>"
        f' <span class="soft">{place}</span>'
    )
    reference = [f"reference {name}" for name in STATISTICS]
    head = ["section", "parameter", "dtype", "shape", *STATISTICS, *reference]
    metrics = [name for name in _METRICS if any(row[name] is not None for row in finding.tensors)]
    rows = []
    for tensor in finding.tensors:
        other = finding.bench_tensors.get(tensor["matched"])
        rows.append(
            (
                *(tensor[key] for key in ("direction", "name", "dtype", "shape", *STATISTICS)),
                *((other[key] if other else None) for key in STATISTICS),
                *(tensor[key] for key in metrics),
            )
        )
    path = " › ".join(_escape(name) for name in finding.path)
    matched = _escape(node["matched"] or node["unmatched_reason"] or "")
    stack = "\n".join(_frame(frame) for frame in finding.stack)
    return (
        f"<details><summary>{summary}</summary><p><code>{path}</code></p>"
        f'<p class="soft">reference: <code>{matched}</code></p>'
        f"{_table([*head, *metrics], rows) if rows else ''}"
        f"{f'<pre>{_escape(stack)}</pre>' if stack else ''}</details>"
    )


def _frame(frame: Row) -> str:
    place = "" if frame["file"] is None else f"{frame['file']}:{frame['line']} {frame['function']}"
    return f"{place}\n    {frame['source']}" if frame["source"] else place


def _unmatched(content: Content) -> str:
    if not content.reasons:
        return '<p class="soft">Every node of both sides has a partner.</p>'
    counted = [(SIDES[row["side"]], row["reason"], row["count"]) for row in content.reasons]
    listed = [tuple(row) for row in content.unmatched]
    total = sum(row["count"] for row in content.reasons)
    head = ("side", "step", "rank", "node", "reason", "nearest", "differs in")
    return (
        _table(("side", "reason", "nodes"), counted)
        + f"<details><summary>The first {len(listed)} of {total}</summary>"
        + _table(head, listed)
        + "</details>"
    )


def _diagnostics(content: Content) -> str:
    if not content.diagnostics:
        return '<p class="soft">Nothing.</p>'
    keys = ("severity", "code", "step", "rank", "count", "message", "subject")
    return _table(keys, [tuple(row[key] for key in keys) for row in content.diagnostics])


class _Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def _grade(name: str, colours: dict[str, str]) -> str:
    colour = colours.get(name, "")
    if not _COLOUR.fullmatch(colour):
        colour = "#ffffff"
    return f'<span class="grade" style="background: {colour}">{_escape(name)}</span>'


def _table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    titles = "".join(f"<th>{_escape(title)}</th>" for title in head)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    header = f"<thead><tr>{titles}</tr></thead>" if any(head) else ""
    return f'<div class="wide"><table>{header}<tbody>{lines}</tbody></table></div>'


def _cell(value: Cell) -> str:
    if isinstance(value, _Markup):
        return f"<td>{value}</td>"
    if isinstance(value, int | float):
        return f'<td class="number">{_number(value)}</td>'
    return f"<td>{_escape(value)}</td>"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _escape(value: object) -> str:
    return "" if value is None else html.escape(str(value))
