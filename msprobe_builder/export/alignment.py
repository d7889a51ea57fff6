"""What automatic matching did, in one sentence."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable

from msprobe_builder.base.counting import counted
from msprobe_builder.database.read.alignment import read_alignment

_MOST = 0.9  # share of the modules that a common change of names holds for
_SHOWN = 3  # names of wrappers that are named

Path = tuple[str, ...]


def alignment_sentence(connection: sqlite3.Connection) -> str:
    """How the names differ, how much was matched, and by what; empty where names were enough."""
    facts = read_alignment(connection)
    if not facts.by_evidence and not facts.groups:
        return ""
    counts = f"{100 * facts.matched / facts.nodes:.1f} % matched"
    if facts.by_evidence:
        counts += f", {facts.by_evidence:,} by evidence alone"
    if facts.groups:
        counts += f", {facts.grouped:,} more in {counted(facts.groups, 'group')}"
    return "; ".join([*filter(None, [_names(facts.modules)]), counts])


def _names(modules: set[tuple[str, str]]) -> str:
    """How the names of matched modules differ; empty where they do not."""
    pairs = {(_split(own), _split(other)) for own, other in modules}
    paths = {(mine[0], theirs[0]) for mine, theirs in pairs}
    said = _in_front(paths) or _in_between(paths) or _attributes(paths)
    classes = {(mine[1], theirs[1]) for mine, theirs in pairs if mine[1] != theirs[1]}
    if classes:
        said.append(
            f"{len(classes):,} class{'es have' if len(classes) > 1 else ' has'} other names"
        )
    return ", ".join(said)


def _split(stem: str) -> tuple[Path, str]:
    """The path of a module, and its class."""
    _, *parts = stem.split(".")
    return tuple(parts[:-1]), parts[-1] if parts else ""


def _in_front(paths: set[tuple[Path, Path]]) -> list[str]:
    """What all names of one side have in front of those of the other."""
    for side, both in (("npu", paths), ("bench", {(one, other) for other, one in paths})):
        front = Counter(
            long[: len(long) - len(short)]
            for long, short in both
            if len(long) > len(short) and long[len(long) - len(short) :] == short
        )
        if front:
            prefix, times = front.most_common(1)[0]
            if times >= _MOST * len(paths):
                return [f"the {side} names have `{'.'.join(prefix)}.` in front"]
    return []


def _in_between(paths: set[tuple[Path, Path]]) -> list[str]:
    """What the names of one side have that those of the other leave out."""
    said = []
    for side, both in (("npu", paths), ("bench", {(one, other) for other, one in paths})):
        more: Counter[str] = Counter()
        fitting = 0
        for long, short in both:
            left_out = _left_out(long, short)
            if left_out is not None:
                fitting += 1
                more.update(set(left_out))
        if more and fitting >= _MOST * len(paths):
            names = [f"`{name}`" for name, _ in more.most_common(_SHOWN)]
            said.append(f"the {side} names have {_listed(names)} in between")
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


def _attributes(paths: Iterable[tuple[Path, Path]]) -> list[str]:
    """How many last parts of names differ."""
    differing = {
        (own[-1], other[-1]) for own, other in paths if own and other and own[-1] != other[-1]
    }
    if not differing:
        return []
    return [f"{len(differing):,} attribute{'s have' if len(differing) > 1 else ' has'} other names"]


def _listed(names: list[str]) -> str:
    return " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])
