"""One hierarchy of ranks that ran almost the same: what all ran once, what one ran in its place.

Ranks that hold other experts run other modules; calls inside them shift the numbers of all calls
behind. So calls are recognised by their place, and numbered anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.stack import Stacks
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.experts import expert_number
from msprobe_builder.merge.join.assemble import below_root, merged_tree, stacks_of
from msprobe_builder.merge.join.naming import merged_names
from msprobe_builder.merge.join.sequence import supersequence
from msprobe_builder.merge.join.stages import Call, MergedNode
from msprobe_builder.merge.ranks.part import StageGraph

Group = list[Call]


def unite(
    parts: Sequence[StageGraph], shown: Sequence[Sequence[bool]]
) -> tuple[Tree, Stacks, list[Group]]:
    """The common tree, its stacks, and for each of its nodes the calls of the parts it stands for.

    ``shown`` says of every node of every part whether it is taken; what hangs below a node that is
    not taken must not be either. The parts come in the order in which what only one of them ran is
    to be shown in forward.
    """
    top = _join(parts, shown, [Call(number, 0) for number in range(len(parts))]).children
    nodes, parent = below_root(top)
    nodes[0].calls = [Call(number, 0) for number in range(len(parts))]
    names = merged_names(nodes, parts)
    micro_step = [_micro_step(node, parts) for node in nodes]
    micro_steps = max(part.tree.micro_steps for part in parts)
    tree = merged_tree(nodes, names, parent, parts, micro_step, micro_steps)
    return tree, stacks_of(tree.names, nodes, parts), [node.calls for node in nodes]


def _join(parts: Sequence[StageGraph], shown: Sequence[Sequence[bool]], calls: Group) -> MergedNode:
    """The node of some calls that are one, with everything below it."""
    children = [_children(part.tree) for part in parts]
    result = MergedNode(parts[calls[0].stage].tree.parsed[calls[0].node], sorted(calls))
    pending = [result]
    while pending:
        node = pending.pop()
        sequences = [
            [
                Call(call.stage, child)
                for child in children[call.stage].get(call.node, ())
                if shown[call.stage][child]
            ]
            for call in node.calls
        ]
        if node.name.direction is Direction.BACKWARD:
            sequences.reverse()  # what ran first in forward comes last
        for group in _joined(parts, sequences):
            name = parts[group[0].stage].tree.parsed[group[0].node]
            node.children.append(MergedNode(name, sorted(group)))
        pending += node.children
    return result


def _joined(parts: Sequence[StageGraph], sequences: Sequence[Group]) -> list[Group]:
    groups: list[Group] = []
    for sequence in sequences:
        added = _with_experts_sorted(parts, [[call] for call in sequence])
        if not groups:
            groups = added
            continue
        keys = [[_key(parts, group[0]) for group in side] for side in (groups, added)]
        pairs = supersequence(groups, added, *keys)
        # At once: two experts in the wrong order would not both be found again by the next rank's.
        groups = _with_experts_sorted(parts, [[*(one or ()), *(two or ())] for one, two in pairs])
    return groups


def _with_experts_sorted(parts: Sequence[StageGraph], groups: list[Group]) -> list[Group]:
    """Ranks that left out other experts do not tell the order of those; their numbers do."""
    names = [parts[group[0].stage].tree.parsed[group[0].node] for group in groups]
    numbers = [expert_number(name) for name in names]
    slots = [place for place, number in enumerate(numbers) if number is not None]
    backward = any(names[place].direction is Direction.BACKWARD for place in slots)
    order = sorted(slots, key=lambda place: numbers[place] or 0, reverse=backward)
    result = list(groups)
    for slot, place in zip(slots, order, strict=True):
        result[slot] = groups[place]
    return result


def _key(parts: Sequence[StageGraph], call: Call) -> Hashable:
    name = parts[call.stage].tree.parsed[call.node]
    if name.kind is Kind.MODULE:
        return name
    return (name.stem, name.direction) if name.kind is Kind.API else Kind.COLLECTION


def _children(tree: Tree) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(node)
    return children


def _micro_step(node: MergedNode, parts: Sequence[StageGraph]) -> int:
    first = node.calls[0]
    return int(parts[first.stage].tree.micro_step[first.node])
