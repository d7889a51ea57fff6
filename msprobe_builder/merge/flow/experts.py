"""Experts of expert-parallel ranks: which share of them a rank holds, and their global numbers.

Frameworks number the experts of a rank from 0, so expert 0 of every rank has one name. Experts are
a list in the path of their modules (``mlp.experts.local_experts.3.linear_fc1``), or one module
with a weight for each (``weight3``) or one weight for all of them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind, Name, format_name, module_path
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.shapes import parse_shape
from msprobe_builder.graph.parameter_table import ParameterTable, take
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.flow.operators import operator_of_call, splits
from msprobe_builder.merge.flow.parallel_layers import module_class
from msprobe_builder.operators.operator import Kind as OperatorKind

_ROUTERS = frozenset({"router", "gate", "gate_network", "wg"})
_NUMBERED_WEIGHT = re.compile(r"(?P<name>.*\b(?:weight|bias))(?P<number>\d+)\Z")
_LISTED = re.compile(r"(?P<list>(?:input|output)\.(?:\d+\.)*)(?P<number>\d+)\Z")


class ExpertPlace(NamedTuple):
    """Where the experts stand in a stem: what holds them, and the position of a number, if any."""

    owner: str
    position: int | None


def expert_place(stem: str) -> ExpertPlace | None:
    """Where a module's path enters the experts, None outside of them."""
    parts = stem.split(".")
    for start, part in enumerate(parts[:-1]):
        if not _is_expert_list(part):
            continue
        owner = ".".join(parts[:start])
        for position in range(start + 1, len(parts) - 1):
            if parts[position].isdigit():
                return ExpertPlace(owner, position)
            if not _is_expert_list(parts[position]):
                break
        return ExpertPlace(owner, None)
    return None


def _is_expert_list(part: str) -> bool:
    """``experts``, ``local_experts``, ``deepspeed_experts``; what all tokens share is dense."""
    return part.endswith("experts") and "shared" not in part


def _place(name: Name) -> ExpertPlace | None:
    return expert_place(name.stem) if name.kind is Kind.MODULE else None


def expert_number(name: Name) -> int | None:
    """The number of an expert, None for what is in one or no expert at all."""
    place = _place(name)
    if place is None or place.position is None or name.direction is Direction.NONE:
        return None
    behind = name.stem.split(".")[place.position :]
    return int(behind[0]) if len(behind) == 2 else None


def expert_owners(tree: Tree) -> frozenset[str]:
    """The paths of the modules that hold experts, with a router and whatever else."""
    places = map(_place, tree.parsed)
    return frozenset(place.owner for place in places if place is not None)


class Region(IntEnum):
    """Who computes a call alike, and what its tensors are parts of."""

    DENSE = 0  # every rank, for its own tokens
    EXCHANGE = 1  # calls around the experts, which send tokens to them and bring them back
    EXPERTS = 2


def regions(tree: Tree) -> list[Region]:
    """The region of every node: experts are their modules and all calls below."""
    places = [expert_place(name.stem) if name.kind is Kind.MODULE else None for name in tree.parsed]
    owners = {place.owner for place in places if place is not None}
    found: list[Region] = []
    for name, place, above in zip(tree.parsed, places, tree.parent.tolist(), strict=True):
        if place is not None or (above >= 0 and found[above] is Region.EXPERTS):
            found.append(Region.EXPERTS)
        elif name.kind is Kind.API and module_path(tree.parsed[above].stem) in owners:
            found.append(Region.EXCHANGE)
        else:
            found.append(Region.DENSE)
    return found


def without_experts(side: Side) -> Side:
    """A side without the parameters of its experts; their nodes stay."""
    is_dense = np.array(regions(side.tree)) == Region.DENSE
    rows = np.flatnonzero(is_dense[side.table.node])
    return replace(side, table=take(side.table, rows, side.table.node[rows]))


def number_experts(side: Side, share: int, shares: int, texts: Texts) -> Side:
    """A side in which the experts of a rank have their global numbers.

    ``share`` counts the rank within the ``shares`` that hold all experts together.
    """
    if shares == 1:
        return side
    local = _local_counts(side, shares, texts)
    table = _renumber_weights(side, share, texts)
    table = _renumber_lists(replace(side, table=table), share, local, texts)
    parsed = [_renumbered(name, share, local) for name in side.tree.parsed]
    changed = {
        old: format_name(new)
        for old, new, before in zip(side.tree.names, parsed, side.tree.parsed, strict=True)
        if new is not before
    }
    names = [changed.get(name, name) for name in side.tree.names]
    stacks = side.dump.stacks
    of_name = {changed.get(name, name): number for name, number in stacks.of_name.items()}
    return replace(
        side,
        dump=replace(side.dump, stacks=replace(stacks, of_name=of_name)),
        tree=replace(side.tree, names=names, parsed=parsed),
        table=table,
    )


