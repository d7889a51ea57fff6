"""What each tensor of the experts is of ranks that hold different ones.

All together have every expert, and every token that was sent to one. So whatever enters or leaves
is a shard: the tokens of some experts, or the weights of some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.landmarks import reductions
from msprobe_builder.merge.flow.operators import joins, operator_of_call, shrinks, splits
from msprobe_builder.merge.flow.parallel_layers import module_class
from msprobe_builder.merge.flow.share import LOCAL, REPLICA, UNKNOWN, Share, State
from msprobe_builder.merge.ranks.rank_tables import RankTables
from msprobe_builder.operators.operator import Operator

# Why tensors around experts are no parts of those of an unsplit run, which sends nothing.
OWN_COUNT = fact("reason.own_count")
OWN_MEMORY = fact("reason.own_memory")
OWN_PIECES = fact("reason.own_pieces")
# Of a weight that holds all local experts side by side: where they lie in its shape.
_SIDE_BY_SIDE = {"weight1": 1, "weight2": 0}


def classify_experts(tree: Tree, tables: Sequence[ParameterTable], texts: Texts) -> list[State]:
    """The state of every row; the tables of all ranks have equal rows in equal order."""
    ranks = RankTables(tree, tables, texts)
    states = [LOCAL] * len(ranks)
    weights: dict[bytes, State] = {}
    for node, name in enumerate(tree.parsed):
        for row in ranks.tensors(node, Section.PARAMETERS, Section.PARAMETERS_GRAD):
            states[row] = State(Share.SHARD, _weight_cut(ranks, row, module_class(name)))
            weights[ranks.keys[row]] = states[row]
        for row in ranks.tensors(node, Section.INPUT, Section.OUTPUT):
            known = weights.get(ranks.keys[row])
            if known is not None and not ranks.is_missing(row):
                states[row] = State(Share.SHARD)
            elif ranks.shape(row):
                states[row] = State(Share.SHARD, _token_cut(ranks, row, name.kind))
    return states


def _weight_cut(ranks: RankTables, row: int, class_name: str) -> Cut | None:
    shape = ranks.shape(row)
    if len(shape) > 2:
        return Cut(0)  # [experts, rows, columns]
    if len(shape) == 2 and "Grouped" in class_name:
        place = _SIDE_BY_SIDE.get(ranks.name(row).rpartition(".")[2])
        return None if place is None else Cut(place)
    return None


def _token_cut(ranks: RankTables, row: int, kind: Kind) -> Cut | None:
    """Tokens come first in what modules exchange; a call may have put them in another dimension."""
    uneven = ranks.uneven_dimension(row)
    if uneven is not None:
        return Cut(uneven)
    return Cut(0) if kind is Kind.MODULE else None


def classify_exchange(
    tree: Tree, tables: Sequence[ParameterTable], texts: Texts, group: Sequence[int]
) -> list[State]:
    """The same for the calls around experts: tokens on their way, of one rank or gathered."""
    ranks = RankTables(tree, tables, texts)
    reduced = reductions(tree, ranks, group)
    return [
        _exchanged(ranks, row, reduced, operator_of_call(tree.parsed[ranks.node(row)]))
        for row in range(len(ranks))
    ]


def _exchanged(
    ranks: RankTables, row: int, reduced: Mapping[bytes, int], operator: Operator
) -> State:
    result = -1 if ranks.is_missing(row) else reduced.get(ranks.keys[row], -1)
    if result >= 0:
        return State(Share.PARTIAL, None, result)
    if not ranks.shape(row):
        return REPLICA if ranks.agree[row] else LOCAL
    if ranks.is_whole_number(row):
        return UNKNOWN.because(OWN_COUNT)
    if ranks.is_even[row]:
        return UNKNOWN.because(OWN_MEMORY)
    uneven = ranks.uneven_dimension(row)
    if ranks.agree[row] and uneven is None:
        return REPLICA
    is_in_list = (joins(operator) or splits(operator)) and len(
        ranks.tensors(ranks.node(row), ranks.section(row))
    ) > 1
    is_sum = shrinks(operator) and ranks.section(row) is Section.OUTPUT
    if is_in_list or is_sum:
        return UNKNOWN.because(OWN_PIECES)
    return State(Share.SHARD, None if uneven is None else Cut(uneven))
