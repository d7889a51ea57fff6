"""What a person asks for: match, unmatch or judge two nodes, with what lies below or the twins."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from msprobe_builder.base.codes import Source
from msprobe_builder.database.read.graphs import BENCH, NPU
from msprobe_builder.database.read.groups import group_of_both, groups_below
from msprobe_builder.database.read.matches import matches_below, partner_of
from msprobe_builder.database.read.tree import read_twins
from msprobe_builder.database.write.matches import stored_match
from msprobe_builder.rematch.below import pairs_below
from msprobe_builder.rematch.edits import (
    CONFIRM,
    MATCH,
    REJECT,
    Edits,
    confirm,
    end,
    make,
    reject_group,
)
from msprobe_builder.rematch.graphs import GraphPair


@dataclass(frozen=True)
class Operation:
    """``action`` on two nodes, given by id; ``replace`` ends matches that stand in the way.

    With ``descendants`` CONFIRM and REJECT judge the automatic matches among all of both subtrees.
    REJECT of two nodes that are in a group together ends the group.
    """

    action: str
    npu: int
    bench: int
    descendants: bool = False
    replace: bool = False
    twin: bool = False


@dataclass(frozen=True)
class Conflict:
    """A node of an operation that is matched with another one."""

    operation: int
    side: int
    node: int
    partner: int | None  # None when it should have one and has none
    is_automatic: bool = True  # False where an automatic match was asked for and it is none


@dataclass(frozen=True)
class Offer:
    """The nodes' calls of the other direction, which could be changed in the same way."""

    operation: int
    npu: int
    bench: int


@dataclass
class Outcome:
    """What the operations met beside the changes that they made."""

    conflicts: list[Conflict] = field(default_factory=list)
    offers: list[Offer] = field(default_factory=list)


def carry_out(edits: Edits, pair: GraphPair, operations: list[Operation]) -> Outcome:
    """Carry out operations one after the other; those that meet a conflict are left out."""
    outcome = Outcome()
    connection = edits.connection
    npu_twin = read_twins(connection, pair.npu, [operation.npu for operation in operations])
    bench_twin = read_twins(connection, pair.bench, [operation.bench for operation in operations])
    for number, operation in enumerate(operations):
        _one(edits, pair, number, operation, operation.npu, operation.bench, outcome, "asked")
        npu, bench = npu_twin.get(operation.npu), bench_twin.get(operation.bench)
        if npu is None or bench is None:
            continue
        if operation.twin:
            _one(edits, pair, number, operation, npu, bench, outcome, "twin")
        elif _is_left(edits, operation.action, npu, bench):
            outcome.offers.append(Offer(number, npu, bench))
    return outcome


def _is_left(edits: Edits, action: str, npu: int, bench: int) -> bool:
    """Whether an action would change something about two nodes."""
    match = stored_match(edits.connection, npu, bench)
    if action in (CONFIRM, REJECT):
        is_automatic = match is not None and match.source == Source.AUTOMATIC
        return is_automatic or (
            action == REJECT and group_of_both(edits.connection, npu, bench) is not None
        )
    return (match is not None) != (action == MATCH)


def _one(
    edits: Edits,
    pair: GraphPair,
    number: int,
    operation: Operation,
    npu: int,
    bench: int,
    outcome: Outcome,
    cause: str,
) -> None:
    connection = edits.connection
    if operation.action == MATCH:
        conflicts = [] if operation.replace else _taken(connection, number, npu, bench)
        outcome.conflicts += conflicts
        if conflicts:
            return
        below = []
        if operation.descendants:
            below = pairs_below(connection, pair, npu, bench, replace=operation.replace)
        make(edits, npu, bench, cause)
        for one, other in below:
            make(edits, one, other, "descendant")
        return
    if operation.action in (CONFIRM, REJECT):
        _judge(edits, number, operation, npu, bench, outcome, cause)
        return
    if partner_of(connection, NPU, npu) == bench:
        end(edits, npu, bench, cause)
    elif cause == "asked" and not operation.descendants:
        outcome.conflicts.append(Conflict(number, 0, npu, partner_of(connection, NPU, npu)))
    if operation.descendants:
        for one, other in matches_below(connection, npu, bench):
            end(edits, one, other, "descendant")


def _judge(
    edits: Edits,
    number: int,
    operation: Operation,
    npu: int,
    bench: int,
    outcome: Outcome,
    cause: str,
) -> None:
    """Confirm or reject an automatic match, or reject a group, and those below when asked for."""
    connection = edits.connection
    pairs = [(npu, bench)]
    if operation.descendants:
        pairs += matches_below(connection, npu, bench)
    for place, (one, other) in enumerate(pairs):
        match = stored_match(connection, one, other)
        if match is None or match.source != Source.AUTOMATIC:
            group = group_of_both(connection, one, other) if operation.action == REJECT else None
            if group is not None:
                reject_group(edits, group, one, other, cause)
                continue
            if not operation.descendants and cause == "asked":
                at = partner_of(connection, NPU, one)
                outcome.conflicts.append(Conflict(number, 0, one, at, is_automatic=False))
            continue
        why = "descendant" if place else cause
        if operation.action == CONFIRM:
            confirm(edits, match, why)
        else:
            end(edits, one, other, why, REJECT)
    if operation.descendants and operation.action == REJECT:
        for group, one, other in groups_below(connection, npu, bench):
            reject_group(edits, group, one, other, "descendant")


def _taken(connection: sqlite3.Connection, number: int, npu: int, bench: int) -> list[Conflict]:
    """Nodes of the two that are matched with another one."""
    partner, other = partner_of(connection, NPU, npu), partner_of(connection, BENCH, bench)
    if partner == bench:
        return []
    found = [(0, npu, partner), (1, bench, other)]
    return [Conflict(number, side, node, at) for side, node, at in found if at is not None]
