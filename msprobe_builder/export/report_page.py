"""A report as one HTML page: no script, nothing from elsewhere, everything escaped."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msprobe_builder.base.codes import METRICS, SIDES, Grade, words
from msprobe_builder.database.read.parameters import ParameterRow
from msprobe_builder.database.read.stacks import LIBRARY, StackFrame
from msprobe_builder.database.read.verdict import Verdict
from msprobe_builder.export import report_words
from msprobe_builder.export.configuration import configuration_section
from msprobe_builder.export.report_card import first_screen, title
from msprobe_builder.export.report_content import Content, Finding
from msprobe_builder.export.report_markup import (
    COLOUR,
    Cell,
    Markup,
    escaped,
    graded,
    number,
    soft,
    table,
)
from msprobe_builder.export.report_style import STYLE
from msprobe_builder.export.report_words import reason_words, side_words
from msprobe_builder.export.verdict import outcome, size_fact
from msprobe_builder.facts.fact import Fact, decode, fact
from msprobe_builder.facts.wording import spoken, tell
from msprobe_builder.facts.words import GRADE, SIDE, STATISTIC

_GRADES = words(Grade)
_NODE, _STEP, _RANK, _SIDE = (
    *(fact("head.node"), fact("head.step")),
    *(fact("head.rank"), fact("head.side")),
)
_PARAMETER, _REASON, _SOURCE = fact("head.parameter"), fact("head.reason"), fact("head.source")
_SUSPECTS = 20


def page(content: Content) -> str:
    """The report: one screen that most need, all else folded below it."""
    colours = {band.name: band.colour for band in content.bands if COLOUR.fullmatch(band.colour)}
    name = title(content, content.file.name)
    worst = [_finding(one, colours) for one in content.worst]
    nodes = "".join(worst) or soft(fact("report.none_worse"))
    overflow = "".join(_finding(one, colours) for one in content.overflowing)
    groups, _ = content.group_counts
    parts = [
        f"<h1>{name}</h1>",
        soft(" · ".join(_facts_of(content))),
        _warned(content),
        first_screen(content, colours),
        _folded(fact("report.configurations"), configuration_section(content.configuration)),
        _folded(fact("report.suspects"), _suspects(content, colours)),
        _folded(fact("report.record_next"), _next(content.verdict)),
        _folded(fact("report.what_compared"), _compared(content)),
        _folded(
            fact("report.steps_and_ranks"), _overview(content, colours) + _legend(content, colours)
        ),
        _folded(fact("report.worst", count=len(worst)), nodes),
        _folded(fact("report.overflow", count=len(content.overflowing)), overflow),
        _folded(fact("report.groups", count=groups), _groups(content, colours)),
        _folded(fact("report.unmatched"), _unmatched(content)),
        _folded(fact("report.noticed"), _diagnostics(content)),
    ]
    return (
        f'<!doctype html>\n<html lang="{spoken()}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
        " style-src 'unsafe-inline'\">"
        f"<title>{name}</title><style>{STYLE}</style></head>\n"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _folded(said: Fact, content: str) -> str:
    """A part that a click opens; nothing where there is nothing in it."""
    return f"<details><summary>{escaped(said)}</summary>{content}</details>" if content else ""


def _facts_of(content: Content) -> list[str]:
    known = dict(report_words.facts(content.meta, content.relative))
    shown = [known.get(one) for one in (report_words.TASK, report_words.CREATED)]
    return [content.file.name, *(tell(one) for one in shown if one is not None)]


def _warned(content: Content) -> str:
    """What the configurations of the runs differ in, where that comes before all else."""
    found = content.configuration
    is_wrong = found is not None and found.outcome in ("error", "warning")
    return f"<p><b>{escaped(tell(found.said))}</b></p>" if found is not None and is_wrong else ""


def _compared(content: Content) -> str:
    return table(("", ""), report_words.facts(content.meta, content.relative)) + _coverage(content)


def _suspects(content: Content, colours: dict[str, str]) -> str:
    """All suspects in a table, and the first with all that is known of their tensors."""
    found = "".join(f'<div class="lead">{_described(one, colours)}</div>' for one in content.leads)
    verdict = content.verdict
    if verdict is None or not verdict.suspects:
        return found
    return _listed(verdict) + found


def _listed(verdict: Verdict) -> str:
    rows = [
        (
            report_words.STRENGTHS.get(one.strength, one.strength),
            *(one.step, one.rank, side_words(one.side), one.called, one.source),
            tell(one.facts),
        )
        for one in verdict.suspects[:_SUSPECTS]
    ]
    head = (fact("head.strength"), _STEP, _RANK, _SIDE, _NODE, _SOURCE, fact("head.evidence"))
    return table(head, rows)


def _next(verdict: Verdict | None) -> str:
    """What to record next, to be copied from the page."""
    proposal = None if verdict is None else verdict.next_dump
    if verdict is None or proposal is None:
        return ""
    size = size_fact(proposal)
    config = json.dumps(proposal.get("config"), indent=2)
    of_each = None if size is None else fact("report.size_of_each", size=size)
    record = fact("report.record", size=of_each, remark=verdict.remark)
    return f"<p>{escaped(record)}</p><pre>{escaped(config)}</pre>"


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
    return f"<p>{escaped(fact('report.groups_are', listed=listed))}</p>{table(head, rows)}"


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
    reference = [fact("report.statistic_of", statistic=name, side=SIDE[1]) for name in STATISTIC]
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
    lines = "\n".join(map(_frame, node.stack))
    stack = f"<pre>{escaped(lines)}</pre>" if lines else ""
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
        f"{_folded(fact('report.stack', count=len(node.stack)), stack)}"
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
    place = f"{_short_file(frame.file)}:{frame.line} {frame.function}" if frame.file else ""
    return f"{place}\n    {frame.source}" if frame.source else place


def _short_file(path: str) -> str:
    """A file as seen from its library, or from the folder above its own."""
    plain = path.replace("\\", "/")
    library = LIBRARY.search(plain)
    inside = plain[library.end() :] if library is not None else ""
    return inside or "/".join(plain.split("/")[-2:])


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
