"""The merged model as an ordinary side: tree, parameter table, stacks and origins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from msprobe_builder.dump.names import (
    COLLECTION,
    PEER_COLLECTION,
    ROOT,
    Direction,
    Kind,
    Name,
    format_name,
)
from msprobe_builder.dump.stack import Frame, Stacks
from msprobe_builder.graph.micro_steps import count_rounds
from msprobe_builder.graph.preorder import extents, preorder
from msprobe_builder.graph.provenance import with_places_of_origin
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree, runs_collected
from msprobe_builder.merge.join.micro_batches import FINAL
from msprobe_builder.merge.join.naming import merged_names
from msprobe_builder.merge.join.rows import merged_rows
from msprobe_builder.merge.join.stages import MergedModel, MergedNode
from msprobe_builder.merge.join.tied import join_gradients, without_tied_gradients
from msprobe_builder.merge.ranks.part import StageGraph


def assemble(model: MergedModel, stages: Sequence[StageGraph]) -> Side:
    """Number, name and fill the merged model."""
    join_gradients(model.top)
    top = _grouped(model.top) + _peer_collections(model)
    nodes, parent = below_root(top)
    names = merged_names(nodes, stages)
    tree = merged_tree(nodes, names, parent, stages, *_micro_steps(nodes, parent, top, stages))
    table, provenance = without_tied_gradients(*merged_rows(nodes, stages), nodes, stages)
    stacks = stacks_of(tree.names, nodes, stages)
    dump = replace(stages[0].dump, stacks=stacks, tensor_dir=None)
    origins = [_ranks(node, stages) for node in nodes]
    provenance = with_places_of_origin(table, replace(provenance, origins=origins))
    return Side(dump, tree, table, provenance)


def merged_tree(
    nodes: Sequence[MergedNode],
    names: list[Name],
    parent: list[int],
    parts: Sequence[StageGraph],
    micro_step: list[int],
    micro_steps: int,
) -> Tree:
    """The hierarchy of merged nodes in preorder; each has a record that one of its calls had."""
    end, depth = extents(parent)
    return Tree(
        names=[format_name(name) for name in names],
        parsed=names,
        parent=np.array(parent, dtype=np.int64),
        subtree_end=end,
        depth=depth,
        micro_step=np.array(micro_step, dtype=np.int64),
        record=np.array(
            [index if _has_record(node, parts) else -1 for index, node in enumerate(nodes)]
        ),
        is_recompute=np.array([_is_recompute(node, parts) for node in nodes]),
        micro_steps=micro_steps,
    )


def _collection(name: str, children: list[MergedNode], micro_step: int | None = None) -> MergedNode:
    parsed = Name(Kind.COLLECTION, name, Direction.NONE, 0)
    return MergedNode(parsed, [], micro_step, children=children)


def _grouped(top: list[MergedNode]) -> list[MergedNode]:
    """Runs of two or more APIs at the root become collections, as in any hierarchy."""
    numbers = count()
    is_api = (node.name.kind is Kind.API for node in top)
    return runs_collected(
        top, is_api, lambda run: _collection(f"{COLLECTION}.{next(numbers)}", run)
    )


def _peer_collections(model: MergedModel) -> list[MergedNode]:
    """Peer-to-peer calls of each round, behind everything else, so that they shift nothing."""
    micro_batches = [own_round.micro_batch for own_round, _ in model.peer_calls]
    last = max((number for number in micro_batches if number < FINAL), default=0)
    return [
        _collection(f"{PEER_COLLECTION}.{number}", nodes, min(own_round.micro_batch, last))
        for number, (own_round, nodes) in enumerate(model.peer_calls)
    ]


def below_root(top: list[MergedNode]) -> tuple[list[MergedNode], list[int]]:
    """All nodes below a new root, and the parent of each."""
    root = MergedNode(Name(Kind.MODULE, ROOT, Direction.NONE, 0), [], children=top)
    return preorder(root, top, lambda node: node.children)


def _micro_steps(
    nodes: list[MergedNode],
    parent: list[int],
    top: list[MergedNode],
    stages: Sequence[StageGraph],
) -> tuple[list[int], int]:
    entries = {str(place): node for place, node in enumerate(top)}
    rounds, count = count_rounds(
        list(entries),
        lambda entry: entries[entry].name,
        lambda entry: _is_recompute(entries[entry], stages),
    )
    of_top = {id(node): number for node, number in zip(top, rounds, strict=True)}
    result = [0]
    for node, above in zip(nodes[1:], parent[1:], strict=True):
        if node.micro_step is not None:
            # Stages may send in more rounds than the joined model has.
            result.append(min(node.micro_step, count - 1))
        elif above == 0:
            result.append(of_top[id(node)])
        else:
            result.append(result[above])
    return result, count


def stacks_of(
    names: Sequence[str], nodes: Sequence[MergedNode], stages: Sequence[StageGraph]
) -> Stacks:
    """Each node's stack is that of its first call that has one."""
    stacks: list[tuple[Frame, ...]] = []
    known: dict[tuple[int, int], int] = {}
    of_name: dict[str, int] = {}
    for name, node in zip(names, nodes, strict=True):
        for call in node.calls:
            stage = stages[call.stage]
            own = stage.dump.stacks.of_name.get(stage.tree.names[call.node])
            if own is None:
                continue
            key = call.stage, own
            if key not in known:
                known[key] = len(stacks)
                stacks.append(stage.dump.stacks.stacks[own])
            of_name[name] = known[key]
            break
    return Stacks(stacks, of_name)


def _has_record(node: MergedNode, stages: Sequence[StageGraph]) -> bool:
    """Whether any of the calls a node stands for was recorded."""
    return any(stages[call.stage].tree.record[call.node] >= 0 for call in node.calls)


def _is_recompute(node: MergedNode, stages: Sequence[StageGraph]) -> bool:
    """Whether any of the calls a node stands for ran again for the backward pass."""
    return any(bool(stages[call.stage].tree.is_recompute[call.node]) for call in node.calls)


def _ranks(node: MergedNode, stages: Sequence[StageGraph]) -> tuple[int, ...]:
    return tuple(
        sorted({rank for call in node.calls for rank in stages[call.stage].ranks_of(call.node)})
    )
