"""The module hierarchy of one rank as columns in execution order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, groupby
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.dump.names import (
    COLLECTION,
    ROOT,
    Direction,
    Kind,
    Name,
    module_path,
    parse_gradients,
    parse_name,
)
from msprobe_builder.dump.read import Dump
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.call_names import ParsedNames, WrittenNames
from msprobe_builder.graph.calls import Calls, calls_of
from msprobe_builder.graph.micro_steps import count_rounds
from msprobe_builder.graph.parents import Parents, recorded_parents

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
    parents, parsed, diagnostics = recorded_parents(dump)
    diagnostics += _hang_gradients(parents, parsed, dump)
    without_record = [
        name
        for name in parents
        if name not in dump.records and parsed[name].kind is not Kind.COLLECTION
    ]
    if dump.records:
        diagnostics += about(
            "info",
            "call_without_record",
            [name for name in without_record if name not in ("optimizer", "clip_grad")],
            fact("note.without_record"),
        )
    children = _children(parents)
    _group_apis(children, parsed, taken=parents)
    names, parent = preorder(ROOT, children[None], lambda name: children.get(name, ()))
    tree_parsed = [Name(Kind.MODULE, ROOT, Direction.NONE, 0)]
    tree_parsed += [parsed[name] for name in names[1:]]
    parent_column = np.array(parent, dtype=np.int64)
    end, depth = extents(parent)
    micro_step, micro_steps = _micro_steps(names, parent, children[None], parsed, dump)
    record = np.array([dump.records.get(name, -1) for name in names], dtype=np.int64)
    recomputed = np.isin(record, list(dump.recomputed)) if dump.recomputed else record < -1
    tree = Tree(
        names=names,
        parsed=tree_parsed,
        parent=parent_column,
        subtree_end=end,
        depth=depth,
        micro_step=np.array(micro_step, dtype=np.int64),
        record=record,
        is_recompute=recomputed,
        micro_steps=micro_steps,
    )
    if len(tree) >= LARGE:
        calls = tree.calls
        tree = replace(tree, names=WrittenNames(calls), parsed=ParsedNames(calls))
    return tree, diagnostics


def _hang_gradients(parents: Parents, parsed: dict[str, Name], dump: Dump) -> list[Diagnostic]:
    """Add parameter gradients as last children of the module's last backward call."""
    calls: dict[str, dict[int, str]] = {}  # backward ones by stem
    for entry in parents:
        name = parsed[entry]
        if name.kind is Kind.MODULE and name.direction is Direction.BACKWARD:
            calls.setdefault(name.stem, {})[name.call] = entry
    enclosing: dict[str, str] | None = None  # backward calls by path, made when needed
    homeless = []
    for record in dump.records:
        found = parse_gradients(record) if "parameters_grad" in record else None
        if found is None or record in parents:
            continue
        parsed[record] = parse_name(record)
        stem, call = found
        backward = calls.get(stem)
        if backward:
            parents[record] = backward.get(-1 if call is None else call, backward[max(backward)])
            continue
        if enclosing is None:
            enclosing = _backward_by_path(calls)
        parents[record] = _enclosing(stem, enclosing)
        homeless.append(record)
    return about(
        "info",
        "gradient_without_backward",
        homeless,
        fact("note.gradients_placed"),
    )


def _backward_by_path(calls: dict[str, dict[int, str]]) -> dict[str, str]:
    return {module_path(stem): entries[max(entries)] for stem, entries in calls.items()}


def _enclosing(stem: str, by_path: dict[str, str]) -> str | None:
    path = module_path(stem)
    while "." in path:
        path = path.rpartition(".")[0]
        if path in by_path:
            return by_path[path]
    return None


def _children(parents: Parents) -> dict[str | None, list[str]]:
    children: dict[str | None, list[str]] = {None: []}
    for name, parent in parents.items():
        children.setdefault(parent, []).append(name)
    return children


def _group_apis(
    children: dict[str | None, list[str]], parsed: dict[str, Name], taken: Parents
) -> None:
    """Replace each run of two or more APIs at the root by a collection that holds them."""
    numbers = count()

    def collect(run: list[str]) -> str:
        name = next(name for name in map(f"{COLLECTION}.{{}}".format, numbers) if name not in taken)
        parsed[name] = Name(Kind.COLLECTION, name, Direction.NONE, 0)
        children[name] = run
        return name

    is_api = (parsed[name].kind is Kind.API for name in children[None])
    children[None] = runs_collected(children[None], is_api, collect)


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


def preorder(
    root: Node, top: Sequence[Node], children: Callable[[Node], Sequence[Node]]
) -> tuple[list[Node], list[int]]:
    """``root`` and all nodes below it, parents before children, and the parent of each."""
    nodes, parent = [root], [-1]
    pending = [(node, 0) for node in reversed(top)]
    while pending:
        node, above = pending.pop()
        index = len(nodes)
        nodes.append(node)
        parent.append(above)
        pending.extend([(child, index) for child in reversed(children(node))])
    return nodes, parent


def extents(parent: list[int]) -> tuple[Int, Int]:
    """Last index of each subtree and depth of each node."""
    end = list(range(len(parent)))
    depth = [0] * len(parent)
    for index in range(1, len(parent)):
        depth[index] = depth[parent[index]] + 1
    for index in range(len(parent) - 1, 0, -1):
        if end[index] > end[parent[index]]:
            end[parent[index]] = end[index]
    return np.array(end, dtype=np.int64), np.array(depth, dtype=np.int64)


def _micro_steps(
    names: list[str],
    parent: list[int],
    top: list[str],
    parsed: dict[str, Name],
    dump: Dump,
) -> tuple[list[int], int]:
    """Recorded micro-steps where the dump has them (Megatron), else counted rounds, inherited."""
    recorded = dump.construct.micro_step
    result = [0] * len(names)
    if recorded is None:
        rounds, count = count_rounds(
            top, parsed.__getitem__, lambda name: dump.records.get(name) in dump.recomputed
        )
        of_top = dict(zip(top, rounds, strict=True))
    else:
        count = max(dump.construct.micro_steps, 1 + max(recorded.values(), default=0))
        of_top = {}
    for index in range(1, len(names)):
        name = names[index]
        known = of_top.get(name) if recorded is None else recorded.get(name)
        if known is not None:
            result[index] = known
        elif parsed[name].kind is Kind.COLLECTION and recorded is not None:
            result[index] = recorded.get(names[index + 1], 0)
        else:
            result[index] = result[parent[index]]
    return result, count


def is_outside_of_modules(tree: Tree, node: int) -> bool:
    """Whether no module calls it."""
    above = tree.parsed[int(tree.parent[node])]
    return above.kind is not Kind.MODULE or above.direction is Direction.NONE
