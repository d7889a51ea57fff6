"""What is certain before the flow of data is followed: parameters, and what is reduced to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.dimensions import Cut, takes_batch_first
from msprobe_builder.merge.flow.operators import joins, operator_of_call, reduction_places
from msprobe_builder.merge.flow.wholes import Layers
from msprobe_builder.merge.ranks.rank_tables import RankTables


def parameter_cuts(
    tree: Tree, ranks: RankTables, layers: Layers
) -> dict[tuple[int, ...], set[Cut | None]]:
    """How parameters are cut, by their shape on a rank; None where one is no shard."""
    found: dict[tuple[int, ...], set[Cut | None]] = {}
    for node, name in enumerate(tree.parsed):
        if name.kind is not Kind.MODULE:
            continue
        for row in ranks.tensors(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
            cut = layers.parameter(name, row, ranks.name(row)).cut
            found.setdefault(tuple(ranks.shape(row)), set()).add(cut)
    return found


def reductions(tree: Tree, ranks: RankTables, group: Sequence[int]) -> dict[bytes, int]:
    """Fingerprint of what goes into a reduction over the group, and the row of its result."""
    found: dict[bytes, int] = {}
    for node, name in enumerate(tree.parsed):
        places = reduction_places(operator_of_call(name))
        if places is None or name.direction is not Direction.FORWARD:
            continue
        if not is_over_group(ranks, node, group):
            continue
        inputs = ranks.tensors(node, Section.INPUT)
        outputs = ranks.tensors(node, Section.OUTPUT)
        if inputs and len(outputs) > places[1]:
            found.setdefault(ranks.keys[_taken(inputs, places[0])], outputs[places[1]])
    return found


def added_before(tree: Tree, ranks: RankTables, known: Mapping[bytes, int]) -> frozenset[bytes]:
    """Fingerprints of what ranks add to something else of theirs before the sum is reduced.

    Such as the products of two layers that are reduced at once: neither has a total of its own.
    """
    return frozenset(
        ranks.keys[row]
        for node, name in enumerate(tree.parsed)
        if "add" in operator_of_call(name).shards and name.direction is Direction.FORWARD
        if any(ranks.keys[row] in known for row in ranks.tensors(node, Section.OUTPUT))
        for row in ranks.tensors(node, Section.INPUT)
        if not ranks.agree[row]
    )


def _taken(inputs: Sequence[int], place: int) -> int:
    """What is reduced; calls that return the result are not given memory for it first."""
    return inputs[min(place, len(inputs) - 1)]


class Rearranged(NamedTuple):
    """What is put in another order before it is scattered.

    ``results`` are rows by fingerprint of what is scattered, ``cuts`` say where those rows are cut.
    """

    results: dict[bytes, int]
    cuts: dict[int, Cut]


def rearranged(
    tree: Tree,
    ranks: RankTables,
    group: Sequence[int],
    known: Mapping[bytes, int],
    *,
    is_any: bool,
) -> Rearranged:
    """What is scattered along another dimension than the first one is cut and joined again first.

    It has the same elements, whose mean and norm may be rounded otherwise. A tensor that ranks
    hold alike is none of those. ``is_any``: that it was joined need not be recorded.
    """
    joined = set() if is_any else _joined(tree, ranks)
    found: dict[bytes, int] = {}
    cuts: dict[int, Cut] = {}
    for node, name in enumerate(tree.parsed):
        places = reduction_places(operator_of_call(name))
        if places is None or "scatter" not in operator_of_call(name).name:
            continue
        inputs = ranks.tensors(node, Section.INPUT)
        if not inputs or not is_over_group(ranks, node, group):
            continue
        taken = _taken(inputs, places[0])
        result = known.get(ranks.keys[taken])
        if result is None or ranks.agree[taken]:
            continue
        if not is_any and ranks.keys[taken] not in joined:
            continue
        for row in ranks.like(taken):
            if ranks.keys[row] not in known:
                found.setdefault(ranks.keys[row], result)
            cut = scattered(ranks.shape(row), ranks.shape(result), ranks.count)
            if cut is not None and cut.dimension > 0:
                cuts[result] = cut
    return Rearranged(found, cuts)


def _joined(tree: Tree, ranks: RankTables) -> set[bytes]:
    """Fingerprints of what was put together of parts."""
    return {
        ranks.keys[row]
        for node, name in enumerate(tree.parsed)
        if joins(operator_of_call(name)) and name.direction is Direction.FORWARD
        for row in ranks.tensors(node, Section.OUTPUT)
    }


def scattered(source: Sequence[int], part: Sequence[int], count: int) -> Cut | None:
    """The one dimension in which a part is smaller than what was scattered."""
    if len(source) != len(part):
        return None
    differ = [place for place, size in enumerate(source) if size != part[place]]
    is_one = len(differ) == 1 and source[differ[0]] == part[differ[0]] * count
    return Cut(differ[0]) if is_one else None


def batch_first(tree: Tree, ranks: RankTables) -> frozenset[bytes]:
    """Fingerprints of what is multiplied batch by batch, with heads as part of the batch."""
    return frozenset(
        ranks.keys[row]
        for node, name in enumerate(tree.parsed)
        if name.kind is Kind.API
        for row in ranks.tensors(node, Section.INPUT)
        if takes_batch_first(operator_of_call(name), ranks.shape(row), ranks.numbers(node))
    )


def is_over_group(ranks: RankTables, node: int, group: Sequence[int]) -> bool:
    """Whether a collective runs over the tensor-parallel group; no group means all ranks.

    Functional collectives may name theirs instead: ranks that give other names talk to others.
    """
    recorded = ranks.group(node)
    if recorded is None:
        return not ranks.names_differ(node)
    return recorded == list(group)
