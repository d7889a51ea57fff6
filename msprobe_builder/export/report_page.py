"""A report as one HTML page: no script, nothing from elsewhere, everything escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from math import isnan

from msprobe_builder.base.codes import METRICS, SIDES, STATISTICS, Grade, Overflow, Section, words
from msprobe_builder.database.read.parameters import ParameterRow
from msprobe_builder.database.read.stacks import StackFrame
from msprobe_builder.database.read.verdict import Verdict
from msprobe_builder.export.configuration import configuration_section
from msprobe_builder.export.report_content import Content, Finding
from msprobe_builder.export.report_picture import picture
from msprobe_builder.export.report_words import facts, metric_words, reason_words, side_words
from msprobe_builder.export.verdict import older, outcome, size_fact
from msprobe_builder.facts.fact import decode
from msprobe_builder.facts.wording import spoken, tell

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
.lead { border-left: 4px solid #1a56db; padding-left: 1rem; margin: 1rem 0; }
svg.place { max-width: 60rem; display: block; }
svg.place text { font: 13px system-ui, sans-serif; fill: #1b1b1f; }
summary { cursor: pointer; overflow-wrap: anywhere; }
"""
_COUNTS, _OVERFLOWS, _SECTIONS = words(Grade), words(Overflow), words(Section)
# Differences in units of the tensor say little in a list of different tensors.
_LEFT_OUT = ("euclidean_distance", "five_thousandths_ratio")
_SHOWN = [name for name in METRICS if not name.endswith("_diff") and name not in _LEFT_OUT]
_METRICS = (*_SHOWN, "md5_equal", "error")
_COLOUR = re.compile("#[0-9a-fA-F]{6}")
_SUSPECTS = 20
Cell = str | float | int | None


def page(name: str, content: Content) -> str:
    """The report on the file ``name``."""
    colours = {band.name: band.colour for band in content.bands}
    worst = [_finding(one, colours) for one in content.worst]
    nodes = "".join(worst) or '<p class="soft">No node is worse than ok.</p>'
    parts = [
        f"<h1>{_escape(name)}</h1>",
        configuration_section(content.configuration),
        _lead(content, colours),
        "<h2>What was compared</h2>",
        _table(("", ""), facts(content.meta)),
        _coverage(content),
        "<h2>Steps and ranks</h2>",
        _overview(content, colours),
        _legend(content, colours),
        f"<h2>Worst nodes ({len(worst)})</h2>{nodes}",
    ]
    if content.overflowing:
        parts.append(f"<h2>Overflow ({len(content.overflowing)})</h2>")
        parts += [_finding(one, colours) for one in content.overflowing]
    parts.append(_groups(content, colours))
    parts += ["<h2>Unmatched</h2>", _unmatched(content)]
    parts += ["<h2>What the build noticed</h2>", _diagnostics(content)]
    return (
        f'<!doctype html>\n<html lang="{spoken()}"><head><meta charset="utf-8">'
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
        (
            one.strength,
            one.step,
            one.rank,
            side_words(one.side),
            tell(one.called),
            one.source,
            tell(one.facts),
        )
        for one in verdict.suspects[:_SUSPECTS]
    ]
    head = ("strength", "step", "rank", "side", "node", "source", "evidence")
    return (
        f"<h2>Verdict: {_escape(verdict.conclusion)}</h2><p>{_escape(tell(verdict.said))}</p>"
        f"{_older(verdict)}{_table(head, rows) if rows else ''}{_next(verdict)}"
    )


def _older(verdict: Verdict) -> str:
    return f"<p><b>{_escape(tell(older(verdict.changed)))}</b></p>" if verdict.changed else ""


def _next(verdict: Verdict) -> str:
    """What to record next, to be copied from the page."""
    proposal = verdict.next_dump
    if proposal is None:
        return ""
    size = size_fact(proposal)
    config = json.dumps(proposal.get("config"), indent=2)
    return (
        f"<h2>What to record next</h2><p>In both runs, each into a folder of its own"
        f"{f', {tell(size)} of each' if size else ''}. {_escape(tell(verdict.remark))}</p>"
        f"<pre>{_escape(config)}</pre>"
    )


