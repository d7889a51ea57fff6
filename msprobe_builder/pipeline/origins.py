"""Where NaN and infinity began, asked of all ranks: a call that received some made none."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from msprobe_builder.base.codes import Kind, Strength
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.read.calls import read_communication_calls
from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.not_finite import StoredBeginning, find_giver
from msprobe_builder.database.read.stacks import read_source
from msprobe_builder.database.write.not_finite import write_received
from msprobe_builder.facts.fact import Fact, Facts, fact, has_code
from msprobe_builder.invariants.violation import Check, Violation
from msprobe_builder.link.calls import Call, Leaf, communication_calls
from msprobe_builder.link.pairing import Pairing, pair_calls
from msprobe_builder.metrics.beginning import Part

Key = TypeVar("Key", bound=Hashable)
_ASKED = 100  # calls of a step and side whose namesakes are looked for
_ABSENT = "origin.absent"
_OF_MERGED = "origin.on_ranks"
_WEAK = ("origin.scaled", _ABSENT)


def heard(
    connection: sqlite3.Connection, found: Sequence[StoredBeginning]
) -> list[StoredBeginning]:
    """The same where what calls received is told from what they made; that is stored too."""
    received: dict[int, int] = {}
    absent: set[int] = set()
    graphs = read_graphs(connection)
    for (side, step), of_step in _by(found, lambda one: (one.side, one.step)).items():
        ranks = tuple(one.rank for one in graphs if (one.side, one.step) == (side, step))
        made = [one for one in of_step if one.part is Part.MADE]
        if any(one.kind == Kind.API for one in made):
            calls = communication_calls(read_communication_calls(connection, side, step))
            pairing = pair_calls(calls, ranks)
            received |= _givers(pairing, {one.node for one in made})
            absent |= {call.node for call in pairing.absent}
        makers = {one.node for one in of_step if one.part is not Part.GIVEN}
        for one in [one for one in made if one.is_closed][:_ASKED]:
            giver = find_giver(connection, one.node, makers)
            if giver is not None:
                received[one.node] = giver
    write_received(connection, received)
    return [_heard(one, received.get(one.node), absent) for one in found]


def _heard(one: StoredBeginning, giver: int | None, absent: set[int]) -> StoredBeginning:
    if giver is not None:
        return replace(one, part=Part.RECEIVED, giver=giver)
    if one.part is Part.MADE and one.node in absent:
        return replace(one, why=(*one.why, fact(_ABSENT)))
    return one


def _givers(pairing: Pairing, wanted: set[int]) -> dict[int, int]:
    """By the wanted calls the one that gave each NaN or infinity, if any did."""
    found: dict[int, int] = {}
    for together in pairing.together:
        for call in together.calls:
            if call.node not in wanted:
                continue
            for other in together.calls:
                gives = together.root is None or together.root in (other.rank, call.rank)
                if other is not call and gives and any(map(_is_bad, _sent(other))):
                    found.setdefault(call.node, other.node)
    for one in pairing.deliveries:
        if one.receive.node in wanted and one.sent is not None and _is_bad(one.sent):
            found.setdefault(one.receive.node, one.send.node)
    return found


def _sent(call: Call) -> list[Leaf]:
    """What a call gives to others: not the buffers that it is to fill."""
    sent, received = call.function.sent, call.function.received
    if sent is not None:
        return [leaf for (name, _), leaf in call.before.items() if name == sent.parameter]
    filled = None if received is None else received.parameter
    return [leaf for (name, _), leaf in call.before.items() if name != filled]


def _is_bad(leaf: Leaf) -> bool:
    known = [one for one in leaf.statistics if one is not None]
    return any(map(math.isnan, known)) or any(map(math.isinf, known[:2]))


def origin_of(found: Iterable[StoredBeginning]) -> StoredBeginning | None:
    """The call of one side with which it began: in the first step, made before given."""
    known = sorted(found, key=lambda one: (one.step, one.seq, one.rank))
    known = [one for one in known if one.step == known[0].step]
    began = first_of_ranks(known)
    for chosen in (
        [one for one in known if one.part is Part.MADE and one.why],
        [one for one in began if one.part is Part.GIVEN],
        known,
    ):
        if chosen:
            return chosen[0]
    return None


def first_of_ranks(found: Iterable[StoredBeginning]) -> list[StoredBeginning]:
    """The first of each side, step and rank."""
    return [
        of_rank[0] for of_rank in _by(found, lambda one: (one.side, one.step, one.rank)).values()
    ]


def violations(found: Sequence[StoredBeginning]) -> list[Violation]:
    """The call with which it began as a suspect of a run without a reference."""
    origin = origin_of(found)
    if origin is None:
        return []
    of_step = [one for one in found if one.step == origin.step]
    others = [
        one for one in of_step if one.part is Part.MADE and one.why and one.node != origin.node
    ]
    alike = sorted({one.rank for one in others if one.name == origin.name} | {origin.rank})
    evidence = [*origin.why]
    if len(alike) > 1:
        evidence.append(fact("origin.alike", ranks=alike))
    evidence.append(_rest(origin, of_step, [one for one in others if one.name != origin.name]))
    weak = has_code(origin.why, *_WEAK)
    return [
        Violation(
            origin.node,
            Check.FINITE,
            tuple(evidence),
            Strength.WEAK if weak else Strength.STRONG,
            ranks=tuple(alike) if len(alike) > 1 else (),
        )
    ]


def _rest(
    origin: StoredBeginning, of_step: Sequence[StoredBeginning], others: Sequence[StoredBeginning]
) -> Fact:
    """Whether all else with NaN or infinity comes of it."""
    if others:
        return fact("origin.others", count=len(others), rank=others[0].rank, name=others[0].name)
    ranks = sorted({one.rank for one in of_step} - {origin.rank})
    if not ranks:
        return fact("origin.all")
    return fact("origin.all_on", count=len(ranks), ranks=ranks)


def received_at(
    found: Sequence[StoredBeginning],
) -> dict[tuple[int, int], Facts]:
    """By step and rank that it did not begin on, what is said of it there."""
    origin = origin_of(found)
    return {
        (one.step, one.rank): (fact("origin.received", first=one.name, rank=origin.rank),)
        for one in first_of_ranks(found)
        if origin is not None and one.step == origin.step and one.rank != origin.rank
    }


def told(connection: sqlite3.Connection, found: Sequence[StoredBeginning]) -> Iterator[Diagnostic]:
    """Where it began, of each side, for who asked for the levels."""
    for side, of_side in _by(found, lambda one: one.side).items():
        origin = origin_of(of_side)
        if origin is None:
            continue
        line = _at(read_source(connection, origin.node))
        said = fact("note.origin", rank=origin.rank, name=origin.name, line=line, why=origin.why)
        if has_code(origin.why, _OF_MERGED):
            said = fact("note.origin.merged", name=origin.name, line=line, why=origin.why)
        yield Diagnostic("warning", "overflow_origin", said, origin.name).at(
            side=side, step=origin.step, rank=origin.rank
        )


def _at(line: str | None) -> Fact | None:
    return None if line is None else fact("accused.source", line=line)


def _by(
    found: Iterable[StoredBeginning], key: Callable[[StoredBeginning], Key]
) -> dict[Key, list[StoredBeginning]]:
    result: dict[Key, list[StoredBeginning]] = {}
    for one in found:
        result.setdefault(key(one), []).append(one)
    return result
