"""The module hierarchy of one rank as columns in execution order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.dump.names import COLLECTION, ROOT, Direction, Kind, Name, format_name
from msprobe_builder.dump.read import Dump
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.call_names import ParsedNames, WrittenNames
from msprobe_builder.graph.calls import Calls, calls_of
from msprobe_builder.graph.entries import Entries
from msprobe_builder.graph.micro_steps import count_rounds
from msprobe_builder.graph.parents import recorded_parents
from msprobe_builder.graph.preorder import ordered

Int = NDArray[np.int64]
# Of so many nodes names are made where they are asked for; of fewer it is faster to have them.
LARGE = 50_000
Node = TypeVar("Node")


@dataclass(frozen=True)
class Tree:
    """Nodes in pre-order: index 0 is the root, a subtree is ``i … subtree_end[i]`` inclusive."""

    names: Sequence[str]
    parsed: Sequence[Name]
    parent: Int  # -1 for the root
    subtree_end: Int
    depth: Int
    micro_step: Int
    record: Int  # number in Dump.records, -1 without
    is_recompute: NDArray[np.bool_]
    micro_steps: int

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def calls(self) -> Calls:
        """The names taken apart as columns."""
        return self.parsed.calls if isinstance(self.parsed, ParsedNames) else calls_of(self.parsed)


def build_tree(dump: Dump) -> tuple[Tree, list[Diagnostic]]:
    """Rebuild the hierarchy of one dump; every call of the dump is in it exactly once."""
    entries, diagnostics = recorded_parents(dump)
    if dump.records:
        lacking = (entries.record < 0) & (entries.calls.kind != Kind.COLLECTION)
        without_record = [entries.names[entry] for entry in np.flatnonzero(lacking).tolist()]
        diagnostics += about(
            "info",
            "call_without_record",
            [name for name in without_record if name not in ("optimizer", "clip_grad")],
            fact("note.without_record"),
        )
    parent, collections, place = _with_collections(entries)
    nodes, parents, end, depth = ordered(parent, place)
    calls = _calls_of_nodes(entries.calls, collections, nodes)

    def of_nodes(column: NDArray[Any], otherwise: int) -> NDArray[Any]:
        """A column of entries by node; the root and collections have none."""
        rest = np.full(len(collections) + 1, otherwise, dtype=column.dtype)
        return np.asarray(np.append(column, rest)[nodes])

    recomputed = of_nodes(entries.recomputed, 0)
    record = of_nodes(entries.record, -1)
    steps = None if entries.micro_step is None else of_nodes(entries.micro_step, -1)
    micro_step, micro_steps = _micro_steps(calls, parents, end, recomputed, steps, dump)
    is_large = len(nodes) >= LARGE
    parsed = ParsedNames(calls) if is_large else list(ParsedNames(calls))
    tree = Tree(
        names=WrittenNames(calls) if is_large else list(map(format_name, parsed)),
        parsed=parsed,
        parent=parents,
        subtree_end=end,
        depth=depth,
        micro_step=micro_step,
        record=record,
        is_recompute=recomputed,
        micro_steps=micro_steps,
    )
    vars(tree)["calls"] = calls  # that otherwise would be made of the names
    return tree, diagnostics


def _with_collections(entries: Entries) -> tuple[Int, list[str], Int]:
    """Replace each run of two or more APIs at the root by a collection that holds them.

    Gives the parents, names of collections, which are numbered behind all entries, and by what
    siblings are ordered.
    """
    parent, names, first = entries.parent.copy(), list[str](), list[int]()
    numbers = count()
    taken = entries.numbers

    def collect(run: list[int]) -> int:
        name = next(name for name in map(f"{COLLECTION}.{{}}".format, numbers) if name not in taken)
        parent[run] = len(entries) + len(names)
        names.append(name)
        first.append(run[0])
        return -1

    top = np.flatnonzero(parent < 0)
    runs_collected(top.tolist(), entries.calls.is_api[top].tolist(), collect)
    at_root = np.full(len(names), -1, dtype=np.int64)
    place = np.r_[np.arange(len(entries)), np.array(first, dtype=np.int64)]
    return np.r_[parent, at_root], names, place


def _calls_of_nodes(calls: Calls, collections: list[str], nodes: Int) -> Calls:
    """The columns of entries, collections and the root in the order of the nodes.

    Stems are numbered in the order in which they come.
    """
    more = len(collections)
    known = {stem: number for number, stem in enumerate(calls.stems)}
    own = [known.setdefault(stem, len(known)) for stem in (*collections, ROOT)]
    stems, stem = list(known), np.r_[calls.stem, own][nodes]
    first = np.full(len(stems), len(nodes), dtype=np.int64)
    first[stem[::-1]] = np.arange(len(nodes))[::-1]
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(nodes))]
    number = np.empty(len(stems), dtype=np.int64)
    number[order] = np.arange(len(order))
    kind = np.r_[calls.kind, [int(Kind.COLLECTION)] * more, int(Kind.MODULE)].astype(np.int8)
    none = np.zeros(more + 1, dtype=np.int8)  # neither direction nor number
    return Calls(
        kind[nodes],
        np.r_[calls.direction, none][nodes],
        number[stem],
        np.r_[calls.call, none][nodes],
        [stems[one] for one in order.tolist()],
    )


def runs_collected(
    top: Sequence[Node], is_api: Iterable[bool], collect: Callable[[list[Node]], Node]
) -> list[Node]:
    """The nodes at the root, with ``collect`` of each run of two or more APIs in its place."""
    result: list[Node] = []
    pairs = zip(top, is_api, strict=True)
    for api, group in groupby(pairs, key=lambda pair: pair[1]):
        run = [node for node, _ in group]
        result += [collect(run)] if api and len(run) > 1 else run
    return result


def _micro_steps(
    calls: Calls,
    parent: Int,
    end: Int,
    recomputed: NDArray[np.bool_],
    steps: Int | None,
    dump: Dump,
) -> tuple[Int, int]:
    """Recorded micro-steps where the dump has them (Megatron), else counted rounds, inherited."""
    if steps is None:
        top = np.flatnonzero(parent == 0)
        names = dict(zip(top.tolist(), _names_of(calls, top), strict=True))
        rounds, number = count_rounds(
            list(names), names.__getitem__, lambda node: bool(recomputed[node])
        )
        counted = np.zeros(len(parent), dtype=np.int64)
        counted[1:] = np.repeat(np.array(rounds, dtype=np.int64), end[top] + 1 - top)
        return counted, number
    recorded = dump.construct.micro_step or {}
    result = steps.tolist()
    result[0] = 0
    is_collection = (calls.kind == Kind.COLLECTION).tolist()
    above = parent.tolist()
    for node in range(1, len(result)):
        if result[node] < 0 and is_collection[node]:
            first = result[node + 1] if node + 1 < len(result) else -1
            result[node] = max(first, 0)
        elif result[node] < 0:
            result[node] = result[above[node]]
    number = max(dump.construct.micro_steps, 1 + max(recorded.values(), default=0))
    return np.array(result, dtype=np.int64), number


def _names_of(calls: Calls, nodes: Int) -> list[Name]:
    parsed = ParsedNames(calls)
    return [parsed[node] for node in nodes.tolist()]


def is_outside_of_modules(tree: Tree, node: int) -> bool:
    """Whether no module calls it."""
    above = tree.parsed[int(tree.parent[node])]
    return above.kind is not Kind.MODULE or above.direction is Direction.NONE
