"""Small random graphs of both sides as plain values, and the same as a database.

What is asked of a file is looked up in these values by the tests, without SQL and columns.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from msprobe_builder.base.codes import Kind, Section
from msprobe_builder.database.migrations import lay_out
from msprobe_builder.database.read.graphs import Graph, find_graph

STEMS = {
    Kind.MODULE: ("Module.a.Net", "Module.a.Other", "Module.b.Net", "Module.a.b.Net"),
    Kind.API: ("Torch.add", "Tensor.add", "Torch.mul"),
    Kind.COLLECTION: ("Apis_Between_Modules.0", "Apis_Between_Modules.1"),
}
REASONS = ("no_such_name", "other_parent")
_FIRST = (10, 500)  # nodes of both sides in the first rank
_PER_RANK = 1000  # from the first node of a rank to that of the next
_UNMATCHED = 6
# Of one number each, so that a failure names it and is not made smaller for minutes.
RANDOMS = st.integers(0, 2**32 - 1).map(lambda seed: Seeded(seed))


class Seeded(Random):
    """Choices that follow from a number, which is shown where they lead to a failure."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._number = seed

    def __repr__(self) -> str:
        return f"Seeded({self._number})"


@dataclass
class Parameter:
    """A tensor, or an argument that is none: then ``shape`` and all that follows is None."""

    section: Section
    shape: str | None
    dtype: str | None = None
    extremes: tuple[float, float] | None = None  # the largest element and the smallest
    norm: float | None = None
    is_nan: bool = False  # the norm


