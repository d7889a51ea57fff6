"""What a report shows first: the card of the verdict, where it stands, the tensors that tell."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.base.codes import METRICS
from msprobe_builder.database.read.parameters import ParameterRow
from msprobe_builder.dump.parameters import Section
from msprobe_builder.export import report_words
from msprobe_builder.export.card import Card, Differing, card_of
from msprobe_builder.export.report_content import Content, Finding
from msprobe_builder.export.report_markup import Cell, Markup, escaped, heading, soft, table
from msprobe_builder.export.report_picture import difference_picture, picture
from msprobe_builder.export.verdict import conclusion_fact, older, sure_facts, to_do
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.words import SIDE, STATISTIC

_TENSORS = 3
_NORM = 3  # of the statistics
_DIFFERENCE = [METRICS.index(name) for name in ("relative_difference", "norm_relative_err")]


def title(content: Content, file: str) -> str:
    """What the report is of: the runs by their names, else the file."""
    first, second = content.names
    if first and second:
        return escaped(fact("report.title", npu=first, bench=second))
    return escaped(first or file)


def first_screen(content: Content, colours: dict[str, str]) -> str:
    """All that most readers need, on one screen or sheet."""
    shown = picture(content.place, colours) if content.place else ""
    card = _card(content)
    lead = _tensors(content.leads[0]) if content.leads else ""
    if not card and not lead:
        return f"<p>{escaped(fact('report.nothing_wrong'))}</p>"
    return f'<div class="first">{card}{shown}</div>{lead}'


def _card(content: Content) -> str:
    """The answers of the verdict; empty without one."""
    verdict = content.verdict
    if verdict is None:
        return ""
    card = card_of(verdict)
    told = heading(fact("report.verdict", conclusion=conclusion_fact(card.conclusion)))
    if verdict.changed:
        told += f"<p><b>{escaped(older(verdict.changed))}</b></p>"
    if card.suspect is None:
        told += f"<p>{escaped([*card.what, *card.sure, *card.follows])}</p>"
        answers = _of_all(content, card)
    else:
        answers = [
            (fact("label.where"), _where(card, content.code)),
            (fact("label.what"), _what(card, content)),
            (fact("label.sure"), escaped(sure_facts(card))),
            (fact("label.follows"), escaped(card.follows)),
            *_of_all(content, card),
        ]
    return f'<section class="card {escaped(card.conclusion)}">{told}{_answers(answers)}</section>'


def _of_all(content: Content, card: Card) -> list[tuple[Fact, str]]:
    """What to do next, and what was not judged, whoever is accused."""
    assert content.verdict is not None
    done = "".join(
        f"<p>{escaped(what)}</p><pre>{escaped(content.relative(command))}</pre>"
        for what, command in to_do(content.verdict, content.file)[:1]
    )
    return [(fact("label.next"), done), (fact("label.limits"), escaped(card.limits))]


def _answers(answers: Sequence[tuple[Fact, str]]) -> str:
    told = "".join(f"<dt>{escaped(name)}</dt><dd>{said}</dd>" for name, said in answers if said)
    return f"<dl>{told}</dl>"


def _where(card: Card, code: str) -> str:
    named = fact("accused.in_module", module=card.module, name=card.call)
    place = escaped(fact("card.where", at=card.at, name=named if card.module else card.call))
    line = f'<p class="soft">{escaped(card.line)}</p>' if card.line else ""
    return f"<p><b>{place}</b></p>{line}{f'<pre>{escaped(code)}</pre>' if code else ''}"


def _what(card: Card, content: Content) -> str:
    large = "".join(map(_large, card.differing))
    rows = content.leads[0].rows if content.leads else []
    slices = (row.comparison.slices for row in rows if row.comparison is not None)
    small = next((difference_picture(one) for one in slices if any(one)), "")
    return f"{large}<p>{escaped(card.what)}</p>{small}"


def _large(one: Differing) -> str:
    values = escaped(fact("card.values", own=one.debug, theirs=one.reference))
    name = escaped(fact("card.argument_name", name=one.name))
    return f'<p>{name} <span class="large">{values}</span></p>'


def _tensors(lead: Finding) -> str:
    """The tensors of a call that tell most; empty where none was compared."""
    compared = [row for row in lead.rows if row.npu is not None and row.comparison is not None]
    compared.sort(key=_telling)
    rows = [_tensor(row) for row in compared[:_TENSORS]]
    if not rows:
        return ""
    norms = [fact("report.statistic_of", statistic=STATISTIC[_NORM], side=side) for side in SIDE]
    kind = (fact("head.section"), fact("head.parameter"), fact("head.shape"), fact("head.dtype"))
    head = (*kind, *norms, fact("head.difference"))
    return soft(fact("report.tensors_of", name=lead.node.name)) + table(head, rows)


def _telling(row: ParameterRow) -> tuple[bool, float]:
    assert row.npu is not None
    assert row.comparison is not None
    return row.npu.section != Section.OUTPUT, -(row.comparison.error or 0.0)


def _tensor(row: ParameterRow) -> list[Cell]:
    debug, reference, comparison = row.npu, row.bench, row.comparison
    assert debug is not None
    assert comparison is not None
    kinds = [(debug.shape, reference.shape), (debug.dtype, reference.dtype)] if reference else []
    both = [one if one == there else f"{one} → {there}" for one, there in kinds]
    measured = (comparison.metrics[place] for place in _DIFFERENCE)
    difference = next((one for one in measured if one is not None), None)
    percent = Markup("") if difference is None else escaped(f"{100 * difference:.3g} %")
    norms = [one.statistics[_NORM] for one in (debug, reference) if one is not None]
    section = report_words.SECTIONS[debug.section]
    return [section, debug.name, *both, *norms, Markup(f"<b>{percent}</b>")]
