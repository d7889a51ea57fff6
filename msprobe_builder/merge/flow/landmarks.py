"""What is certain before the flow of data is followed: parameters, and what is reduced to what."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.dimensions import Cut, takes_batch_first
from msprobe_builder.merge.flow.operators import REDUCTIONS, operator_of
from msprobe_builder.merge.flow.parallel_layers import module_class, parameter_state
from msprobe_builder.merge.ranks.rank_tables import RankTables


def parameter_cuts(tree: Tree, ranks: RankTables) -> dict[tuple[int, ...], set[Cut | None]]:
    """How parameters are cut, by their shape on a rank; None where one is no shard."""
    found: dict[tuple[int, ...], set[Cut | None]] = {}
    for node, name in enumerate(tree.parsed):
        if name.kind is not Kind.MODULE:
            continue
        for row in ranks.tensors(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
            cut = parameter_state(module_class(name), ranks.name(row)).cut
            found.setdefault(tuple(ranks.shape(row)), set()).add(cut)
    return found


def reductions(tree: Tree, ranks: RankTables, group: Sequence[int]) -> dict[bytes, int]:
    """Fingerprint of what goes into a reduction over the group, and the row of its result."""
    found: dict[bytes, int] = {}
    for node, name in enumerate(tree.parsed):
        places = REDUCTIONS.get(operator_of(name))
        if places is None or name.direction is not Direction.FORWARD:
            continue
        if not is_over_group(ranks, node, group):
            continue
        inputs = ranks.tensors(node, Section.INPUT)
        outputs = ranks.tensors(node, Section.OUTPUT)
        if len(inputs) > places[0] and len(outputs) > places[1]:
            found.setdefault(ranks.keys[inputs[places[0]]], outputs[places[1]])
    return found


def batch_first(tree: Tree, ranks: RankTables) -> frozenset[bytes]:
    """Fingerprints of what is multiplied batch by batch, with heads as part of the batch."""
    return frozenset(
        ranks.keys[row]
        for node, name in enumerate(tree.parsed)
        if name.kind is Kind.API
        for row in ranks.tensors(node, Section.INPUT)
        if takes_batch_first(operator_of(name), ranks.shape(row), ranks.numbers(node))
    )


def is_over_group(ranks: RankTables, node: int, group: Sequence[int]) -> bool:
    """Whether a collective runs over the tensor-parallel group; no group means all ranks."""
    recorded = ranks.group(node)
    return recorded is None or recorded == list(group)
