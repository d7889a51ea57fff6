"""Joining the stages of a pipeline into one hierarchy.

The result says for every node of the merged model which calls of which stages it stands for; the
values are gathered afterwards. Only names, shapes and the order of execution are looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from msprobe_builder.dump.names import Direction, Kind, Name
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.join.layers import LayerNumbering, Piece, number_layers
from msprobe_builder.merge.join.micro_batches import (
    FINAL,
    Round,
    passes_of,
    peer_calls,
    sort_top,
)
from msprobe_builder.merge.join.parameter_loops import Owner, Run, order_of, owners, runs
from msprobe_builder.merge.join.sequence import common_subsequence, supersequence
from msprobe_builder.merge.join.tied_weights import tied_modules
from msprobe_builder.merge.ranks.part import StageGraph

_ALL_MISSING = 0b1111


class Call(NamedTuple):
    """One node of one stage."""

    stage: int
    node: int


@dataclass
class MergedNode:
    """One node of the merged model and the calls it stands for, in the order data flows."""

    name: Name
    calls: list[Call]
    micro_step: int | None = None
    is_split: bool = False  # every stage ran another part of it
    is_twin: bool = False  # stands in a module that several stages ran alike
    children: list[MergedNode] = field(default_factory=list)


@dataclass(frozen=True)
class MergedModel:
    """The top level of the merged model, the peer-to-peer calls set aside, by round."""

    top: list[MergedNode]
    peer_calls: list[tuple[Round, list[MergedNode]]]


def join_stages(
    stages: Sequence[StageGraph], chunks: int, *, sends_within: bool = False
) -> MergedModel:
    """Join the stages in pipeline order; ``chunks`` is the virtual pipeline size.

    With ``sends_within`` ranks of one stage send to each other inside modules (parts of a sequence
    in attention), and such calls stay where they ran.
    """
    numbering = number_layers([stage.tree for stage in stages], chunks)
    return _Join(stages, numbering, sends_within).model()


class _Join:
    def __init__(
        self, stages: Sequence[StageGraph], numbering: LayerNumbering, sends_within: bool
    ) -> None:
        self._stages = stages
        self._sends_within = sends_within
        self._numbering = numbering
        self._children = [_children(stage) for stage in stages]
        self._signatures = [_signatures(stage) for stage in stages]
        self._start = [
            np.searchsorted(stage.table.node, np.arange(len(stage.tree) + 1)) for stage in stages
        ]
        self._owners: dict[int, dict[int, Owner]] = {}
        self._tied = tied_modules(stages)
        self._aside: list[Call] = []  # peer-to-peer calls met in the round that is joined

    def model(self) -> MergedModel:
        aside: list[tuple[Round, list[MergedNode]]] = []
        calls: dict[Round, dict[Piece, list[int]]] = {}
        peers: dict[Round, dict[Piece, list[int]]] = {}
        passes = passes_of([stage.tree for stage in self._stages])
        for number, stage in enumerate(self._stages):
            top = sort_top(stage.tree, number, self._numbering, passes[number])
            for (own_round, piece), nodes in top.calls.items():
                calls.setdefault(own_round, {})[piece] = nodes
            for (own_round, piece), nodes in top.peer_calls.items():
                peers.setdefault(own_round, {})[piece] = nodes
        top_nodes = []
        for own_round in sorted({*calls, *peers}):
            self._aside = [
                Call(piece.stage, node)
                for piece, nodes in sorted(peers.get(own_round, {}).items())
                for node in nodes
            ]
            sequences = self._in_flow_order(calls.get(own_round, {}), own_round)
            if own_round.micro_batch == FINAL:
                self._find_owners(sequences)
                top_nodes += self._join_loops(sequences)
            else:
                top_nodes += self._join(sequences)
            if self._aside:
                aside.append((own_round, [self._node([call]) for call in self._aside]))
        return MergedModel(top_nodes, aside)

    def _in_flow_order(self, pieces: dict[Piece, list[int]], own_round: Round) -> list[list[Call]]:
        order = self._numbering.in_flow_order(pieces)
        if own_round.backward:
            order.reverse()
        return [[Call(piece.stage, node) for node in pieces[piece]] for piece in order]

    def _join(self, sequences: Sequence[Sequence[Call]]) -> list[MergedNode]:
        """Merge sibling sequences, given in the order data flows through their stages."""
        return [self._node(group) for group in self._grouped(sequences, by_value=False)]

    def _grouped(self, sequences: Sequence[Sequence[Call]], *, by_value: bool) -> list[list[Call]]:
        groups: list[list[Call]] = []
        for sequence in sequences:
            added = [[call] for call in sequence]
            groups = self._merge_two(groups, added, by_value) if groups else added
        return groups

    def _find_owners(self, sequences: Sequence[Sequence[Call]]) -> None:
        """Learn which parameters the calls after the last backward pass work on."""
        for sequence in sequences:
            for number in {call.stage for call in sequence}:
                stage = self._stages[number]
                below = [
                    node
                    for call in sequence
                    for node in range(call.node, int(stage.tree.subtree_end[call.node]) + 1)
                ]
                self._owners[number] = owners(stage, number, self._numbering, below)

    def _join_loops(self, sequences: Sequence[Sequence[Call]]) -> list[MergedNode]:
        """Merge what followed the last backward pass, loops over parameters in model order."""
        parts = {one[0].stage: [call.node for call in one] for one in sequences if one}
        of = [
            [self._owners[number][node] for node in nodes if node in self._owners[number]]
            for number, nodes in parts.items()
        ]
        order = order_of(of)
        rows: list[dict[int, Run]] = []
        for number, nodes in parts.items():
            added = [
                {number: run}
                for run in runs(self._stages[number], nodes, self._owners[number], order)
            ]
            keys = [[next(iter(row.values())).key for row in side] for side in (rows, added)]
            rows = [
                {**(one or {}), **(other or {})} for one, other in supersequence(rows, added, *keys)
            ]
        result: list[MergedNode] = []
        for row in rows:
            pieces = {
                Piece(chunk, number): [Call(number, node) for node in nodes]
                for number, run in row.items()
                for chunk, nodes in run.of_chunk.items()
            }
            if next(iter(row.values())).is_loop:
                places = sorted(pieces, reverse=order.is_reverse)
                twins = self._of_tied(row)
                shown = {call for copies in twins.values() for call in copies}
                result += [
                    self._node([call, *twins.get(call, ())])
                    for place in places
                    for call in pieces[place]
                    if call not in shown
                ]
                continue
            for group in self._grouped([pieces[piece] for piece in sorted(pieces)], by_value=True):
                below = [self._below(call) for call in group]
                if len(group) > 1 and any(below):
                    name = self._renamed(group[0])
                    below_them = self._join_loops(below)
                    result.append(MergedNode(name, group, None, is_split=True, children=below_them))
                else:
                    result.append(self._node(group))
        return result

    def _of_tied(self, row: Mapping[int, Run]) -> dict[Call, list[Call]]:
        """What later stages do to a weight of an earlier one, by what that one does to it."""
        by_module = {
            (number, owner.module): nodes
            for number, run in row.items()
            for owner, nodes in run.of_owner.items()
        }
        found: dict[Call, list[Call]] = {}
        for (number, module), nodes in by_module.items():
            first = self._tied.get((number, module))
            shown = by_module.get(first, []) if first else []
            if first and [self._stem(number, one) for one in nodes] == [
                self._stem(first[0], one) for one in shown
            ]:
                for own, copy in zip(shown, nodes, strict=True):
                    found.setdefault(Call(first[0], own), []).append(Call(number, copy))
        return found

    def _stem(self, number: int, node: int) -> str:
        return self._stages[number].tree.parsed[node].stem

    def _merge_two(
        self, before: list[list[Call]], after: list[list[Call]], by_value: bool
    ) -> list[list[Call]]:
        """Layers of different stages are walls: only what lies outside them can be shared."""
        keys = [[self._key(group, by_value) for group in groups] for groups in (before, after)]
        left, right = self._layers(before), self._layers(after)
        if left is None and right is None:
            return _merged(before, after, *keys)
        if left is None:
            left = (len(before), len(before))  # it led to the layers
        if right is None:
            shared = _leading(keys[1], keys[0][: left[0]])
            right = (shared, shared)  # the rest follows from the layers
        head = _merged(
            before[: left[0]], after[: right[0]], keys[0][: left[0]], keys[1][: right[0]]
        )
        tail = _merged(
            before[left[1] :], after[right[1] :], keys[0][left[1] :], keys[1][right[1] :]
        )
        return [*head, *before[left[0] : left[1]], *after[right[0] : right[1]], *tail]

    def _layers(self, groups: list[list[Call]]) -> tuple[int, int] | None:
        """From the first layer to behind the last one."""
        places = [
            place
            for place, group in enumerate(groups)
            if self._numbering.is_layer(self._renamed(group[0]).stem)
        ]
        if not places:
            return None
        first = places[0]
        if self._is_run_again(groups[first][0]):
            while first > 0 and self._is_run_again(groups[first - 1][0]):
                first -= 1  # what is made for a layer that is recomputed is made for each
        return first, places[-1] + 1

    def _is_run_again(self, call: Call) -> bool:
        """Whether a call runs forward within a backward pass."""
        tree = self._stages[call.stage].tree
        above = tree.parsed[int(tree.parent[call.node])]
        is_forward = tree.parsed[call.node].direction is Direction.FORWARD
        return is_forward and above.direction is Direction.BACKWARD

    def _key(self, group: list[Call], by_value: bool) -> Hashable:
        name = self._renamed(group[0])
        if name.kind is Kind.MODULE:
            return name
        call = group[0]
        signature = self._signatures[call.stage][call.node]
        values = self._values(call) if by_value else None
        return name.stem, name.direction, signature, values

    def _values(self, call: Call) -> Hashable:
        table = self._stages[call.stage].table
        start = self._start[call.stage]
        rows = slice(start[call.node], start[call.node + 1])
        known = table.is_tensor[rows] & (table.missing[rows] != _ALL_MISSING)
        return table.statistics[:, rows].tobytes() if known.all() else call

    def _renamed(self, call: Call) -> Name:
        name = self._stages[call.stage].tree.parsed[call.node]
        if name.kind is not Kind.MODULE or "." not in name.stem:
            return name
        return name._replace(stem=self._numbering.rename(name.stem, call.stage))

    def _peers(self, tree: Tree, nodes: Sequence[int]) -> set[int]:
        return set() if self._sends_within else peer_calls(tree, nodes)

    def _below(self, call: Call) -> list[Call]:
        """Children of one node; peer-to-peer calls among them are set aside."""
        children = self._children[call.stage].get(call.node, [])
        peers = self._peers(self._stages[call.stage].tree, children)
        self._aside += [Call(call.stage, child) for child in children if child in peers]
        return [Call(call.stage, child) for child in children if child not in peers]

    def _node(self, calls: list[Call]) -> MergedNode:
        sequences = [self._below(call) for call in calls]
        name = self._renamed(calls[0])
        is_split = len(calls) > 1 and not self._are_alike(calls)
        if len(calls) > 1 and not is_split:
            # The same computation on every stage: shown as the first stage ran it.
            return MergedNode(name, calls, None, children=self._twins(sequences))
        children = self._join(sequences) if any(sequences) else []
        return MergedNode(name, calls, None, is_split, children=children)

    def _twins(self, sequences: Sequence[Sequence[Call]]) -> list[MergedNode]:
        """What stages ran alike, call by call; peer-to-peer calls stand aside on each."""
        groups = [list(group) for group in zip(*sequences, strict=True)]
        return [
            MergedNode(
                self._renamed(group[0]),
                group,
                is_twin=True,
                children=self._twins([self._below(call) for call in group]),
            )
            for group in groups
        ]

    def _are_alike(self, calls: Sequence[Call]) -> bool:
        """Whether all stages ran the same below their calls."""
        outlines = [self._outline(call) for call in calls]
        return all(outline == outlines[0] for outline in outlines[1:])

    def _outline(self, call: Call) -> list[Hashable]:
        """Names of everything below a call in order, those of layers as in the merged model."""
        tree = self._stages[call.stage].tree
        below = range(call.node + 1, int(tree.subtree_end[call.node]) + 1)
        peers = self._peers(tree, below)
        nodes = [Call(call.stage, node) for node in below if node not in peers]
        return [
            (name.stem, name.direction, int(tree.depth[node.node] - tree.depth[call.node]))
            for node, name in ((node, self._renamed(node)) for node in nodes)
        ]


def _leading(keys: Sequence[Hashable], others: Sequence[Hashable]) -> int:
    """How many keys from the first on are found in others, in order."""
    place = 0
    for count, key in enumerate(keys):
        if key not in others[place:]:
            return count
        place += others[place:].index(key) + 1
    return len(keys)


def _merged(
    before: list[list[Call]],
    after: list[list[Call]],
    keys_before: Sequence[Hashable],
    keys_after: Sequence[Hashable],
) -> list[list[Call]]:
    """Modules that both have are joined first; API calls only where they fit in between."""
    modules = [_modules(keys) for keys in (keys_before, keys_after)]
    shared = common_subsequence(
        [keys_before[place] for place in modules[0]], [keys_after[place] for place in modules[1]]
    )
    result: list[list[Call]] = []
    i = j = 0
    ends = [(modules[0][one], modules[1][other]) for one, other in shared]
    for next_i, next_j in [*ends, (len(before), len(after))]:
        result += [
            [*(left or ()), *(right or ())]
            for left, right in supersequence(
                before[i:next_i], after[j:next_j], keys_before[i:next_i], keys_after[j:next_j]
            )
        ]
        if next_i < len(before):
            result.append([*before[next_i], *after[next_j]])
        i, j = next_i + 1, next_j + 1
    return result


def _modules(keys: Sequence[Hashable]) -> list[int]:
    return [place for place, key in enumerate(keys) if isinstance(key, Name)]


def _children(stage: StageGraph) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(stage.tree.parent.tolist()):
        children.setdefault(parent, []).append(node)
    return children


def _signatures(stage: StageGraph) -> list[tuple[int, ...]]:
    """Shapes of each node's parameters, as text ids."""
    signatures: list[list[int]] = [[] for _ in range(len(stage.tree))]
    table = stage.table
    for node, section, shape in zip(
        table.node.tolist(), table.section.tolist(), table.shape_id.tolist(), strict=True
    ):
        signatures[node] += (section, shape)
    return [tuple(signature) for signature in signatures]
