"""What the ranks of one step have recorded that they can be checked by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Direction, Kind, Section
from msprobe_builder.dump.flow_layout import Maker
from msprobe_builder.dump.names import module_path, parse_gradients, without_wrappers
from msprobe_builder.graph.calls import communicates
from msprobe_builder.invariants.tolerances import of_sketches
from msprobe_builder.link.calls import Call, Leaf, Place
from msprobe_builder.operators.table import is_in_place
from msprobe_builder.sketch.definition import FLAT

Floats = NDArray[np.float64]
At = tuple[int, int]  # node and ordinal of a tensor
_LENGTH = re.compile(r"\d+")


class Owner(NamedTuple):
    """Whose memory it is, by its name in the model."""

    kind: Maker
    name: str


_NAMED = (Maker.PARAMETER, Maker.BUFFER, Maker.GRADIENT)


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """A tensor of a call; ``sketch`` are its numbers, None without or where they leave out any.

    ``maker`` is a Maker of flow_layout.py, None where it is not known; ``made_at`` where the call
    put it out, or was given it and wrote to it.
    """

    node: int
    ordinal: int
    section: int
    name: str
    dtype: str
    shape: str
    largest: float | None
    least: float | None
    mean: float | None
    norm: float | None
    sketch: NDArray[np.float32] | None
    maker: int | None
    made_at: At | None
    maker_name: str | None

    @property
    def flat(self) -> Floats:
        """The numbers of its sketch that keep in any shape, (FLAT,); zeros without one."""
        return np.zeros(FLAT) if self.sketch is None else self.sketch[:FLAT].astype(np.float64)

    @property
    def at(self) -> At:
        """Where it stands."""
        return self.node, self.ordinal

    @property
    def owner(self) -> Owner | None:
        """The parameter, buffer or gradient that it is, before any call has written to it."""
        if self.maker not in _NAMED or self.maker_name is None:
            return None
        return Owner(Maker(self.maker), without_wrappers(self.maker_name))

    @property
    def is_written(self) -> bool:
        """Whether it stands where a call that writes in place has what it writes to."""
        return self.name == "input.0" or self.name.startswith("input.0.")

    @property
    def size(self) -> float:
        """Its norm, or what its sketch makes of it."""
        return float(np.linalg.norm(self.flat)) if self.norm is None else self.norm

    @property
    def is_constant(self) -> bool:
        """Whether all elements are alike, as before any training."""
        return self.largest == self.least

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(int(one) for one in _LENGTH.findall(self.shape))

    @property
    def has_rows(self) -> bool:
        """Whether it has two dimensions or more."""
        return "," in self.shape

    def equals(self, other: Tensor) -> bool | None:
        """Whether both hold the same numbers, in any shape; None when it cannot be told."""
        if self.elements != other.elements:
            return None
        if not self.elements:
            return True  # as parts of an uneven exchange may be
        extremes = (self.largest, self.least), (other.largest, other.least)
        if None not in (*extremes[0], *extremes[1]) and extremes[0] != extremes[1]:
            return _are_both_nan(*extremes) or False
        distance = self.distance(other)
        if distance is None:
            return None
        return distance <= of_sketches(max(self.size, other.size))

    def distance(self, other: Tensor) -> float | None:
        """The norm of the difference; None without sketches."""
        if self.sketch is None or other.sketch is None:
            return None
        return float(np.linalg.norm(self.flat - other.flat))


def _are_both_nan(*extremes: tuple[float | None, float | None]) -> bool | None:
    return None if all(one != one for pair in extremes for one in pair) else False


class Node(NamedTuple):
    """A call of a rank."""

    node: int
    name: str  # with number and direction
    stem: str
    kind: int
    direction: int
    call: int | None
    is_outside: bool  # of all modules


@dataclass(frozen=True)
class Rank:
    """One rank: its calls in the order of execution, and their tensors."""

    rank: int
    nodes: dict[int, Node]
    tensors: dict[int, list[Tensor]]
    calls: Mapping[str, int] = field(default_factory=dict)  # how often each stem is called

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Nodes by their names."""
        return {one.name: one.node for one in self.nodes.values()}

    @cached_property
    def at(self) -> dict[At, Tensor]:
        """Tensors by where they stand."""
        return {one.at: one for each in self.tensors.values() for one in each}

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """Parameters of modules, by their names in the model, as they were first used."""
        return {
            f"{_path(node.stem)}.{one.name.partition('.')[2]}": one
            for node in self.nodes.values()
            if node.kind == Kind.MODULE and node.direction == Direction.FORWARD
            for one in self.tensors.get(node.node, ())
            if one.section == Section.PARAMETERS
        }

    @cached_property
    def of_shapes(self) -> dict[str, list[Tensor]]:
        """Tensors by their shape."""
        found: dict[str, list[Tensor]] = {}
        for each in self.tensors.values():
            for one in each:
                found.setdefault(one.shape, []).append(one)
        return found

    @cached_property
    def brought(self) -> dict[str, list[Tensor]]:
        """What backward passes brought to parameters, by their names in the model."""
        result: dict[str, list[Tensor]] = {}
        for node, tensors in self.tensors.items():
            known = parse_gradients(self.nodes[node].stem)
            for one in tensors if known else ():
                assert known is not None
                name = f"{_path(known[0])}.{one.name.partition('.')[2]}"
                result.setdefault(name, []).append(one)
        return result

    @cached_property
    def owners(self) -> dict[At, Owner]:
        """The parameter, buffer or gradient in whose memory a tensor that a call is given lies.

        By where it stands. What calls write to in place stays what it was.
        """
        found: dict[At, Owner] = {}
        for node in sorted(self.tensors):
            call = self.nodes[node]
            writes = is_in_place(call.stem) or communicates(call.stem)
            for one in self.given(node):
                owner = one.owner or (found.get(one.made_at) if one.made_at else None)
                if owner is None:
                    continue
                found[one.at] = owner
                if writes and one.is_written:
                    twin = f"output{one.name.removeprefix('input')}"
                    for other in self.put_out(node):
                        if other.name == twin:
                            found[other.at] = owner
        return found

    def given(self, node: int) -> list[Tensor]:
        """The tensors that a call is given."""
        return [one for one in self.tensors.get(node, ()) if one.section == Section.INPUT]

    def put_out(self, node: int) -> list[Tensor]:
        """The tensors that a call puts out."""
        return [one for one in self.tensors.get(node, ()) if one.section == Section.OUTPUT]


