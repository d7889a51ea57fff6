"""Whether the recorded communication agrees with the declared layout."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

from msprobe_builder.base.codes import Kind
from msprobe_builder.base.diagnostics import LAYOUT_CONFLICT, Diagnostic
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.shapes import parse_numbers
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.clues import products_over_ranks
from msprobe_builder.merge.ranks.layout import ParallelLayout

_SHOWN = 4  # groups named in a report
_REDUCTIONS = tuple(
    "all_reduce reduce_scatter_tensor reduce_scatter_single _reduce_scatter_base".split()
)
_SENDS = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
_EXCHANGES = ("all_to_all_single", "all_to_all")


def check_groups(layout: ParallelLayout, side: Side, ranks: Sequence[int]) -> list[Diagnostic]:
    """Report a rank whose calls contradict the declared layout.

    Its reductions inside layers run over another group than the declared one: of the groups of
    that size none is it, as others of that size (data parallel, embedding) are legitimate; or one
    is of ranks that no dimension of the layout has in common. Or it sends tensors outside of all
    modules, as only pipeline stages do, and there is one stage.
    """
    expected = sorted(ranks)
    seen = {tuple(group) for group in _groups(side) if len(group) > 1}
    of_size = {group for group in seen if len(group) == layout.tp}
    inside = {tuple(group) for group in _groups(side, inside=True) if len(group) > 1}
    where = str(side.dump.directory)
    found = []
    if layout.tp > 1 and of_size and tuple(expected) not in seen:
        message = fact("note.conflict_reductions")
        shown = f"declared {expected}, recorded {_shown(of_size)} in {where}"
        found.append((message, shown))
    elif tuple(expected) not in seen and (
        foreign := {group for group in inside if not _is_declared(layout, group)}
    ):
        message = fact("note.conflict_foreign_reductions")
        found.append((message, f"recorded {_shown(foreign)} in {where}"))
    if layout.tp == layout.etp == layout.ep == 1 and (products := products_over_ranks(side)):
        message = fact("note.conflict_products")
        found.append((message, f"recorded {_shown(products)} in {where}"))
    if layout.pp == 1 and (call := _sent_outside(side, ring=layout.cp > 1)):
        message = fact("note.conflict_sends")
        found.append((message, f"{call} in {where}"))
    return [Diagnostic("warning", LAYOUT_CONFLICT, *one) for one in found]


def _shown(groups: Collection[tuple[int, ...]]) -> str:
    return ", ".join(str(list(group)) for group in sorted(groups)[:_SHOWN])


def _is_declared(layout: ParallelLayout, group: Sequence[int]) -> bool:
    """Whether ranks may be a group: all along some dimensions, or any that hold the same weights.

    First and last stage share an embedding. Ranks have a second place among those of the experts.
    """
    if max(group) >= layout.rank_size:
        return False
    sizes = {name: layout.size(name) for name in layout.order}
    readings = [([layout.place(rank) for rank in group], sizes)]
    if layout.ep > 1 or layout.etp != layout.tp:
        shares = {**sizes, "tp": layout.etp, "ep": layout.ep}
        readings.append(([layout.expert_place(rank) for rank in group], shares))
    return any(_is_along(places, sizes) for places, sizes in readings)


def _is_along(places: Sequence[Mapping[str, int]], sizes: Mapping[str, int]) -> bool:
    taken = {name: {place[name] for place in places} for name in sizes}
    whole = prod(map(len, taken.values())) == len(places)
    parts = all(len(taken[name]) in (1, sizes[name]) for name in ("tp", "ep"))
    stages = taken["pp"]
    return whole and parts and (len(stages) in (1, sizes["pp"]) or stages == {0, sizes["pp"] - 1})


def _sent_outside(side: Side, *, ring: bool) -> str | None:
    """The first call outside of all modules that sends to, or gets from, one other rank.

    Ranks of a ring send within attention, but in the backward pass it may not be known where.
    """
    tree = side.tree
    for node, name in enumerate(tree.parsed):
        if ring and name.direction is Direction.BACKWARD:
            break
        if name.kind is Kind.API and name.stem.rpartition(".")[2] in _SENDS:
            above = int(tree.parent[node])
            while above > 0 and tree.parsed[above].kind is not Kind.MODULE:
                above = int(tree.parent[above])
            if above <= 0 and name.stem.startswith("Distributed."):
                return tree.names[node]
    return None


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
            LAYOUT_CONFLICT,
            fact("note.conflict_experts", declared=str(expected), recorded=shown),
            str(side.dump.directory),
        )
    ]


def _groups(
    side: Side, operators: Sequence[str] = _REDUCTIONS, *, inside: bool = False
) -> list[list[int]]:
    """Rank groups of such calls, of those in modules alone if ``inside``."""
    table, tree = side.table, side.tree
    values = side.dump.parameters.texts.values
    found = []
    for node, type_id, value_id in zip(
        table.node.tolist(), table.type_id.tolist(), table.value_id.tolist(), strict=True
    ):
        is_group = type_id >= 0 and value_id >= 0 and values[type_id].endswith("ProcessGroup")
        if is_group and tree.parsed[node].stem.rpartition(".")[2] in operators:
            if inside and tree.parsed[tree.parent[node]].kind is not Kind.MODULE:
                continue
            found.append(sorted(parse_numbers(values[value_id]) or ()))
    return found
