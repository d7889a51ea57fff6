"""The calls of one side as columns, so that each question is asked once for each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import (
    MODULES,
    Direction,
    Kind,
    Name,
    parse_gradients,
)
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Kind as OperatorKind
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.table import operator_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Calls:
    """Columns by node: ``kind``, ``direction``, ``stem`` (a number), ``call``.

    ``stems`` are all stems by their numbers.
    """

    kind: NDArray[np.int8]
    direction: NDArray[np.int8]
    stem: Int
    call: Int
    stems: list[str]

    @cached_property
    def is_api(self) -> Bool:
        """Calls that are no modules."""
        return np.asarray(self.kind == Kind.API)

    @cached_property
    def is_module(self) -> Bool:
        """Modules."""
        return np.asarray(self.kind == Kind.MODULE)

    @cached_property
    def is_forward_call(self) -> Bool:
        """Calls on the way forward that are no modules."""
        return np.asarray(self.is_api & (self.direction == Direction.FORWARD))

    @cached_property
    def last_pass(self) -> int:
        """The last module that ran forward or backward; the optimizer runs in none."""
        passes = self.is_module & (self.direction != Direction.NONE)
        return int(np.flatnonzero(passes).max(initial=0))

    @cached_property
    def operators(self) -> list[Operator]:
        """The operator of each stem, of modules as well."""
        return [operator_of(stem) for stem in self.stems]

    @cached_property
    def _kinds(self) -> tuple[list[Operator], Int]:
        """The operators there are, and by node which of them: many stems have one."""
        places: dict[int, int] = {}
        several: list[Operator] = []
        for one in self.operators:
            if places.setdefault(id(one), len(several)) == len(several):
                several.append(one)
        which = np.array([places[id(one)] for one in self.operators])
        return several, which[self.stem]

    @cached_property
    def operations(self) -> Int:
        """A number for the operator, or class of modules, and the direction of each node."""
        numbers: dict[str, int] = {}
        operator = self.of_stems(lambda stem: numbers.setdefault(_spelt(stem), len(numbers)))
        return np.asarray(operator * len(Direction) + self.direction)

    def of_operators(self, number: Callable[[Operator], int]) -> Int:
        """What ``number`` says of each node's operator."""
        several, which = self._kinds
        return np.array([number(one) for one in several], dtype=np.int64)[which]

    def do(self, question: questions.Question) -> Bool:
        """Calls and modules of whose operator the answer is yes."""
        several, which = self._kinds
        return np.asarray(np.array([question(one) for one in several], dtype=bool)[which])

    def are(self, question: questions.Question) -> Bool:
        """The same of calls that are no modules."""
        return self.do(question) & self.is_api

    @cached_property
    def twin(self) -> Int:
        """The backward call of each forward call and the other way round, -1 without."""
        result = np.full(len(self.stem), -1, dtype=np.int64)
        # One number for all four, as calls have at most nine digits: sorted in one go.
        parts = self.stem << 2 | self.kind
        order = np.argsort((parts << 32 | self.call) << 2 | self.direction, kind="stable")
        order = order[self.direction[order] != Direction.NONE]
        first, second = order[:-1], order[1:]
        same = self.direction[first] != self.direction[second]
        for column in (self.stem, self.kind, self.call):
            same &= column[first] == column[second]
        result[first[same]] = second[same]
        result[second[same]] = first[same]
        return result

    def by_other_operators(self, other: Calls, partner: Int) -> Bool:
        """Calls whose partners are of an operator of another name: ``matmul`` and ``einsum``.

        Their arguments mean other things, and stand at other places.
        """
        numbers: dict[str, int] = {}
        debug, reference = (
            np.array([numbers.setdefault(one.name, len(numbers)) for one in side.operators])
            for side in (self, other)
        )
        differs = debug[self.stem] != reference[other.stem[partner]]
        return np.asarray(differs & self.is_api & (partner >= 0))

    def of_stems(self, number: Callable[[str], int]) -> Int:
        """What ``number`` says of each node's stem."""
        return np.array([number(stem) for stem in self.stems], dtype=np.int64)[self.stem]

    def apis(self, question: Callable[[str], bool]) -> Bool:
        """Calls that are no modules of whose stem the answer is yes.

        Gradients of parameters may have as many stems as there are passes: they are not asked.
        """
        answers = np.zeros(len(self.stems), dtype=bool)
        answers[self.stem[self.is_api]] = True
        asked = np.flatnonzero(answers)
        answers[asked] = [question(self.stems[stem]) for stem in asked.tolist()]
        return np.asarray(answers[self.stem])


def calls_of(names: Sequence[Name]) -> Calls:
    """The columns of nodes with these names."""
    numbers: dict[str, int] = {}
    # Field by field: taking all names apart at once makes an iterator of each.
    stem = [numbers.setdefault(name.stem, len(numbers)) for name in names]
    return Calls(
        np.fromiter((name.kind for name in names), np.int8, len(stem)),
        np.fromiter((name.direction for name in names), np.int8, len(stem)),
        np.array(stem, dtype=np.int64),
        np.fromiter((name.call for name in names), np.int64, len(stem)),
        list(numbers),
    )


def _spelt(stem: str) -> str:
    is_module = stem.partition(".")[0] in MODULES
    return stem.rpartition(".")[2] if is_module else operator_of(stem).name


def carries(calls: Calls) -> Bool:
    """Calls that hand on numbers they were given, at other places or in another type."""
    return calls.are(questions.carries)


def communicates(stem: str) -> bool:
    """Whether a call talks to other ranks."""
    return operator_of(stem).kind is OperatorKind.COLLECTIVE


def has_own_gradient(stem: str) -> bool:
    """Whether it is a class of the program's own, ``torch.autograd.Function``, which calls more."""
    name = stem.removeprefix("Torch.")
    return name != stem and name.lstrip("_")[:1].isupper()


def count_gradients_otherwise(own: Calls, other: Calls) -> bool:
    """Whether one side's gradients of parameters are added up and the other's are not.

    Recorders that number the last pass of a step, too, record what gradients have been added up to
    so far; others record what each pass brings, and leave the last without a number.
    """
    if own.stems == other.stems:
        return False  # of which there may be many
    numbered = [
        {call is not None for _, call in filter(None, map(parse_gradients, one.stems))}
        for one in (own, other)
    ]
    return all(numbered) and (numbered[0] == {True}) != (numbered[1] == {True})