def _lead(content: Content, colours: dict[str, str]) -> str:
    """What is wrong first: the verdict with its suspects, or the first wrong node."""
    shown = {name: colour for name, colour in colours.items() if _COLOUR.fullmatch(colour)}
    place = picture(content.place, shown) if content.place else ""
    suspects = [f'<div class="lead">{_described(one, colours)}</div>' for one in content.leads]
    if content.verdict is not None and (content.verdict.suspects or not suspects):
        tensors = f"<h2>The suspects and their tensors</h2>{''.join(suspects)}" if suspects else ""
        return f"{_verdict(content.verdict)}{place}{tensors}"
    said = ""
    if content.verdict is not None:
        sentence = f"<p>{_escape(tell(content.verdict.said))}</p>"
        said = f"{sentence}{_older(content.verdict)}{_next(content.verdict)}"
    if suspects:
        return f"<h2>The first wrong node</h2>{said}{place}{''.join(suspects)}"
    return f"{said}<p>Nothing is wrong in what was compared.</p>"


def _coverage(content: Content) -> str:
    """How much of the run under debug has a counterpart."""
    own = [graph for graph in content.places if graph.side == 0]
    if all(graph.side == 0 for graph in content.places):
        return '<p class="soft">A single run: there is nothing that it was compared with.</p>'
    total = sum(graph.nodes for graph in own)
    matched = total - sum(graph.grades[Grade.UNMATCHED] for graph in own)
    share = 100 * matched / max(1, total)
    _, grouped = content.group_counts
    more = f"; {grouped:,} more are in groups of calls" if grouped else ""
    return f"<p>{matched:,} of {total:,} nodes have a counterpart ({share:.1f} %){more}.</p>"


def _overview(content: Content, colours: dict[str, str]) -> str:
    rows: list[Sequence[Cell]] = []
    places = content.verdict.places if content.verdict is not None else ()
    told = {(one.step, one.rank): tell(outcome(one)) for one in places}
    for graph in content.places:
        own = told.get((graph.step, graph.rank), "") if graph.side == 0 else ""
        grade = _grade(_COUNTS[graph.worst], colours)
        place = (graph.step, graph.rank, side_words(SIDES[graph.side]), graph.nodes)
        rows.append((*place, own, _Markup(grade if graph.side == 0 else ""), *graph.grades))
    head = ("step", "rank", "side", "nodes", "verdict", "worst", *_COUNTS)
    return _table(head, rows)


def _legend(content: Content, colours: dict[str, str]) -> str:
    rows = [
        (_Markup(_grade(band.name, colours)), band.low, band.high)
        for band in content.bands
        if band.low is not None
    ]
    return _table(("grade", "error from", "to"), rows) if rows else ""


def _groups(content: Content, colours: dict[str, str]) -> str:
    """How many groups of calls there are, and the worst; empty without any."""
    count, _ = content.group_counts
    if not count:
        return ""
    rows = [
        (
            *(_Markup(_grade(one.group.grade, colours)), one.group.error, one.group.operation),
            *(one.step, one.rank, one.group.npu, one.group.bench),
        )
        for one in content.groups
    ]
    head = ("grade", "error", "operation", "step", "rank", "debug", "reference")
    listed = "" if len(rows) == count else f" Here are the {len(rows):,} with the largest errors."
    return (
        f"<h2>Groups of calls ({count:,})</h2><p>Calls of one side that do together what calls of"
        f" the other side do, compared at what goes in and comes out.{listed}</p>"
        f"{_table(head, rows)}"
    )


def _finding(finding: Finding, colours: dict[str, str]) -> str:
    """A node that is opened with a click."""
    summary, rest = _parts(finding, colours)
    return f"<details><summary>{summary}</summary>{rest}</details>"


def _described(finding: Finding, colours: dict[str, str]) -> str:
    """A node with everything in sight."""
    summary, rest = _parts(finding, colours)
    return f"<p>{summary}</p>{rest}"


