"""Candidates of nodes of small random graphs, against the documented rules spelled out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.codes import Kind, Section
from msprobe_builder.database.migrations import lay_out
from msprobe_builder.database.read.graphs import Graph, find_graph
from tb_graph_ascend.query.candidates import SHOWN, rank_candidates
from tests.plugin.test_candidates import REASONS

STEMS = {
    Kind.MODULE: ("Module.a.Net", "Module.a.Other", "Module.b.Net", "Module.a.b.Net"),
    Kind.API: ("Torch.add", "Tensor.add", "Torch.mul"),
}
FIRST = (10, 500)  # nodes of both sides


@dataclass
class Node:
    """A node as it is written into the tables; ``parameters`` are section, shape and extreme."""

    node: int
    parent: int | None
    end: int
    kind: Kind
    stem: str
    direction: int
    call: int | None
    parameters: list[tuple[int, str | None, float]]


@dataclass
class Example:
    """Two graphs, who is matched with whom, and what the build found likely."""

    sides: tuple[dict[int, Node], dict[int, Node]]
    matches: dict[int, int]  # of npu nodes
    likely: dict[int, dict[int, float]]


def example(random: Random) -> Example:
    sides = tree(random, FIRST[0]), tree(random, FIRST[1])
    npu, bench = (list(side) for side in sides)
    count = random.randrange(min(len(npu), len(bench)))
    # Most matches are in order, as in real comparisons, and some cross.
    own = sorted(random.sample(npu[1:], count)) if count < len(npu) else []
    other = sorted(random.sample(bench[1:], len(own))) if len(own) < len(bench) else []
    if random.random() < 0.3:
        random.shuffle(other)
    matches = dict(zip(own, other, strict=False))
    if random.random() < 0.9:
        matches[npu[0]] = bench[0]
    likely = {
        node: {one: random.choice((0.25, 0.5)) for one in random.sample(bench, 2)}
        for node in random.sample(npu, len(npu) // 3)
        if len(bench) > 1
    }
    return Example(sides, matches, likely)


def tree(random: Random, first: int) -> dict[int, Node]:
    nodes = {first: Node(first, None, first, Kind.MODULE, "DefaultModel", 0, None, [])}
    open_ = [first]
    for node in range(first + 1, first + random.randint(1, 14)):
        while len(open_) > 1 and random.random() < 0.4:
            open_.pop()
        kind = random.choice((Kind.MODULE, Kind.API))
        parameters: list[tuple[int, str | None, float]] = [
            (
                random.choice((Section.INPUT, Section.OUTPUT, Section.PARAMETERS)),
                random.choice(("[2]", "[3]", None)),  # None: an argument that is no tensor
                random.choice((1.0, 1.0 + 3e-6, 2.0, 0.0)),
            )
            for _ in range(random.randrange(3))
        ]
        call = random.randrange(2)
        nodes[node] = Node(
            node, open_[-1], node, kind, random.choice(STEMS[kind]), random.choice((1, 1, 2)), call,
            parameters,
        )  # fmt: skip
        for above in open_:
            nodes[above].end = node
        if kind == Kind.MODULE:
            open_.append(node)
    return nodes


@contextmanager
def written(made: Example) -> Iterator[tuple[sqlite3.Connection, Graph, Graph]]:
    """The example as a database."""
    with closing(sqlite3.connect(":memory:")) as connection:
        lay_out(connection)
        texts = dict.fromkeys(
            ["[2]", "[3]", *(node.stem for side in made.sides for node in side.values())]
        )
        number = {text: place for place, text in enumerate(texts, start=1)}
        connection.executemany(
            "INSERT INTO text VALUES (?, ?)", [(n, t) for t, n in number.items()]
        )
        for side, nodes in enumerate(made.sides):
            connection.execute(
                "INSERT INTO graph VALUES (?, ?, 0, 0, ?, ?, 1, NULL, NULL, '', NULL, NULL)",
                (side, side, FIRST[side], len(nodes)),
            )
            for one in nodes.values():
                connection.execute(
                    "INSERT INTO node (node_id, graph_id, parent_id, subtree_end, kind, stem_id,"
                    " direction, call, micro_step) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
                    (one.node, side, one.parent, one.end, int(one.kind), number[one.stem],
                     one.direction, one.call),
                )  # fmt: skip
                for place, (section, shape, extreme) in enumerate(one.parameters):
                    if shape is None:
                        connection.execute(
                            "INSERT INTO argument VALUES (?, ?, ?, 1, NULL, NULL)",
                            (one.node, place, section),
                        )
                    else:
                        connection.execute(
                            "INSERT INTO tensor (node_id, ordinal, section, name_id, shape_id, max,"
                            " min, norm) VALUES (?, ?, ?, 1, ?, ?, 0, ?)",
                            (one.node, place, section, number[shape], extreme, extreme),
                        )
        connection.executemany(
            "INSERT INTO match (npu_node, bench_node) VALUES (?, ?)", made.matches.items()
        )
        for node, candidates in made.likely.items():
            connection.executemany(
                "INSERT INTO likely VALUES (?, ?, ?, ?)",
                [(node, place, one, sure) for place, (one, sure) in enumerate(candidates.items())],
            )
        npu, bench = (find_graph(connection, 0, 0, side) for side in (0, 1))
        assert npu is not None
        assert bench is not None
        yield connection, npu, bench


def path_of(node: Node) -> str:
    return node.stem.rpartition(".")[0] if node.kind == Kind.MODULE else ""


def operator_of(node: Node) -> str:
    return node.stem.rpartition(".")[2]


def outputs_of(node: Node) -> list[float]:
    return [
        extreme
        for section, shape, extreme in node.parameters
        if section == Section.OUTPUT and shape is not None and extreme != 0
    ]


def place_of(
    own: Node, nodes: dict[int, Node], others: dict[int, Node], partner: dict[int, int]
) -> tuple[range, bool, int]:
    """Between which nodes of the other side a node belongs, whether by both ends, and where."""
    before = max((one for one in partner if min(nodes) <= one < own.node), default=None)
    behind = min((one for one in partner if own.end < one <= max(nodes)), default=None)
    first = min(others) if before is None else partner[before]
    away = own.node - (min(nodes) if before is None else before)
    end = 0 if behind is None else partner[behind]
    last = end - 1 if first < end else max(others)
    return range(first + 1, last + 1), first < end, min(first + away, last)


def reasons_of(
    own: Node, one: Node, partner: dict[int, int], place: range, has_both: bool
) -> list[str]:
    host = None if own.parent is None else partner.get(own.parent)
    is_sibling = host is not None and one.parent == host
    is_equal = any(
        abs(left - right) <= 1e-5 * left for left in outputs_of(own) for right in outputs_of(one)
    )
    has_name = (own.stem, own.call) == (one.stem, one.call)
    sections, others = ([part[0] for part in node.parameters] for node in (own, one))
    shapes, other_shapes = ([part[:2] for part in node.parameters] for node in (own, one))
    holds = {
        "same_values": is_equal,
        "same_name": has_name,
        "same_path": not has_name
        and path_of(own) != ""
        and (path_of(own), own.call) == (path_of(one), one.call),
        "same_neighbours": has_both and one.node in place,
        "same_operator": operator_of(own) == operator_of(one),
        "same_parent": is_sibling,
        "same_shapes": shapes == other_shapes,
        "same_parameters": sections == others,
        "same_order": is_sibling and one.node - (one.parent or 0) == own.node - (own.parent or 0),
    }
    return [reason for reason in REASONS if holds[reason]]


@given(st.randoms(use_true_random=False))
def test_candidates_are_those_and_in_the_order_that_is_documented(random: Random) -> None:
    made = example(random)
    back = {bench: npu for npu, bench in made.matches.items()}
    with written(made) as (connection, npu, bench):
        for side, graph, other in ((0, npu, bench), (1, bench, npu)):
            nodes, others = made.sides[side], made.sides[1 - side]
            partner, taken = (made.matches, back) if side == 0 else (back, made.matches)
            for own in nodes.values():
                likely = made.likely.get(own.node, {}) if side == 0 else {}
                place, has_both, expected = place_of(own, nodes, others, partner)
                host = None if own.parent is None else partner.get(own.parent)
                ranked = {}
                for one in others.values():
                    is_alike = (
                        operator_of(own) == operator_of(one)
                        or (path_of(own) != "" and path_of(own) == path_of(one))
                        or (host is not None and one.parent == host)
                    )
                    is_near = own.parent is not None and one.node in place
                    is_like = (one.kind, one.direction) == (own.kind, own.direction)
                    is_root = one.parent is None and own.parent is not None
                    fits = is_like and not is_root and (is_alike or is_near)
                    if not fits and one.node not in likely:
                        continue
                    reasons = reasons_of(own, one, partner, place, has_both)
                    lacking = tuple(reason not in reasons for reason in REASONS)
                    away = abs(one.node - expected)
                    key = (-likely.get(one.node, 0.0), lacking, one.node in taken, away)
                    ranked[one.node] = key, reasons
                found = rank_candidates(connection, graph, other, own.node)
                keys = [ranked[other.first + candidate.index][0] for candidate in found]
                assert keys == sorted(key for key, _ in ranked.values())[:SHOWN]
                for candidate in found:
                    one = others[other.first + candidate.index]
                    assert sorted(candidate.reasons) == sorted(ranked[one.node][1])
                    assert candidate.likelihood == likely.get(one.node)
                    taker = taken.get(one.node)
                    assert candidate.matched == (None if taker is None else taker - graph.first)
