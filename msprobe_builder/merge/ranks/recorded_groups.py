"""Whether the recorded communication agrees with the declared layout."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.ranks.layout import ParallelLayout
from msprobe_builder.merge.ranks.rank_tables import parse_numbers

_SHOWN = 4  # groups named in a report
_REDUCTIONS = tuple(
    "all_reduce reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base".split()
)
_EXCHANGES = ("all_to_all_single", "all_to_all")


def check_groups(layout: ParallelLayout, side: Side, ranks: Sequence[int]) -> list[Diagnostic]:
    """Report a rank whose reductions inside layers run over another group than the declared one.

    Only groups of the size of the tensor-parallel group are looked at, and only when none of them
    is the declared one: other groups of that size (data parallel, embedding) are legitimate.
    """
    if layout.tp < 2:
        return []
    expected = sorted(ranks)
    seen = {tuple(group) for group in _groups(side) if len(group) == layout.tp}
    if not seen or tuple(expected) in seen:
        return []
    shown = ", ".join(str(list(group)) for group in sorted(seen)[:_SHOWN])
    return [
        Diagnostic(
            "warning",
            "layout_conflict",
            "Reductions inside layers run over other ranks than the declared tensor-parallel "
            "group; check tp, pp and order of parallel_merge.",
            f"declared {expected}, recorded {shown} in {side.dump.directory}",
        )
    ]


def check_expert_groups(layout: ParallelLayout, side: Side, rank: int) -> list[Diagnostic]:
    """Report a rank that exchanges tokens with other ranks than those that share experts with it.

    As above only groups of that size count: context-parallel ranks exchange heads the same way.
    """
    if layout.ep < 2:
        return []
    own = layout.expert_place(rank)
    expected = [
        other
        for other in range(layout.rank_size)
        if {**layout.expert_place(other), "ep": 0} == {**own, "ep": 0}
    ]
    seen = {tuple(group) for group in _groups(side, _EXCHANGES) if len(group) == layout.ep}
    if not seen or tuple(expected) in seen:
        return []
    shown = ", ".join(str(list(group)) for group in sorted(seen))
    return [
        Diagnostic(
            "warning",
            "layout_conflict",
            f"By the declared layout ranks {expected} share experts out, but the dump records "
            f"exchanges over {shown}; check ep, etp and order of parallel_merge.",
            str(side.dump.directory),
        )
    ]


def _groups(side: Side, operators: Sequence[str] = _REDUCTIONS) -> list[list[int]]:
    """Rank groups of such calls."""
    table, tree = side.table, side.tree
    values = side.dump.parameters.texts.values
    found = []
    for node, type_id, value_id in zip(
        table.node.tolist(), table.type_id.tolist(), table.value_id.tolist(), strict=True
    ):
        is_group = type_id >= 0 and value_id >= 0 and values[type_id].endswith("ProcessGroup")
        if is_group and tree.parsed[node].stem.rpartition(".")[2] in operators:
            found.append(sorted(parse_numbers(values[value_id]) or ()))
    return found
