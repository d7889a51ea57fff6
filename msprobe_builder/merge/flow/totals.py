"""Totals of partial results whose reduction left no record."""

from __future__ import annotations

from math import prod

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.knowledge import Knowledge
from msprobe_builder.merge.flow.operators import is_product, operator_of_call
from msprobe_builder.merge.flow.share import REPLICA, Share, State


def find_totals(known: Knowledge, node: int) -> None:
    """Partial products of a parallel layer whose reduction left no record.

    Collectors miss functions that were imported by name. What a later call of the layer takes in,
    or what the layer puts out, is the reduced product.
    """
    below = range(node + 1, int(known.tree.subtree_end[node]) + 1)
    calls = [child for child in below if known.tree.parent[child] == node]
    partial = [
        row
        for call in calls
        if is_product(operator_of_call(known.tree.parsed[call]))
        for row in known.ranks.tensors(call, Section.OUTPUT)
        if known.state[row].share is Share.PARTIAL and known.state[row].reduced < 0
        if known.ranks.keys[row] not in known.added_before
    ]
    for row in partial:
        later = [call for call in calls if call > known.ranks.node(row)]
        results = [own for call in later for own in _taken_in(known, call)]
        if not _has_norm(known, node):
            results += known.ranks.tensors(node, Section.OUTPUT)
        total = next((own for own in results if _is_total(known, own, row)), -1)
        reason = fact("reason.summed_later") if total >= 0 else None
        known.state[row] = State(Share.PARTIAL, None, total, reason)


def _taken_in(known: Knowledge, call: int) -> list[int]:
    """What may be a reduced product: what a bias is added to, and slices of a sequence."""
    inputs = known.ranks.tensors(call, Section.INPUT)
    if "add" in operator_of_call(known.tree.parsed[call]).shards:
        return inputs[:1]
    return [row for row in inputs if known.state[row] == State(Share.SHARD, Cut(0))]


def _has_norm(known: Knowledge, node: int) -> bool:
    """Whether a layer normalises what it takes in, so that the gradient it puts out is another."""
    forward = known.tree.parsed[node]._replace(direction=Direction.FORWARD)
    own = known.ranks.tensors(known.number.get(forward, node), Section.PARAMETERS)
    return any("norm" in known.ranks.name(row) for row in own)


def _is_total(known: Knowledge, row: int, partial: int) -> bool:
    """Whether a row has as many elements, on all ranks together, as one rank's partial result."""
    state, shape = known.state[row], known.ranks.shape(row)
    ranks = len(known.group) if state == State(Share.SHARD, Cut(0)) else 1
    is_whole = ranks > 1 or state == REPLICA
    return is_whole and prod(shape) * ranks == prod(known.ranks.shape(partial))
