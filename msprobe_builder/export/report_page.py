"""A report as one HTML page: no script, nothing from elsewhere, everything escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msprobe_builder.base.codes import METRICS, SIDES, Grade, words
from msprobe_builder.database.read.parameters import ParameterRow
from msprobe_builder.database.read.stacks import StackFrame
from msprobe_builder.database.read.verdict import Verdict
from msprobe_builder.export import report_words
from msprobe_builder.export.configuration import configuration_section
from msprobe_builder.export.report_content import Content, Finding
from msprobe_builder.export.report_markup import (
    COLOUR,
    Cell,
    Markup,
    escaped,
    graded,
    heading,
    number,
    soft,
    table,
)
from msprobe_builder.export.report_picture import picture
from msprobe_builder.export.report_words import facts, reason_words, side_words
from msprobe_builder.export.verdict import conclusion_fact, older, outcome, size_fact
from msprobe_builder.facts.fact import Fact, decode, fact
from msprobe_builder.facts.wording import spoken, tell
from msprobe_builder.facts.words import GRADE, STATISTIC

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
_GRADES = words(Grade)
_NODE, _STEP, _RANK, _SIDE = (
    *(fact("head.node"), fact("head.step")),
    *(fact("head.rank"), fact("head.side")),
)
_PARAMETER, _REASON, _SOURCE = fact("head.parameter"), fact("head.reason"), fact("head.source")
_SUSPECTS = 20


def page(name: str, content: Content) -> str:
    """The report on the file ``name``."""
    colours = {band.name: band.colour for band in content.bands}
    worst = [_finding(one, colours) for one in content.worst]
    nodes = "".join(worst) or soft(fact("report.none_worse"))
    parts = [
        f"<h1>{escaped(name)}</h1>",
        configuration_section(content.configuration),
        _lead(content, colours),
        heading(fact("report.what_compared")),
        table(("", ""), facts(content.meta)),
        _coverage(content),
        heading(fact("report.steps_and_ranks")),
        _overview(content, colours),
        _legend(content, colours),
        f"{heading(fact('report.worst', count=len(worst)))}{nodes}",
    ]
    if content.overflowing:
        parts.append(heading(fact("report.overflow", count=len(content.overflowing))))
        parts += [_finding(one, colours) for one in content.overflowing]
    parts.append(_groups(content, colours))
    parts += [heading(fact("report.unmatched")), _unmatched(content)]
    parts += [heading(fact("report.noticed")), _diagnostics(content)]
    return (
        f'<!doctype html>\n<html lang="{spoken()}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'\">"
        f"<title>{escaped(name)}</title><style>{_STYLE}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _verdict(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    rows = [
        (
            report_words.STRENGTHS.get(one.strength, one.strength),
            one.step,
            one.rank,
            side_words(one.side),
            one.called,
            one.source,
            tell(one.facts),
        )
        for one in verdict.suspects[:_SUSPECTS]
    ]
    head = (fact("head.strength"), _STEP, _RANK, _SIDE, _NODE, _SOURCE, fact("head.evidence"))
    title = fact("report.verdict", conclusion=conclusion_fact(verdict.conclusion))
    return (
        f"{heading(title)}<p>{escaped(tell(verdict.said))}</p>"
        f"{_older(verdict)}{table(head, rows) if rows else ''}{_next(verdict)}"
    )


def _older(verdict: Verdict) -> str:
    return f"<p><b>{escaped(tell(older(verdict.changed)))}</b></p>" if verdict.changed else ""


def _next(verdict: Verdict) -> str:
    """What to record next, to be copied from the page."""
    proposal = verdict.next_dump
    if proposal is None:
        return ""
    size = size_fact(proposal)
    config = json.dumps(proposal.get("config"), indent=2)
    of_each = None if size is None else fact("report.size_of_each", size=size)
    record = fact("report.record", size=of_each, remark=verdict.remark)
    return (
        f"{heading(fact('report.record_next'))}<p>{escaped(record)}</p><pre>{escaped(config)}</pre>"
    )


def _lead(content: Content, colours: dict[str, str]) -> str:
    """What is wrong first: the verdict with its suspects, or the first wrong node."""
    shown = {name: colour for name, colour in colours.items() if COLOUR.fullmatch(colour)}
    place = picture(content.place, shown) if content.place else ""
    suspects = [f'<div class="lead">{_described(one, colours)}</div>' for one in content.leads]
    if content.verdict is not None and (content.verdict.suspects or not suspects):
        title = heading(fact("report.suspects"))
        tensors = f"{title}{''.join(suspects)}" if suspects else ""
        return f"{_verdict(content.verdict)}{place}{tensors}"
    said = ""
    if content.verdict is not None:
        sentence = f"<p>{escaped(tell(content.verdict.said))}</p>"
        said = f"{sentence}{_older(content.verdict)}{_next(content.verdict)}"
    if suspects:
        return f"{heading(fact('report.first_wrong'))}{said}{place}{''.join(suspects)}"
    return f"{said}<p>{escaped(fact('report.nothing_wrong'))}</p>"


def _coverage(content: Content) -> str:
    """How much of the run under debug has a counterpart."""
    debug = [graph for graph in content.places if graph.side == 0]
    if len(debug) == len(content.places):
        return soft(fact("report.single"))
    total = sum(graph.nodes for graph in debug)
    matched = total - sum(graph.grades[Grade.UNMATCHED] for graph in debug)
    _, grouped = content.group_counts
    said = fact(
        "report.coverage",
        matched=matched,
        total=total,
        share=f"{100 * matched / max(1, total):.1f}",
        grouped=fact("report.grouped", nodes=grouped) if grouped else None,
    )
    return f"<p>{escaped(said)}</p>"


def _overview(content: Content, colours: dict[str, str]) -> str:
    rows: list[Sequence[Cell]] = []
    places = content.verdict.places if content.verdict is not None else ()
    told = {(one.step, one.rank): outcome(one) for one in places}
    for graph in content.places:
        verdict = told.get((graph.step, graph.rank), "") if graph.side == 0 else ""
        grade = graded(_GRADES[graph.worst], colours)
        place = (graph.step, graph.rank, side_words(SIDES[graph.side]), graph.nodes)
        rows.append((*place, verdict, Markup(grade if graph.side == 0 else ""), *graph.grades))
    counts = (fact("head.nodes"), fact("head.verdict"), fact("head.worst"))
    head = (_STEP, _RANK, _SIDE, *counts, *(GRADE[name] for name in _GRADES))
    return table(head, rows)


def _legend(content: Content, colours: dict[str, str]) -> str:
    rows = [
        (Markup(graded(band.name, colours)), band.low, band.high)
        for band in content.bands
        if band.low is not None
    ]
    head = (fact("head.grade"), fact("head.error_from"), fact("head.to"))
    return table(head, rows) if rows else ""


def _groups(content: Content, colours: dict[str, str]) -> str:
    """How many groups of calls there are, and the worst; empty without any."""
    count, _ = content.group_counts
    if not count:
        return ""
    rows = [
        (
            *(Markup(graded(one.group.grade, colours)), one.group.error, one.group.operation),
            *(one.step, one.rank, one.group.npu, one.group.bench),
        )
        for one in content.groups
    ]
    what = (fact("head.grade"), fact("head.error"), fact("head.operation"))
    head = (*what, _STEP, _RANK, *report_words.SIDES.values())
    listed = None if len(rows) == count else fact("report.groups_listed", count=len(rows))
    return (
        f"{heading(fact('report.groups', count=count))}"
        f"<p>{escaped(fact('report.groups_are', listed=listed))}</p>{table(head, rows)}"
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
    overflow = ""
    if node.overflow:
        overflow = f" <b>{escaped(report_words.OVERFLOWS[node.overflow - 1])}</b>"
    error = "" if node.error is None else f" {number(node.error)}"
    side = side_words(finding.side)
    place = fact("report.place", side=side, step=finding.step, rank=finding.rank)
    summary = (
        f"{graded(_GRADES[node.grade], colours)}{error}{overflow} <code>{escaped(node.name)}</code>"
        f' <span class="soft">{escaped(place)}</span>'
    )
    reference = [fact("report.statistic_of_reference", statistic=name) for name in STATISTIC]
    kind = (fact("head.section"), _PARAMETER, fact("head.dtype"), fact("head.shape"))
    head = [*kind, *STATISTIC, *reference]
    measured = [_metrics(row) for row in finding.rows]
    metrics = [
        name for name in report_words.METRICS if any(one.get(name) is not None for one in measured)
    ]
    said = [tell(decode(one.comparison.note if one.comparison else "")) for one in finding.rows]
    rows: list[Sequence[Cell]] = [
        (*_tensor_cells(row), *(one.get(name) for name in metrics), *([note] if any(said) else []))
        for row, one, note in zip(finding.rows, measured, said, strict=True)
    ]
    path = " › ".join(escaped(name) for name in (*node.path, node.name))
    matched = escaped(finding.partner or _without_partner(finding))
    arguments = [
        (row.npu.name, row.npu.value, row.bench.value)
        for row in finding.arguments
        if row.npu is not None and row.bench is not None
    ]
    both = (fact("head.argument"), *report_words.SIDES.values())
    differing = table(both, arguments) if arguments else ""
    stack = "\n".join(_frame(frame) for frame in node.stack)
    titles = [
        *head,
        *(report_words.METRICS[name] for name in metrics),
        *([fact("head.note")] if any(said) else []),
    ]
    return summary, (
        f"<p><code>{path}</code></p>"
        f'<p class="soft">{escaped(fact("report.of_reference"))}<code>{matched}</code></p>'
        f"{differing}"
        f"{table(titles, rows) if rows else ''}"
        f"{_merged(finding)}"
        f"{f'<pre>{escaped(stack)}</pre>' if stack else ''}"
    )


def _merged(finding: Finding) -> str:
    """Of which ranks a merged node is, and how each of its values was made of theirs."""
    ranks = finding.node.origin_ranks
    other = next(one for one in SIDES if one != finding.side)
    sides = side_words(finding.side), side_words(other)
    told = [
        (side, one.name, tell(decode(one.recipe)))
        for row in finding.rows
        for side, one in zip(sides, (row.npu, row.bench), strict=True)
        if one is not None and one.recipe
    ]
    if not ranks and not told:
        return ""
    merged = fact("report.merged", ranks=len(ranks), numbers=ranks) if ranks else ""
    made = table((_SIDE, _PARAMETER, fact("head.how_made")), told) if told else ""
    return f"{soft(merged)}{made}"


def _without_partner(finding: Finding) -> Fact | str:
    """Why a node has no partner; in a group, the calls that it is compared with."""
    said = reason_words(finding.node.unmatched_reason)
    if finding.group is None:
        return said
    group = finding.group
    others = group.bench if finding.side == SIDES[0] else group.npu
    error = None
    if group.error is not None:
        error = fact("report.group_error", error=number(group.error))
    what = {"operation": group.operation, "others": others}
    grade = GRADE.get(group.grade, group.grade)
    return fact("report.group_against", reason=said, **what, grade=grade, error=error)


def _tensor_cells(row: ParameterRow) -> list[Cell]:
    tensor = row.npu
    assert tensor is not None
    other = row.bench.statistics if row.bench is not None and row.comparison is not None else ()
    return [
        *(report_words.SECTIONS[tensor.section], tensor.name, tensor.dtype, tensor.shape),
        *tensor.statistics,
        *(other or [None] * len(STATISTIC)),
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
        return soft(fact("report.all_matched"))
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
    head = (_SIDE, _STEP, _RANK, _NODE, _REASON, fact("head.nearest"), fact("head.differs_in"))
    first = fact("report.first_of", shown=len(listed), total=total)
    return (
        table((_SIDE, _REASON, fact("head.nodes")), counted)
        + f"<details><summary>{escaped(first)}</summary>"
        + table(head, listed)
        + "</details>"
    )


def _diagnostics(content: Content) -> str:
    if not content.diagnostics:
        return soft(fact("report.nothing"))
    rows = [
        (
            *(report_words.SEVERITIES.get(one.severity, one.severity), one.said),
            *(one.subject, one.count, one.step, one.rank),
        )
        for one in content.diagnostics
    ]
    head = ("", fact("head.what"), fact("head.where"), fact("head.times"), _STEP, _RANK)
    return table(head, rows)