def _local_counts(side: Side, shares: int, texts: Texts) -> dict[str, tuple[int, bool]]:
    """Experts per rank, and whether they are already numbered through, by what holds them."""
    highest: dict[str, int] = {}
    lowest: dict[str, int] = {}
    for name in side.tree.parsed:
        place = _place(name)
        if place is not None and place.position is not None:
            number = int(name.stem.split(".")[place.position])
            highest[place.owner] = max(number, highest.get(place.owner, 0))
            lowest[place.owner] = min(number, lowest.get(place.owner, number))
    routed = _routed_counts(side, texts)
    found = {}
    for owner, last in highest.items():
        count = routed.get(owner, 0) // shares
        is_global = last >= count if count else lowest[owner] > 0
        found[owner] = count or last + 1, is_global
    return found


def _routed_counts(side: Side, texts: Texts) -> dict[str, int]:
    """How many experts the routers know: their weights have one row each."""
    found: dict[str, int] = {}
    table = side.table
    for row in np.flatnonzero(table.section == Section.PARAMETERS).tolist():
        path, _, class_name = side.tree.parsed[int(table.node[row])].stem.rpartition(".")
        owner, _, attribute = path.rpartition(".")
        if attribute in _ROUTERS or "Router" in class_name:
            shape = parse_shape(texts, int(table.shape_id[row]))
            if len(shape) == 2:
                found.setdefault(owner, shape[0])
    return found


def _renumbered(name: Name, share: int, local: dict[str, tuple[int, bool]]) -> Name:
    place = _place(name)
    if place is None or place.position is None:
        return name
    count, is_global = local[place.owner]
    if is_global or share == 0:
        return name
    parts = name.stem.split(".")
    parts[place.position] = str(int(parts[place.position]) + share * count)
    return name._replace(stem=".".join(parts))


def _renumber_weights(side: Side, share: int, texts: Texts) -> ParameterTable:
    """Numbered weights of one linear layer for all experts get global numbers as well."""
    table = side.table
    name_id = table.name_id.copy()
    numbers: dict[int, dict[int, tuple[str, int]]] = {}
    held = (table.section == Section.PARAMETERS) | (table.section == Section.PARAMETERS_GRAD)
    for row in np.flatnonzero(held).tolist():
        name = side.tree.parsed[int(table.node[row])]
        found = _NUMBERED_WEIGHT.match(texts.values[int(table.name_id[row])])
        if found and "Linear" in module_class(name) and expert_place(name.stem) is not None:
            place = found["name"], int(found["number"])
            numbers.setdefault(int(table.node[row]), {})[row] = place
    for rows in numbers.values():
        count = 1 + max(number for _, number in rows.values())
        for row, (name_text, number) in rows.items():
            name_id[row] = texts.id(f"{name_text}{number + share * count}")
    return replace(table, name_id=name_id)


def _renumber_lists(
    side: Side, share: int, local: dict[str, tuple[int, bool]], texts: Texts
) -> ParameterTable:
    """A call that splits tokens by expert, or joins them, has a tensor for each local expert."""
    table, tree = side.table, side.tree
    name_id = table.name_id.copy()
    lists: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for row in np.flatnonzero(table.is_tensor).tolist():
        node = int(table.node[row])
        name, above = tree.parsed[node], tree.parsed[int(tree.parent[node])]
        if name.kind is not Kind.API or expert_place(above.stem) is None:
            continue
        operator = operator_of_call(name)
        is_list = splits(operator) or operator.kind is OperatorKind.JOIN
        lists_results = splits(operator) == (name.direction is Direction.FORWARD)
        listed = "output." if lists_results else "input."
        found = _LISTED.match(texts.values[int(table.name_id[row])])
        if is_list and found and found["list"].startswith(listed):
            lists.setdefault((node, found["list"]), []).append((row, int(found["number"])))
    for (node, start), members in lists.items():
        place = expert_place(tree.parsed[int(tree.parent[node])].stem)
        count = local.get(place.owner, (0, False))[0] if place and place.position is None else 0
        if len(members) == count:
            for row, number in members:
                name_id[row] = texts.id(f"{start}{number + share * count}")
    return replace(table, name_id=name_id)
