"""What one rank recorded of how the model was split: groups, peers of sends, parts of weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

import numpy as np

from msprobe_builder.dump.names import Direction, Kind, Name, module_path
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_numbers, parse_shape
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.experts import expert_owners, expert_place
from msprobe_builder.merge.flow.operators import (
    gathers,
    is_between_peers,
    operator_of_call,
    reduction_places,
)
from msprobe_builder.merge.flow.parallel_layers import module_class, parameter_state
from msprobe_builder.merge.flow.share import Share
from msprobe_builder.merge.ranks.placements import cut_dimension, placements

_PARALLEL = re.compile(r"ColumnParallel|RowParallel|VocabParallel|QKVParallel|ParallelLMHead")
_ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
_CHUNK = re.compile(r"Module\.(\d+)\.")
_LAYER = re.compile(r"Module\.\d+\.(?:\w+\.)*\d+\.\w")
_PEER = re.compile(r"input\.(?:1|dst|src|group_dst|group_src|(?:\d+\.)+peer)\Z")


@dataclass
class Clues:
    """Of one rank: the groups of each kind of collective, the peers of sends, the model chunks."""

    tensor: set[tuple[int, ...]] = field(default_factory=set)
    expert: set[tuple[int, ...]] = field(default_factory=set)
    context: set[tuple[int, ...]] = field(default_factory=set)
    peers: set[int] = field(default_factory=set)
    ring: set[int] = field(default_factory=set)  # peers of sends within attention
    named: set[int] = field(default_factory=set)  # every rank that a group names
    attention_talks: bool = False  # within no group that was recorded
    experts_talk: bool = False  # likewise
    chunks: set[int] = field(default_factory=set)
    # Statistics of the weights of parallel layers; not of those that are even, such as zeros,
    # or have none: other parts would look the same.
    weights: dict[tuple[str, str], bytes] = field(default_factory=dict)
    held: set[tuple[str, str, bytes]] = field(default_factory=set)  # the same of all weights
    is_parallel: bool = False  # whether there are parallel layers
    modules: set[str] = field(default_factory=set)
    has_words: bool = False
    has_calls: bool = False


def read_clues(side: Side) -> Clues:
    """What one rank tells."""
    clues = Clues()
    tree, texts = side.tree, side.dump.parameters.texts.values
    owners = expert_owners(tree)
    for name in tree.parsed:
        if name.kind is Kind.MODULE:
            kind = module_class(name)
            clues.has_words |= "Embedding" in kind and "Rotary" not in kind
            clues.modules.add(name.stem)
        clues.has_words |= operator_of_call(name).name == "embedding"
    # A chunk holds layers, which are numbered; the parts of a plain sequence are none.
    if any(map(_LAYER.match, clues.modules)):
        chunks = map(_CHUNK.match, clues.modules)
        clues.chunks = {int(chunk[1]) for chunk in chunks if chunk is not None}
    table = side.table
    # Ranks hold other experts, too, whose layers say nothing of how each is cut.
    of_layers = [
        bool(_PARALLEL.search(module_class(name))) and expert_place(name.stem) is None
        for name in tree.parsed
    ]
    distributed = placements(table, side.dump.parameters.texts)
    for row in np.flatnonzero(table.section == Section.PARAMETERS).tolist():
        node = int(table.node[row])
        highest, lowest = table.statistics[:2, row].tolist()
        if highest > lowest:
            key = tree.names[node], texts[int(table.name_id[row])]
            clues.held.add((*key, table.statistics[:, row].tobytes()))
        is_cut = parameter_state(module_class(tree.parsed[node]), texts[int(table.name_id[row])])
        if cut_dimension(distributed.get(row, "")) is None and not (
            of_layers[node] and is_cut.share is Share.SHARD
        ):
            continue
        clues.is_parallel = True
        if highest > lowest:
            clues.weights[key] = table.statistics[:, row].tobytes()
    layers = _layers(side)
    clues.has_calls = any(name.kind is Kind.API for name in tree.parsed)
    recorded = dict(_groups(side))
    clues.named.update(*recorded.values())
    for node, name in enumerate(tree.parsed):
        if is_between_peers(name.stem):
            is_ring = _is_in_attention(side, node)
            clues.attention_talks |= is_ring
            (clues.ring if is_ring else clues.peers).update(_peers(side, node, texts))
            continue
        operator = operator_of_call(name)
        is_reduction = reduction_places(operator) is not None
        exchanges = "exchange" in operator.shards
        if not name.stem.startswith("Distributed."):
            continue
        group = recorded.get(node)
        above = tree.parsed[int(tree.parent[node])]
        if gathers(operator) and _has_vectors_alone(side, node):
            continue  # parameters that are put together for a moment, as with ZeRO
        talks_in_attention = _is_in_attention(side, node)
        if group is None:
            # All ranks, or one of the groups that the recording left out.
            clues.attention_talks |= talks_in_attention and not _is_parallel(above)
            clues.experts_talk |= exchanges and module_path(above.stem) in owners
        elif exchanges and module_path(above.stem) in owners:
            clues.expert.add(group)
        elif (is_reduction or gathers(operator)) and (
            _is_parallel(above) or (is_reduction and int(tree.parent[node]) in layers)
        ):
            clues.tensor.add(group)
            clues.is_parallel = True
        elif (gathers(operator) or exchanges) and (
            talks_in_attention or _is_of_tokens(side, node, owners)
        ):
            clues.context.add(group)
    return clues


def products_over_ranks(side: Side) -> set[tuple[int, ...]]:
    """The groups over which layers add up what they put out, each of its part of a matrix."""
    tree, layers, found = side.tree, _layers(side), set[tuple[int, ...]]()
    for node, group in _groups(side):
        above = int(tree.parent[node])
        is_sum = tree.parsed[node].stem.startswith("Distributed.") and above in layers
        is_sum = is_sum and reduction_places(operator_of_call(tree.parsed[node])) is not None
        if is_sum and len(group) > 1 and not _has_vectors_alone(side, node):
            found.add(group)
    return found


def _layers(side: Side) -> set[int]:
    """Forward passes of modules with a matrix of their own, whatever their class.

    What such a layer adds up over ranks is a product of which each rank has its share.
    """
    table, texts = side.table, side.dump.parameters.texts
    rows = np.flatnonzero((table.section == Section.PARAMETERS) & table.is_tensor)
    return {
        int(table.node[row])
        for row in rows.tolist()
        if side.tree.parsed[int(table.node[row])].direction is Direction.FORWARD
        and len(parse_shape(texts, int(table.shape_id[row]))) > 1
    }


def _is_parallel(name: Name) -> bool:
    return bool(_PARALLEL.search(module_class(name)))


def _has_vectors_alone(side: Side, node: int) -> bool:
    """Whether all tensors of a call have one dimension; a sequence of tokens has more."""
    table, texts = side.table, side.dump.parameters.texts
    begin, end = table.node.searchsorted([node, node + 1]).tolist()
    shapes = [
        parse_shape(texts, int(table.shape_id[row]))
        for row in range(begin, end)
        if table.is_tensor[row] and table.shape_id[row] >= 0
    ]
    return bool(shapes) and all(len(shape) == 1 for shape in shapes)


def _is_in_attention(side: Side, node: int) -> bool:
    """Whether a call stands in the forward pass of attention; behind backward it is misplaced."""
    while node > 0:
        node = int(side.tree.parent[node])
        name = side.tree.parsed[node]
        if _ATTENTION.search(name.stem):
            return name.direction is Direction.FORWARD
    return False


def _is_of_tokens(side: Side, node: int, owners: Set[str]) -> bool:
    """Whether a module that holds no experts gathers or exchanges activations on the way forward.

    Attention goes by many names; what else puts tokens of several ranks together is not known.
    """
    name = side.tree.parsed[int(side.tree.parent[node])]
    is_forward = name.kind is Kind.MODULE and name.direction is Direction.FORWARD
    path = module_path(name.stem)
    return is_forward and not any(path == one or path.startswith(f"{one}.") for one in owners)


def _groups(side: Side) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The ranks of each collective that names a group."""
    table, values = side.table, side.dump.parameters.texts.values
    columns = table.node.tolist(), table.type_id.tolist(), table.value_id.tolist()
    for node, type_id, value_id in zip(*columns, strict=True):
        if type_id >= 0 and value_id >= 0 and values[type_id].endswith("ProcessGroup"):
            yield node, tuple(sorted(parse_numbers(values[value_id]) or ()))


def _peers(side: Side, node: int, texts: list[str]) -> Iterator[int]:
    """The ranks that a call sends to or receives from."""
    table = side.table
    begin, end = table.node.searchsorted([node, node + 1]).tolist()
    for row in range(begin, end):
        if table.value_id[row] >= 0 and _PEER.match(texts[int(table.name_id[row])]):
            yield from parse_numbers(texts[int(table.value_id[row])]) or ()
