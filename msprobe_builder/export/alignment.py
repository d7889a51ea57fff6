"""What automatic matching did."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable

from msprobe_builder.database.read.alignment import read_alignment
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.words import SIDE

_MOST = 0.9  # share of the modules that a common change of names holds for
_SHOWN = 3  # names of wrappers that are named

Path = tuple[str, ...]


def told_of_alignment(connection: sqlite3.Connection) -> Fact | None:
    """How the names differ, how much was matched, and by what; None where names were enough."""
    facts = read_alignment(connection)
    if not facts.by_evidence and not facts.groups:
        return None
    counts = [fact("alignment.matched", share=f"{100 * facts.matched / facts.nodes:.1f}")]
    if facts.by_evidence:
        counts.append(fact("alignment.by_evidence", nodes=facts.by_evidence))
    if facts.groups:
        counts.append(fact("alignment.in_groups", nodes=facts.grouped, groups=facts.groups))
    clauses = [
        fact("alignment.several", clauses=one) for one in (_names(facts.modules), counts) if one
    ]
    return fact("alignment", clauses=clauses)


def _names(modules: set[tuple[str, str]]) -> list[Fact]:
    """How the names of matched modules differ; empty where they do not."""
    pairs = {(_split(own), _split(other)) for own, other in modules}
    paths = {(npu[0], bench[0]) for npu, bench in pairs}
    said = _in_front(paths) or _in_between(paths) or _attributes(paths)
    classes = {(npu[1], bench[1]) for npu, bench in pairs if npu[1] != bench[1]}
    if classes:
        said.append(fact("alignment.classes", count=len(classes)))
    return said


def _split(stem: str) -> tuple[Path, str]:
    """The path of a module, and its class."""
    _, *parts = stem.split(".")
    return tuple(parts[:-1]), parts[-1] if parts else ""


def _in_front(paths: set[tuple[Path, Path]]) -> list[Fact]:
    """What all names of one side have in front of those of the other."""
    for side, both in _both_ways(paths):
        front = Counter(
            long[: len(long) - len(short)]
            for long, short in both
            if len(long) > len(short) and long[len(long) - len(short) :] == short
        )
        if front:
            prefix, times = front.most_common(1)[0]
            if times >= _MOST * len(paths):
                return [fact("alignment.in_front", side=side, prefix=".".join(prefix))]
    return []


def _both_ways(paths: set[tuple[Path, Path]]) -> list[tuple[Fact, set[tuple[Path, Path]]]]:
    """A side, and the paths with its own first."""
    return [
        (SIDE[0], paths),
        (SIDE[1], {(one, other) for other, one in paths}),
    ]


def _in_between(paths: set[tuple[Path, Path]]) -> list[Fact]:
    """What the names of one side have that those of the other leave out."""
    said = []
    for side, both in _both_ways(paths):
        more: Counter[str] = Counter()
        fitting = 0
        for long, short in both:
            left_out = _left_out(long, short)
            if left_out is not None:
                fitting += 1
                more.update(set(left_out))
        if more and fitting >= _MOST * len(paths):
            names = [f"`{name}`" for name, _ in more.most_common(_SHOWN)]
            said.append(fact("alignment.in_between", side=side, names=names))
    return said


def _left_out(long: Path, short: Path) -> list[str] | None:
    """The parts that make one path of the other; None where they are no such paths."""
    result = []
    rest = list(short)
    for part in long:
        if rest and rest[0] == part:
            rest.pop(0)
        else:
            result.append(part)
    return None if rest else result


def _attributes(paths: Iterable[tuple[Path, Path]]) -> list[Fact]:
    """How many last parts of names differ."""
    differing = {
        (own[-1], other[-1]) for own, other in paths if own and other and own[-1] != other[-1]
    }
    if not differing:
        return []
    return [fact("alignment.attributes", count=len(differing))]
