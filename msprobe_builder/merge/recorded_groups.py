"""Whether the recorded communication agrees with the declared layout."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.diagnostics import Diagnostic
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.layout import ParallelLayout
from msprobe_builder.merge.rank_tables import parse_numbers

_SHOWN = 4  # groups named in a report
_REDUCTIONS = ("all_reduce", "reduce_scatter_tensor", "_reduce_scatter_base")


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


def _groups(side: Side) -> list[list[int]]:
    """Rank groups of the reductions recorded below modules."""
    table, tree = side.table, side.tree
    values = side.dump.parameters.texts.values
    found = []
    for node, type_id, value_id in zip(
        table.node.tolist(), table.type_id.tolist(), table.value_id.tolist(), strict=True
    ):
        is_group = type_id >= 0 and value_id >= 0 and values[type_id].endswith("ProcessGroup")
        if is_group and tree.parsed[node].stem.rpartition(".")[2] in _REDUCTIONS:
            found.append(sorted(parse_numbers(values[value_id]) or ()))
    return found
