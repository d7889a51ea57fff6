"""Who makes what drawn calls take in, plainly and as alignment sees it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import cast

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from tests.alignment.plain_sides import Plain
from tests.alignment.test_traits import numel
from tests.builder.small_dumps import Record

Int = NDArray[np.int64]
Edge = tuple[int, int]  # a node, and the place of a tensor that it takes in or puts out


@dataclass(frozen=True)
class Table:
    """The columns of a parameter table that flow looks at; sizes tell shapes here."""

    node: Int
    section: Int
    position: Int
    is_tensor: NDArray[np.bool_]
    numel: NDArray[np.float64]
    shape_id: Int

    def __len__(self) -> int:
        return len(self.node)


@dataclass(frozen=True)
class PlainFlow:
    """By node and place, who put out what is taken in; and the same as alignment has it."""

    given: dict[Edge, Edge]
    flow: Flow

    def makers(self, node: int) -> list[int]:
        """By place of all inputs of a node, -1 where nobody is known."""
        places = [place for one, place in self.all_inputs if one == node]
        return [self.given.get((node, place), (-1, 0))[0] for place in places]

    @property
    def all_inputs(self) -> list[Edge]:
        table = self.flow.table
        return [
            (int(node), int(place))
            for node, place, section in zip(table.node, table.position, table.section, strict=True)
            if section == Section.INPUT
        ]

    def takers(self, node: int) -> list[Edge]:
        return [taken for taken, (maker, _) in self.given.items() if maker == node]


def some_flow(
    random: Random,
    plain: Plain,
    known: float = 0.7,
    *,
    is_guessed: bool = False,
    told: dict[Edge, Edge] | None = None,
) -> PlainFlow:
    """Leaves take in what some leaf before them put out, or nobody is known to have.

    ``told`` is by whom, instead of any.
    """
    node, section, place, source, sizes = (list[int]() for _ in range(5))
    made: list[tuple[int, Edge]] = []  # rows of what leaves put out
    given: dict[Edge, Edge] = {}
    for one in range(len(plain)):
        rows: list[tuple[Section, tuple[Record, ...]]] = [
            (Section.INPUT, plain[one].inputs),
            (Section.PARAMETERS, plain[one].parameters),
            (Section.OUTPUT, plain[one].outputs),
        ]
        outputs = []
        for part, tensors in rows:
            for number in range(len(tensors)):
                if part == Section.OUTPUT and plain.leaf(one):
                    outputs.append((len(node), (one, number)))
                maker = -1
                is_input = part == Section.INPUT and plain.leaf(one)
                if is_input and told is not None and (one, number) in told:
                    given[one, number] = told[one, number]
                    [maker] = [row for row, edge in made if edge == told[one, number]]
                elif is_input and told is None and made and random.random() < known:
                    maker, given[one, number] = random.choice(made[-6:])
                node.append(one)
                section.append(int(part))
                place.append(number)
                sizes.append(numel(tensors[number]))
                source.append(maker)
        made += outputs
    table = Table(
        node=np.array(node, dtype=np.int64),
        section=np.array(section, dtype=np.int64),
        position=np.array(place, dtype=np.int64),
        is_tensor=np.ones(len(node), dtype=bool),
        numel=np.array(sizes, dtype=np.float64),
        shape_id=np.array(sizes, dtype=np.int64),
    )
    rows_of = np.array(source, dtype=np.int64)
    takers = np.argsort(rows_of, kind="stable")
    flow = Flow(
        cast("ParameterTable", table),
        np.array([plain.leaf(one) for one in range(len(plain))]),
        np.ones(len(node), dtype=np.int64),
        rows_of,
        rows_of,
        takers,
        rows_of[takers],
        np.searchsorted(table.node, np.arange(len(plain) + 1)),
        is_guessed,
    )
    return PlainFlow(given, flow)
