"""Drawn programs as plain nodes, and the same as alignment sees them, without any file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import Known
from msprobe_builder.align.evidence.traits import Tensors, Traits, _rank_keys
from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.evidence.words import Words
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Direction, Kind, Name
from msprobe_builder.graph.preorder import extents
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.outline import Outline
from msprobe_builder.match.signature import Signatures
from tests.alignment.test_traits import joined, level_of, numel
from tests.builder.small_dumps import Record

Int = NDArray[np.int64]
SECTIONS = ("inputs", "outputs", "parameters")


@dataclass(frozen=True)
class Node:
    """One node of a side, in the order of the program; 0 is the root."""

    stem: str = "Root"
    parent: int = 0
    operator: int = -1  # -1 for modules
    kind: Kind = Kind.MODULE
    direction: Direction = Direction.FORWARD
    call: int = 0
    inputs: tuple[Record, ...] = ()
    outputs: tuple[Record, ...] = ()
    parameters: tuple[Record, ...] = ()
    arguments: int = 0
    micro_step: int = 0
    again: bool = False  # recomputed

    @property
    def is_module(self) -> bool:
        return self.kind is Kind.MODULE


@dataclass
class Plain:
    """A side as plain nodes, with what is asked of them."""

    nodes: list[Node]
    held: list[list[int]] = field(init=False)  # all that lies below each, itself first

    def __post_init__(self) -> None:
        self.held = [[node] for node in range(len(self.nodes))]
        for node in range(len(self.nodes) - 1, 0, -1):
            above = self.nodes[node].parent
            self.held[above] = [above, *sorted({*self.held[above][1:], *self.held[node]})]

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, node: int) -> Node:
        return self.nodes[node]

    def host(self, node: int) -> int:
        above = max(self.nodes[node].parent, 0) if node else 0
        is_collection = self.nodes[above].kind is Kind.COLLECTION
        return self.nodes[above].parent if is_collection else above

    def children(self, node: int) -> list[int]:
        return [one for one in range(1, len(self)) if self.nodes[one].parent == node]

    def forward(self, node: int) -> bool:
        """Whether it goes forward for the first time."""
        one = self.nodes[node]
        if not node or one.direction is not Direction.FORWARD or one.again:
            return False
        above = one.parent
        while above:
            if self.nodes[above].is_module and self.nodes[above].direction is Direction.BACKWARD:
                return False
            above = self.nodes[above].parent
        return True

    def module(self, node: int) -> bool:
        """Whether it is a module that goes forward for the first time."""
        return self.forward(node) and self.nodes[node].is_module

    def leaf(self, node: int) -> bool:
        """What goes forward for the first time and holds nothing."""
        return self.forward(node) and self.held[node] == [node]

    def weights_below(self, node: int) -> int:
        return sum(numel(one) for inner in self.held[node] for one in self.nodes[inner].parameters)

    def calls_below(self, node: int) -> list[int]:
        return [one for one in self.held[node] if self.nodes[one].operator >= 0]

    def traits(self) -> Traits:
        return traits_of_plain(self)


def shapes(several: Iterable[Record]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(one["shape"]) for one in several)


def elements(several: Iterable[Record]) -> int:
    return sum(numel(one) for one in several)


def level(one: Node, other: Node, section: str) -> int:
    """2 where the numbers of two nodes agree, 1 where they are near."""
    return level_of([*getattr(one, section)], [*getattr(other, section)])


def norm_of(several: Iterable[Record]) -> float:
    return joined([*several])[0]


def _tensors(sections: Sequence[Sequence[Record]]) -> Tensors:
    counts = np.array([len(one) for one in sections], dtype=np.int64)
    keys = [sum(crc32(str(key["shape"]).encode()) for key in one) for one in sections]
    ranks = [
        int(sum(_rank_keys(np.array([len(key["shape"])]))[0] for key in one)) for one in sections
    ]
    return Tensors(
        count=counts,
        shapes=np.array(keys, dtype=np.int64),
        ranks=np.array(ranks, dtype=np.int64),
        numel=np.array([elements(one) for one in sections], dtype=np.float64),
        values=np.array([joined([*one]) for one in sections], dtype=np.float64).reshape(-1, 3).T,
        checksum=np.zeros(len(sections), dtype=np.int64),
    )


def traits_of_plain(plain: Plain) -> Traits:
    nodes = plain.nodes
    parents = [-1, *(one.parent for one in nodes[1:])]
    end, depth = extents(parents)
    parsed = [Name(one.kind, one.stem, one.direction, one.call) for one in nodes]
    steps = np.array([one.micro_step for one in nodes], dtype=np.int64)
    tree = Tree(
        names=[f"{one.stem}.{one.direction}.{one.call}" for one in nodes],
        parsed=parsed,
        parent=np.array(parents, dtype=np.int64),
        subtree_end=end,
        depth=depth,
        micro_step=steps,
        record=np.full(len(nodes), -1, dtype=np.int64),
        is_recompute=np.array([one.again for one in nodes], dtype=bool),
        micro_steps=int(steps.max()) + 1,
    )
    kind = np.array([int(one.kind) for one in nodes], dtype=np.int64)
    host = np.array([plain.host(node) for node in range(len(nodes))], dtype=np.int64)
    below = np.zeros((len(nodes), 64), dtype=np.int32)
    for node in range(len(nodes)):
        for one in plain.calls_below(node):
            below[node, nodes[one].operator % 64] += 1
    sections = {section: _tensors([getattr(one, section) for one in nodes]) for section in SECTIONS}
    squares = [
        sum((one["Norm"] or 0.0) ** 2 for inner in held for one in nodes[inner].parameters)
        for held in plain.held
    ]
    sizes = [plain.weights_below(node) for node in range(len(nodes))]
    content = [
        crc32(f"{size} {histogram.tolist()}".encode())
        for size, histogram in zip(sizes, below, strict=True)
    ]
    return Traits(
        outline=Outline(tree, cast("Signatures", None), kind, host),
        operator=np.array([one.operator for one in nodes], dtype=np.int64),
        direction=np.array([int(one.direction) for one in nodes], dtype=np.int64),
        forward=np.array([plain.forward(node) for node in range(len(nodes))], dtype=bool),
        results=_tensors([one.outputs[:1] for one in nodes]),
        arguments=np.array([one.arguments for one in nodes], dtype=np.int64),
        below=below,
        parameters_below=np.array([squares, sizes], dtype=np.float64),
        content=np.array(content, dtype=np.int64),
        keeps=np.zeros(len(nodes), dtype=bool),
        **sections,
    )


def known_of(left: Traits, right: Traits, **facts: Any) -> Known:
    """What is known of two sides of which nothing is; ``facts`` in place of that."""
    ids: dict[str, int] = {}
    stems = [
        np.array([ids.setdefault(one.stem, len(ids)) for one in side.outline.tree.parsed])
        for side in (left, right)
    ]
    none = [np.full(len(side), -1, dtype=np.int64) for side in (left, right)]
    nought = [np.zeros(len(side), dtype=np.int64) for side in (left, right)]
    nobody = np.empty(0, dtype=np.int64)
    known = Known(
        exact=none[0].copy(),
        words=Words(left.outline.tree),
        other_words=Words(right.outline.tree),
        stem=stems[0],
        other_stem=stems[1],
        call=np.array([one.call for one in left.outline.tree.parsed], dtype=np.int64),
        other_call=np.array([one.call for one in right.outline.tree.parsed], dtype=np.int64),
        twin=none[0].copy(),
        other_twin=none[1].copy(),
        trust=Trust(),
        layouts=nobody,
        padded=nobody,
        moving=nobody,
        products=nobody,
        taking=nobody,
        site=nought[0],
        other_site=nought[1],
        hands_on=none[0].copy(),
        other_hands_on=none[1].copy(),
        guess=none[0].copy(),
        other_guess=none[1].copy(),
    )
    return replace(known, **facts)


@dataclass
class Both:
    """Two drawn sides with some pairs, plainly and as alignment holds them."""

    left: Plain
    right: Plain
    pairs: Pairs

    @property
    def partners(self) -> dict[int, int]:
        found = self.pairs.partner.tolist()
        assert all(self.pairs.back[two] == one for one, two in enumerate(found) if two >= 0)
        assert int((self.pairs.back >= 0).sum()) == sum(two >= 0 for two in found)
        return {one: two for one, two in enumerate(found) if two >= 0}


def both_of(
    left: Plain,
    right: Plain,
    chosen: dict[int, int] | None = None,
    *,
    by_name: Iterable[int] = (),
    asked: Iterable[int] = (),
    **facts: Any,
) -> Both:
    """Two sides with pairs, those ``by_name`` or ``asked`` for and others by evidence."""
    sides = left.traits(), right.traits()
    partner, back = (np.full(len(one), -1, dtype=np.int64) for one in sides)
    for one, two in ({0: 0} | (chosen or {})).items():
        partner[one], back[two] = two, one
    evidence = np.where(partner > 0, int(Evidence.LEAVES), 0)
    evidence[[*by_name]] = 0
    is_asked = np.zeros(len(partner), dtype=bool)
    is_asked[[*asked]] = True
    evidence[is_asked] = 0
    weight = np.where(partner >= 0, 3.0, 0.0)
    known = known_of(*sides, **facts)
    return Both(left, right, Pairs(*sides, known, partner, back, evidence, weight, is_asked))


def fresh(pairs: Pairs) -> Pairs:
    """The same pairs, for another one to go on with."""
    known = pairs.known
    known = replace(
        known,
        guess=known.guess.copy(),
        other_guess=known.other_guess.copy(),
        shift={**known.shift},
        chances=[*known.chances],
        stems={**known.stems},
        taken_stems={*known.taken_stems},
    )
    columns = {
        name: getattr(pairs, name).copy() for name in ("partner", "back", "evidence", "weight")
    }
    sides = [{node: [*some] for node, some in one.items()} for one in pairs.open]
    return replace(pairs, known=known, open=(sides[0], sides[1]), denied={*pairs.denied}, **columns)


def plain_leaves(plain: Plain, step: int) -> list[int]:
    """Calls of a micro-step, and modules that hold weights or nothing."""
    return [
        one
        for one in range(1, len(plain))
        if plain.forward(one)
        and plain[one].micro_step == step
        and (not plain[one].is_module or plain[one].parameters or plain.held[one] == [one])
    ]
