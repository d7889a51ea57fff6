"""What belongs to a group beside its calls going forward: modules, backward calls, gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, alike
from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.links import forward_of, gradients_of
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.match.matching import Group

Int = NDArray[np.int64]


def with_modules(pairs: Pairs, groups: list[Group], flow: Flow, other: Flow) -> list[Group]:
    """Groups with the modules without a partner that hold nothing but their calls."""
    sides = (pairs.npu, flow, pairs.partner), (pairs.bench, other, pairs.back)
    modules = []
    for number, (side, of, partner) in enumerate(sides):
        owner = np.full(len(side), -1, dtype=np.int64)
        for place, group in enumerate(groups):
            owner[list((group.npu, group.bench)[number])] = place
        modules.append(_modules(side, of, partner, owner))
    return [
        replace(
            group,
            npu=tuple(sorted([*group.npu, *modules[0].get(place, [])])),
            bench=tuple(sorted([*group.bench, *modules[1].get(place, [])])),
        )
        for place, group in enumerate(groups)
    ]


def _modules(side: Traits, flow: Flow, partner: Int, owner: Int) -> dict[int, list[int]]:
    """Per group, the modules all of whose calls are in it."""
    tree = side.outline.tree
    found: dict[int, list[int]] = {}
    above = {int(tree.parent[node]) for node in np.flatnonzero(owner >= 0).tolist()}
    seen: set[int] = set()
    while above:
        node = above.pop()
        if node <= 0 or node in seen:
            continue
        seen.add(node)
        above.add(int(tree.parent[node]))
        if partner[node] >= 0 or owner[node] >= 0:
            continue
        if not side.forward[node] or side.outline.kind[node] != Kind.MODULE:
            continue
        below = slice(node + 1, int(tree.subtree_end[node]) + 1)
        groups = set(owner[below][flow.is_leaf[below]].tolist())
        if len(groups) == 1 and -1 not in groups:
            found.setdefault(groups.pop(), []).append(node)
    return found


def backward_groups(pairs: Pairs, groups: list[Group], flow: Flow, other: Flow) -> list[Group]:
    """Groups of the backward calls of groups, and of the gradients of their parameters."""
    back = [_backward(pairs.npu, pairs.partner), _backward(pairs.bench, pairs.back)]
    found = []
    for group in groups:
        npu = sorted(node for one in group.npu for node in back[0].get(one, ()))
        bench = sorted(node for one in group.bench for node in back[1].get(one, ()))
        if npu and bench:
            whole = _in_one_part(flow, group.npu) and _in_one_part(other, group.bench)
            rows = _gradient_rows((flow, other), (npu, bench), whole)
            found.append(replace(group, npu=tuple(npu), bench=tuple(bench), rows=rows))
    return found + _parameter_gradients(pairs, groups)


def _backward(side: Traits, partner: Int) -> dict[int, list[int]]:
    """The backward calls without a partner of each call going forward."""
    forward = forward_of(side)
    found: dict[int, list[int]] = {}
    nodes = np.flatnonzero((side.direction == Direction.BACKWARD) & (forward >= 0) & (partner < 0))
    for node in nodes.tolist():
        found.setdefault(int(forward[node]), []).append(node)
    return found


def _in_one_part(flow: Flow, nodes: tuple[int, ...]) -> bool:
    """Whether each tensor goes into one call of a group, and is known.

    What two calls take in, or slices of it, gets its gradient in parts that nothing adds up.
    """
    members = set(nodes)
    seen: set[int] = set()
    for node in nodes:
        if not flow.is_leaf[node]:
            continue
        for row in flow.rows(node):
            table = flow.table
            if table.section[row] != Section.INPUT or not table.is_tensor[row]:
                continue
            source = int(flow.producer[row])
            if source >= 0 and int(table.node[source]) in members:
                continue
            if table.requires_grad[row] == 0:
                continue
            if source < 0 or int(flow.key[row]) in seen:
                return False
            seen.add(int(flow.key[row]))
    return True


def _gradient_rows(
    flows: tuple[Flow, Flow], nodes: tuple[list[int], list[int]], whole: bool
) -> tuple[tuple[int, int], ...]:
    """What goes in and out of backward calls on both sides: what is equal, then what has a size
    of its own, as long as gradients come out ``whole``."""
    result: list[tuple[int, int]] = []
    for section, by_size in ((Section.INPUT, True), (Section.OUTPUT, whole)):
        left, right = (
            _outer(flow.table, members, section) for flow, members in zip(flows, nodes, strict=True)
        )
        if not left or not right:
            continue
        debug, reference = flows[0].table, flows[1].table
        same = alike(debug, reference, np.array(left), np.array(right), EQUAL)
        for place, row in enumerate(left):
            fitting = [other for other in np.flatnonzero(same[place]).tolist() if right[other] >= 0]
            if fitting:
                result.append((row, right[fitting[0]]))
                left[place], right[fitting[0]] = -1, -1
        if by_size:
            result += _of_one_size(
                debug,
                reference,
                [row for row in left if row >= 0],
                [row for row in right if row >= 0],
            )
    return tuple(result)


def _of_one_size(
    debug: ParameterTable, reference: ParameterTable, left: list[int], right: list[int]
) -> list[tuple[int, int]]:
    sizes = [debug.numel[row] for row in left], [reference.numel[row] for row in right]
    return [
        (row, right[sizes[1].index(size)])
        for row, size in zip(left, sizes[0], strict=True)
        if sizes[0].count(size) == 1 and sizes[1].count(size) == 1
    ]


def _outer(table: ParameterTable, nodes: list[int], section: Section) -> list[int]:
    """Rows of a section of backward calls that none of them puts out or takes in.

    Hooks of some calls record what goes in as what comes out; that says nothing.
    """
    begin, end = np.searchsorted(table.node, nodes), np.searchsorted(table.node, nodes, "right")
    rows = [row for low, high in zip(begin, end, strict=True) for row in range(low, high)]
    rows = [row for row in rows if table.is_tensor[row]]
    inner: set[tuple[float, ...]] = {
        _tensor(table, row)
        for row in rows
        if table.section[row] != section and table.section[row] in (Section.INPUT, Section.OUTPUT)
    }
    result = [
        row for row in rows if table.section[row] == section and _tensor(table, row) not in inner
    ]
    if section is Section.INPUT or not result:
        return result
    given = np.array([row for row in rows if table.section[row] == Section.INPUT], dtype=np.int64)
    same = alike(table, table, np.array(result), given, EQUAL)
    return [
        row
        for row, equal in zip(result, same, strict=True)
        if table.node[row] not in table.node[given[equal]]
    ]


def _tensor(table: ParameterTable, row: int) -> tuple[float, ...]:
    return (float(table.numel[row]), *table.statistics[:, row].tolist())


def _parameter_gradients(pairs: Pairs, groups: list[Group]) -> list[Group]:
    """The gradients of the parameters of grouped modules, once for all their calls."""
    sides = (pairs.npu, pairs.partner), (pairs.bench, pairs.back)
    records = []
    for side, partner in sides:
        of_stem: dict[str, list[int]] = {}
        for node, stem, _ in gradients_of(side):
            if partner[node] < 0:
                of_stem.setdefault(stem, []).append(node)
        records.append(of_stem)
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], Group] = {}
    for group in groups:
        members: list[tuple[int, ...]] = []
        for (side, _), nodes, of_stem in zip(sides, (group.npu, group.bench), records, strict=True):
            stems = {side.outline.tree.parsed[node].stem for node in nodes}
            members.append(tuple(sorted(one for stem in stems for one in of_stem.get(stem, ()))))
        npu, bench = members
        if npu and bench:
            found.setdefault((npu, bench), replace(group, npu=npu, bench=bench, rows=()))
    return list(found.values())