@dataclass(frozen=True)
class Run:
    """The ranks of one step."""

    step: int
    ranks: dict[int, Rank]

    @cached_property
    def rank_of(self) -> dict[int, int]:
        """The rank of each node."""
        return {node: one.rank for one in self.ranks.values() for node in one.nodes}

    def node(self, node: int) -> Node:
        """A call by its number."""
        return self.ranks[self.rank_of[node]].nodes[node]

    def tensor(self, at: At) -> Tensor | None:
        """A tensor by where it stands."""
        rank = self.rank_of.get(at[0])
        return None if rank is None else self.ranks[rank].at.get(at)


def given_to(run: Run, call: Call, place: Place) -> Tensor | None:
    """What a communication call holds when it begins."""
    return _tensor(run, call, call.before.get(place))


def left_by(run: Run, call: Call, place: Place) -> Tensor | None:
    """What it holds when it is over; None where that may have been recorded before it was.

    Who records sketches waits for the data.
    """
    found = _tensor(run, call, call.after.get(place))
    if found is None or found.sketch is not None:
        return found
    return _tensor(run, call, call.received(place))


def is_on_its_way(run: Run, places: Iterable[tuple[Call, Place]]) -> bool:
    """Whether all of these still hold what they held when their calls began.

    Calls that are gathered to be made together return before they are over.
    """
    return all(_is_unchanged(run, call, place) for call, place in places)


def _is_unchanged(run: Run, call: Call, place: Place) -> bool:
    before, after = call.before.get(place), call.after.get(place)
    if before is None or after is None or not before.same_data(after):
        return False
    own, other = given_to(run, call, place), _tensor(run, call, after)
    return own is None or other is None or own.equals(other) is not False


def _tensor(run: Run, call: Call, leaf: Leaf | None) -> Tensor | None:
    return None if leaf is None else run.tensor((call.node, leaf.ordinal))


def _path(stem: str) -> str:
    return without_wrappers(module_path(stem))


def majority(values: Mapping[int, object]) -> tuple[object, list[int]] | None:
    """What more than half of the ranks have, at least two, and the ranks that have another."""
    ranks_of: dict[object, list[int]] = {}
    for rank, value in values.items():
        ranks_of.setdefault(value, []).append(rank)
    common, holders = max(ranks_of.items(), key=lambda one: len(one[1]))
    if len(holders) < 2 or 2 * len(holders) <= len(values):
        return None
    return common, sorted(rank for rank in values if rank not in holders)


def classes(tensors: Mapping[int, Tensor]) -> dict[int, int] | None:
    """By rank a number for those with equal tensors; None where that cannot be told."""
    examples: list[Tensor] = []
    result: dict[int, int] = {}
    for rank, one in tensors.items():
        answers = [one.equals(example) for example in examples]
        if True in answers:
            result[rank] = answers.index(True)
        elif None in answers:
            return None
        else:
            result[rank] = len(examples)
            examples.append(one)
    return result