@dataclass
class Node:
    """A row of table ``node``."""

    node: int
    parent: int | None
    end: int
    kind: Kind
    stem: str
    direction: int = 0
    call: int | None = None
    micro_step: int = 0
    grade: int = 0
    error: float | None = None
    overflow: int | None = None
    parameters: list[Parameter] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As dumps have it."""
        word = ("", "forward", "backward")[self.direction]
        if not word:
            return self.stem
        parts = (self.call, word) if self.kind == Kind.API else (word, self.call)
        return f"{self.stem}.{parts[0]}.{parts[1]}"

    @property
    def path(self) -> str:
        """Where a module lies in the model, without its class; empty for what is no module."""
        return self.stem.rpartition(".")[0] if self.kind == Kind.MODULE else ""

    @property
    def operator(self) -> str:
        """What an API does, the class of a module."""
        return self.stem.rpartition(".")[2]


@dataclass
class Pair:
    """Both sides of a rank, who is matched with whom, and what the build found likely."""

    rank: int
    sides: tuple[dict[int, Node], dict[int, Node]]
    matches: dict[int, int]  # of npu nodes
    sources: dict[int, int]  # of npu nodes
    reasons: dict[int, str]  # of nodes of both sides without a partner
    roles: dict[int, int]  # of npu nodes, as far as a verdict says; empty without a verdict
    likely: dict[int, dict[int, float]]  # of npu nodes

    def partners(self, side: int) -> dict[int, int]:
        """Of the nodes of one side."""
        if side == 0:
            return self.matches
        return {bench: npu for npu, bench in self.matches.items()}


def random_pair(random: Random, rank: int = 0) -> Pair:
    """A rank of some nodes; most matches are in order, as in real comparisons."""
    sides = _tree(random, _FIRST[0] + rank * _PER_RANK), _tree(random, _FIRST[1] + rank * _PER_RANK)
    npu, bench = (list(side) for side in sides)
    count = random.randrange(min(len(npu), len(bench)))
    own, other = sorted(random.sample(npu[1:], count)), sorted(random.sample(bench[1:], count))
    if random.random() < 0.3:
        random.shuffle(other)
    matches = dict(zip(own, other, strict=True))
    if random.random() < 0.9:
        matches[npu[0]] = bench[0]
    alone = [*(sides[0].keys() - matches), *(sides[1].keys() - set(matches.values()))]
    for node in alone:
        sides[node not in sides[0]][node].grade = _UNMATCHED
    likely = {
        node: {one: random.choice((0.25, 0.5)) for one in random.sample(bench, 2)}
        for node in random.sample(npu, len(npu) // 3)
        if len(bench) > 1
    }
    sources = {node: random.randrange(6) for node in matches}
    reasons = {one: random.choice(REASONS) for one in alone}
    judged = random.sample(npu, random.randint(1, len(npu))) if random.random() < 0.7 else []
    roles = {node: random.randrange(5) for node in judged}
    return Pair(rank, sides, matches, sources, reasons, roles, likely)


def _tree(random: Random, first: int) -> dict[int, Node]:
    root = random.choice(("DefaultModel", "DefaultModel", "OtherModel"))
    nodes = {first: Node(first, None, first, Kind.MODULE, root)}
    around = [first]
    for node in range(first + 1, first + random.randint(1, 14)):
        while len(around) > 1 and random.random() < 0.4:
            around.pop()
        kind = random.choice((Kind.MODULE, Kind.MODULE, Kind.API, Kind.API, Kind.COLLECTION))
        made = Node(node, around[-1], node, kind, random.choice(STEMS[kind]))
        nodes[node] = made
        for above in around:
            nodes[above].end = node
        if kind != Kind.API:
            around.append(node)
        made.micro_step = random.randrange(2)
        made.grade = random.randrange(_UNMATCHED)
        made.error = random.choice((None, 0.0, 0.5, 1.0))
        made.overflow = random.choice((None, None, 1, 2, 3))
        if kind != Kind.COLLECTION:
            made.direction, made.call = random.choice((1, 1, 2)), random.choice((0, 1, 12))
            made.parameters = [_parameter(random) for _ in range(random.randrange(4))]
    return nodes


def _parameter(random: Random) -> Parameter:
    section = random.choice((*Section, Section.INPUT, Section.OUTPUT, Section.OUTPUT))
    if random.random() < 0.3:
        return Parameter(section, None)
    is_nan = random.random() < 0.2
    number = random.choice((1.0, 1.0 + 3e-6, 2.0, 0.0))
    return Parameter(
        section,
        random.choice(("[2]", "[2]", "[2, 3]")),
        random.choice(("torch.float32", "Float16")),
        None if is_nan else (number, random.choice((0.0, 0.0, -1.0))),
        None if is_nan or random.random() < 0.1 else number,
        is_nan,
    )


@contextmanager
def written(pairs: Sequence[Pair]) -> Iterator[sqlite3.Connection]:
    """The pairs of ranks as a database."""
    nodes = [one for pair in pairs for side in pair.sides for one in side.values()]
    tensors = [one for node in nodes for one in node.parameters if one.shape is not None]
    texts = dict.fromkeys(
        text for text in (
            "input.0", *(node.stem for node in nodes), *(one.shape for one in tensors),
            *(one.dtype for one in tensors),
        ) if text is not None
    )  # fmt: skip
    number = {text: place for place, text in enumerate(texts, start=1)}
    with closing(sqlite3.connect(":memory:")) as connection:
        lay_out(connection)
        insert = connection.executemany
        insert("INSERT INTO text (value, text_id) VALUES (?, ?)", number.items())
        insert("INSERT INTO unmatched_reason VALUES (?, ?)", enumerate(REASONS))
        if any(pair.roles for pair in pairs):
            connection.execute(
                "INSERT INTO verdict (conclusion, sentence, compared) VALUES ('clean', '', 0)"
            )
        for pair in pairs:
            insert("INSERT INTO role (node_id, role) VALUES (?, ?)", pair.roles.items())
            for side, found in enumerate(pair.sides):
                graph = 2 * pair.rank + side
                connection.execute(
                    "INSERT INTO graph VALUES"
                    " (?, ?, 0, ?, ?, ?, 2, NULL, NULL, '', NULL, NULL, NULL)",
                    (graph, side, pair.rank, min(found), len(found)),
                )
                for node in found.values():
                    _write(connection, node, graph, number)
            insert(
                "INSERT INTO match (npu_node, bench_node, source) VALUES (?, ?, ?)",
                [(npu, bench, pair.sources[npu]) for npu, bench in pair.matches.items()],
            )
            insert(
                "INSERT INTO unmatched VALUES (?, ?, NULL, NULL)",
                [(node, REASONS.index(reason)) for node, reason in pair.reasons.items()],
            )
            insert(
                "INSERT INTO likely VALUES (?, ?, ?, ?)",
                [
                    (node, place, *candidate)
                    for node, candidates in pair.likely.items()
                    for place, candidate in enumerate(candidates.items())
                ],
            )
        yield connection


def _write(connection: sqlite3.Connection, node: Node, graph: int, number: dict[str, int]) -> None:
    connection.execute(
        "INSERT INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, ?, ?, ?)",
        (
            node.node, graph, node.parent, node.end, int(node.kind), number[node.stem],
            node.direction, node.call, node.micro_step, node.error, node.grade, node.overflow,
        ),
    )  # fmt: skip
    for place, one in enumerate(node.parameters):
        if one.shape is None or one.dtype is None:
            connection.execute(
                "INSERT INTO argument VALUES (?, ?, ?, 1, NULL, NULL)",
                (node.node, place, int(one.section)),
            )
        else:
            connection.execute(
                "INSERT INTO tensor VALUES (?, ?, ?, 1, NULL, ?, ?, NULL, ?, ?, NULL, ?, ?, NULL,"
                " NULL, NULL)",
                (
                    node.node, place, int(one.section), number[one.dtype], number[one.shape],
                    *(one.extremes or (None, None)), one.norm, 8 if one.is_nan else 0,
                ),
            )  # fmt: skip


def graph_of(connection: sqlite3.Connection, pair: Pair, side: int) -> Graph:
    """One side as the readers know it."""
    graph = find_graph(connection, 0, pair.rank, side)
    assert graph is not None
    return graph
