"""What a tensor is made by on one side, back to tensors that pairs and groups put out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, inputs_of, outputs_of
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.parameters import Section

Int = NDArray[np.int64]
Token = tuple[int, int]  # a pair or group, and which of the tensors it puts out; -1 for unknown

_MOST = 80  # calls of one side; so many are no one thing


@dataclass
class Way:
    """What tensors are made by: calls that compute, and those before and behind that only move.

    ``ahead`` stand between the calls of the ``core`` and who takes in the ``results``, which are
    rows; ``behind`` between the core and what is known, by the tensor that they move. ``since`` is
    the last call of those that put out what is known.
    """

    core: set[int] = field(default_factory=set)
    ahead: set[int] = field(default_factory=set)
    behind: dict[Token, set[int]] = field(default_factory=dict)
    tokens: set[Token] = field(default_factory=set)
    results: set[int] = field(default_factory=set)
    since: int = 0

    def joined(self, other: Way) -> Way:
        """What several tensors are made by."""
        behind = {
            token: self.behind.get(token, set()) | other.behind.get(token, set())
            for token in self.behind.keys() | other.behind.keys()
        }
        return Way(
            self.core | other.core,
            self.ahead | other.ahead,
            behind,
            self.tokens | other.tokens,
            self.results | other.results,
            max(self.since, other.since),
        )


class Side:
    """One side, with the number of the pair or group that each call is in, -1 for none.

    ``moved`` are pairs that only move elements and are seen through: who computed them tells what
    they are. ``through`` are modules whose partners make calls.
    """

    def __init__(
        self, traits: Traits, flow: Flow, pairs: Pairs, known: Int, leaf: NDArray[np.bool_]
    ):
        self.traits, self.flow, self.known = traits, flow, known
        self.moving = set(pairs.known.moving.tolist())
        self.moved: set[int] = set()
        self.through = set(np.flatnonzero(flow.is_leaf & (known >= 0) & ~leaf).tolist())
        moves = flow.is_leaf & np.isin(traits.operator, pairs.known.moving)
        self.computing = np.flatnonzero(flow.is_leaf & ~moves & (traits.operator >= 0))
        self.forms = _forms(flow, moves)
        self._by_producer = np.argsort(flow.producer, kind="stable")
        self._producers = flow.producer[self._by_producer]
        table = flow.table
        put_out = (table.section == Section.OUTPUT) & table.is_tensor
        rows = np.flatnonzero(put_out & flow.is_leaf[table.node])
        number = np.where(
            np.isin(table.node[rows], list(self.through)), -1, known[table.node[rows]]
        )
        self._number = np.full(len(table), -1, dtype=np.int64)
        self._place = self._number.copy()
        self._number[rows] = number
        self._place[rows] = np.arange(len(rows)) - np.searchsorted(
            table.node[rows], table.node[rows]
        )

    def token(self, row: int) -> Token | None:
        """What is known of a row that is put out."""
        number = int(self._number[row])
        return (number, int(self._place[row])) if number >= 0 else None

    def know(self, nodes: Collection[int], number: int, rows: Collection[int]) -> None:
        """Let calls be one of a number, which puts out these rows; -1 for no number."""
        self.known[list(nodes)] = number
        for node in nodes:
            made = outputs_of(self.flow, node)
            self._number[made], self._place[made] = number, -1
        for place, row in enumerate(rows):
            if self._number[row] == number:
                self._place[row] = place

    def node(self, row: int) -> int:
        """The call that has a row."""
        return int(self.flow.table.node[row])

    def numel(self, row: int) -> float:
        """The number of elements of a row."""
        return float(self.flow.table.numel[row])

    def source(self, row: int) -> int:
        """The row that was put out and is taken in as a row, before it was only moved."""
        row = int(self.flow.producer[row])
        while row >= 0 and self.node(row) in self.moved:
            row = int(self.flow.producer[inputs_of(self.flow, self.node(row))[0]])
        return row

    def made(self, node: int) -> list[int]:
        """Rows that calls put out and a call takes in."""
        rows = (self.source(row) for row in inputs_of(self.flow, node))
        return [row for row in rows if row >= 0]

    def takers(self, row: int) -> list[int]:
        """The calls that take in what a row puts out."""
        span = slice(*np.searchsorted(self._producers, [row, row + 1]))
        found: list[int] = []
        for node in map(self.node, self._by_producer[span].tolist()):
            if node in self.moved:
                found += (one for made in outputs_of(self.flow, node) for one in self.takers(made))
            else:
                found.append(node)
        return found

    def only_moves(self, node: int) -> bool:
        """Whether a call only moves the elements of one tensor, and all of them into another one.

        What cuts a tensor makes several of it, be it by one call or by one for each.
        """
        made, put_out = self.made(node), outputs_of(self.flow, node)
        if len(made) != 1 or len(put_out) != 1:
            return False
        key, numel = self.flow.key, self.flow.table.numel
        if key[put_out[0]] == key[made[0]] != 0:
            return True
        moves = int(self.traits.operator[node]) in self.moving
        return moves and bool(numel[made[0]] == numel[put_out[0]])

    def all_move(self, nodes: Collection[int]) -> bool:
        """Whether calls move elements, and none computes."""
        return self.moving.issuperset(self.traits.operator[list(nodes)].tolist())

    def puts_out_one(self, node: int) -> bool:
        """Whether a call puts out one tensor."""
        return len(outputs_of(self.flow, node)) == 1

    def given(self, node: int) -> list[int]:
        """Rows that a call takes in and no call computed, as weights are."""
        producer = self.flow.producer
        rows = inputs_of(self.flow, node)
        return [row for row in rows if producer[row] < 0 or self.forms[producer[row]]]

    def bias(self, node: int) -> float:
        """The number of elements that a linear map takes in beside a tensor and a matrix."""
        given = self.given(node)
        given = given[1:] if len(given) == len(inputs_of(self.flow, node)) else given
        return sum(sorted(map(self.numel, given))[:-1])

    def way(self, made: int) -> Way | None:
        """What a tensor that is put out is made by; None for what cannot be told."""
        found = Way(results={made})
        nodes: set[int] = set()
        pending = [made] if made >= 0 else []
        while pending:
            row = pending.pop()
            maker, token = self.node(row), self.token(row)
            if self.forms[row] and row != made:
                continue
            if token:
                found.tokens.add(token)
                found.since = max(found.since, maker)
            elif maker in self.through:
                pending += self.made(maker)
            elif self.known[maker] >= 0 or len(nodes) > _MOST:
                return None
            elif maker not in nodes:
                nodes.add(maker)
                pending += self.made(maker)
        found.ahead = self.moved_to(made) & nodes
        found.results.add(self.core_of(found, made))
        origin: dict[int, Token] = {}
        for node in sorted(nodes - found.ahead):
            if self.only_moves(node):
                row = self.made(node)[0]
                token = self.token(row) or origin.get(self.node(row))
                if token:
                    origin[node] = token
                    found.behind.setdefault(token, set()).add(node)
        found.core = nodes - found.ahead - origin.keys()
        return found

    def moved_to(self, row: int) -> set[int]:
        """The free calls that only move a tensor before it is put out in a row."""
        found: set[int] = set()
        while row >= 0 and self.known[node := self.node(row)] < 0 and self.only_moves(node):
            found.add(node)
            row = self.made(node)[0]
        return found

    def core_of(self, found: Way, row: int) -> int:
        """What the core puts out of a tensor, before it is moved."""
        while self.node(row) in found.ahead:
            row = self.made(self.node(row))[0]
        return row

    def constants(self, found: Way) -> set[int]:
        """Calls on a way that come of nothing that is known."""
        known: set[int] = set()
        for node in sorted(found.core | found.ahead | set().union(*found.behind.values())):
            if any(self.token(row) or self.node(row) in known for row in self.made(node)):
                known.add(node)
        return found.core - known

    def behind(self, row: int, nodes: Collection[int]) -> Token | None:
        """What is known of a tensor that some calls take in, or of that of which it is a form."""
        while row >= 0 and not self.token(row):
            node = self.node(row)
            if node in nodes or not self.only_moves(node):
                return None
            row = self.made(node)[0]
        return self.token(row) if row >= 0 else None

    def taken_outside(self, found: Way, node: int) -> list[int]:
        """What a call on a way puts out for others as well."""
        inside = found.core | found.ahead
        return [
            row
            for row in outputs_of(self.flow, node)
            if row not in found.results and not inside.issuperset(self.takers(row))
        ]

    def shared(self, found: Way) -> set[int]:
        """Calls on a way whose results others take in as well, and what they are made by."""
        pending = [node for node in found.core if self.taken_outside(found, node)]
        shared: set[int] = set()
        while pending:
            node = pending.pop()
            if node not in shared:
                shared.add(node)
                makers = map(self.node, self.made(node))
                pending += [maker for maker in makers if maker in found.core]
        return shared

    def is_whole(self, found: Way) -> bool:
        """Whether all that is computed since what is known is on the way, where flow is guessed."""
        if not self.flow.is_guessed:
            return True
        last = max(map(self.node, found.results))
        between = self.computing[slice(*np.searchsorted(self.computing, [found.since + 1, last]))]
        left = set(between[self.known[between] < 0].tolist()) - found.core
        ways = (self.way(row) for node in left for row in outputs_of(self.flow, node)[:1])
        return not any(one is None or one.tokens for one in ways)


def _forms(flow: Flow, moves: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """By row, whether it is put out by a call that only moves one tensor that no call computed."""
    table, producer = flow.table, flow.producer
    taken = table.is_tensor & (
        (table.section == Section.INPUT) | (table.section == Section.PARAMETERS)
    )
    rows = np.flatnonzero(taken & moves[table.node])
    alone = np.bincount(table.node[rows], minlength=len(moves)) == 1
    rows = rows[alone[table.node[rows]]]
    forms = np.zeros(len(table), dtype=bool)
    put_out = (table.section == Section.OUTPUT) & table.is_tensor
    given = np.zeros(len(moves), dtype=bool)
    while True:
        now = given.copy()
        now[table.node[rows[(producer[rows] < 0) | forms[producer[rows]]]]] = True
        if np.array_equal(now, given):
            return forms
        given = now
        forms = put_out & given[table.node]