def _parts(finding: Finding, colours: dict[str, str]) -> tuple[str, str]:
    """The line of a node, and all there is to say about it."""
    node = finding.node
    overflow = f" <b>{_OVERFLOWS[node.overflow]}</b>" if node.overflow else ""
    error = "" if node.error is None else f" {_number(node.error)}"
    place = f"{side_words(finding.side)}, step {finding.step}, rank {finding.rank}"
    summary = (
        f"{_grade(_COUNTS[node.grade], colours)}{error}{overflow} <code>{_escape(node.name)}</code>"
        f' <span class="soft">{place}</span>'
    )
    reference = [f"reference {name}" for name in STATISTICS]
    head = ["section", "parameter", "dtype", "shape", *STATISTICS, *reference]
    measured = [_metrics(row) for row in finding.rows]
    metrics = [name for name in _METRICS if any(one.get(name) is not None for one in measured)]
    said = [tell(decode(one.comparison.note if one.comparison else "")) for one in finding.rows]
    rows: list[Sequence[Cell]] = [
        (*_tensor_cells(row), *(one.get(name) for name in metrics), *([note] if any(said) else []))
        for row, one, note in zip(finding.rows, measured, said, strict=True)
    ]
    path = " › ".join(_escape(name) for name in (*node.path, node.name))
    matched = _escape(finding.partner or _without_partner(finding))
    arguments = [
        (row.npu.name, row.npu.value, row.bench.value)
        for row in finding.arguments
        if row.npu is not None and row.bench is not None
    ]
    differing = _table(("argument", "debug", "reference"), arguments) if arguments else ""
    stack = "\n".join(_frame(frame) for frame in node.stack)
    titles = [*head, *map(metric_words, metrics), *(["note"] if any(said) else [])]
    return summary, (
        f"<p><code>{path}</code></p>"
        f'<p class="soft">reference: <code>{matched}</code></p>{differing}'
        f"{_table(titles, rows) if rows else ''}"
        f"{_merged(finding)}"
        f"{f'<pre>{_escape(stack)}</pre>' if stack else ''}"
    )


def _merged(finding: Finding) -> str:
    """Of which ranks a merged node is, and how each of its values was made of theirs."""
    ranks = finding.node.origin_ranks
    own = side_words(finding.side)
    sides = own, side_words(next(one for one in SIDES if one != finding.side))
    told = [
        (side, one.name, tell(decode(one.recipe)))
        for row in finding.rows
        for side, one in zip(sides, (row.npu, row.bench), strict=True)
        if one is not None and one.recipe
    ]
    if not ranks and not told:
        return ""
    listed = ", ".join(map(str, ranks))
    from_ranks = f"merged of {'rank' if len(ranks) == 1 else 'ranks'} {listed}" if ranks else ""
    made = _table(("side", "parameter", "how it was made of the ranks"), told) if told else ""
    return f'<p class="soft">{_escape(from_ranks)}</p>{made}'


def _without_partner(finding: Finding) -> str:
    """Why a node has no partner; in a group, the calls that it is compared with."""
    said = reason_words(finding.node.unmatched_reason)
    if finding.group is None:
        return said
    group = finding.group
    others = group.bench if finding.side == SIDES[0] else group.npu
    error = "" if group.error is None else f", error {_number(group.error)}"
    return f"{said}: {group.operation} against {others} ({group.grade}{error})"


def _tensor_cells(row: ParameterRow) -> list[Cell]:
    tensor = row.npu
    assert tensor is not None
    other = row.bench.statistics if row.bench is not None and row.comparison is not None else ()
    return [
        *(_SECTIONS[tensor.section], tensor.name, tensor.dtype, tensor.shape),
        *tensor.statistics,
        *(other or [None] * len(STATISTICS)),
    ]


def _metrics(row: ParameterRow) -> dict[str, Cell]:
    if row.comparison is None:
        return {}
    found: dict[str, Cell] = dict(zip(METRICS, row.comparison.metrics, strict=True))
    equal = row.comparison.md5_equal
    return {
        **found,
        "md5_equal": None if equal is None else int(equal),
        "error": row.comparison.error,
    }


def _frame(frame: StackFrame) -> str:
    place = f"{frame.file}:{frame.line} {frame.function}" if frame.file else ""
    return f"{place}\n    {frame.source}" if frame.source else place


def _unmatched(content: Content) -> str:
    if not content.reasons:
        return '<p class="soft">Every node of both sides has a partner.</p>'
    counted = [
        (side_words(one.side), reason_words(one.reason), one.count) for one in content.reasons
    ]
    listed = [
        (
            *(side_words(one.side), one.step, one.rank, one.name),
            *(reason_words(one.reason), one.candidate, tell(decode(one.detail or ""))),
        )
        for one in content.unmatched
    ]
    total = sum(one.count for one in content.reasons)
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
    keys = ("severity", "message", "subject", "count", "step", "rank")
    head = ("", "what", "where", "times", "step", "rank")
    return _table(head, [tuple(getattr(one, key) for key in keys) for one in content.diagnostics])


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
    if isinstance(value, int):
        return str(value)
    return "NaN" if isnan(value) else f"{value:.6g}"


def _escape(value: object) -> str:
    return "" if value is None else html.escape(str(value))
