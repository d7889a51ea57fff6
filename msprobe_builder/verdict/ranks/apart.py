"""Ranks of a merged model that differ in what they should have alike.

The value that is shown is one rank's, so that of another may be wrong unseen. Where the reference
is split as well and its ranks differ there, too, that is how the model is made.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import inputs_of, rows_of
from msprobe_builder.graph.provenance import Provenance, told_of_apart
from msprobe_builder.graph.tree import Tree
from msprobe_builder.metrics.pairing import Pairs
from msprobe_builder.verdict.findings import Cause, Place
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.model.runs import Runs


def _holds(tree: Tree, node: int, later: list[int]) -> bool:
    """Whether one of the later nodes is inside of this one."""
    return any(node < other <= int(tree.subtree_end[node]) for other in later)


_SHOWN = 2
_NORM = 3


def disagreeing(
    tree: Tree,
    table: ParameterTable,
    npu: Provenance | None,
    bench: Provenance | None,
    pairs: Pairs,
) -> dict[int, Place]:
    """The npu rows in which ranks differ, each with the node where that begins."""
    if npu is None or not npu.apart:
        return {}
    usual = {} if bench is None else bench.apart
    partner = dict(zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True)) if usual else {}
    rows = [row for row in sorted(npu.apart) if partner.get(row, -1) not in usual]
    begins = [row for row in rows if any(one.is_origin for one in npu.apart[row])]
    nodes = table.node[begins].tolist()
    # What a module puts out begins in the call inside that made it.
    inner = [not _holds(tree, node, nodes[place + 1 :]) for place, node in enumerate(nodes)]
    begins = [row for row, counts in zip(begins, inner, strict=True) if counts] or rows[:1]
    found = {}
    for row in rows:
        origin = begins[max(bisect_right(begins, row) - 1, 0)]
        found[row] = Place(0, int(table.node[origin]), Cause.RANK)
    return found


def mixed_with_own(runs: Runs, provenance: Provenance, node: int) -> int:
    """The first call that gives a number of each rank's own to what they hold alike; or ``node``.

    Such as the norm of a rank's parts of gradients, which nobody added up over the ranks: an
    update is given what that scales. Numbers are followed from call to call by what each rank has,
    from the last that makes tensors differ: what ranks add up they may have for themselves.
    """
    table = runs.npu.table
    numbers = {
        row: own
        for row, own in provenance.singles.items()
        if len({*own}) > 1 and table.node[row] <= node and not runs.discrete[row]
    }
    section = {row: int(table.section[row]) for row in numbers}
    made: dict[tuple[float, ...], int] = {}
    for row in sorted(numbers):
        if section[row] == Section.OUTPUT:
            made.setdefault(numbers[row], int(table.node[row]))
    given: dict[int, list[int]] = {}
    for row in numbers:
        if section[row] == Section.INPUT:
            given.setdefault(int(table.node[row]), []).append(row)
    differ = [row for row in provenance.unknown if table.numel[row] > 1]
    differ = [row for row in differ if table.section[row] == Section.OUTPUT]
    scaled = {*table.node[differ].tolist()}
    scaling = [one for one in given if one > runs.npu.calls.last_pass and one in scaled]
    asked, seen, mixing = [max(scaling, default=-1)], set[int](), [node]
    while asked:
        call = asked.pop()
        if call in seen or call not in given:
            continue
        seen.add(call)
        alike = [row for row in inputs_of(table, call).tolist() if row not in numbers]
        if (table.statistics[_NORM, alike] > 0).any():
            mixing.append(call)
        asked += [made[numbers[row]] for row in given[call] if numbers[row] in made]
    return min(mixing)


def own_factors(table: ParameterTable, provenance: Provenance | None, node: int) -> list[int]:
    """The rows of arguments that are another number, such as a scale, on some ranks."""
    if provenance is None or not provenance.factors:
        return []
    return [row for row in rows_of(table, node) if row in provenance.factors]


def with_own_factors(evidence: Evidence, provenance: Provenance | None) -> list[tuple[int, int]]:
    """Calls that ranks give another factor, and what of their output is off for that."""
    table = evidence.runs.npu.table
    if provenance is None or not provenance.factors:
        return []
    nodes = table.node[[*provenance.factors]]
    off = evidence.off & np.isin(table.node, nodes) & (table.section == Section.OUTPUT)
    return [(int(table.node[row]), row) for row in np.flatnonzero(off).tolist()]


def ranks_off(
    runs: Runs, provenance: Provenance | None, other: Provenance | None, node: int, texts: Texts
) -> tuple[int, ...]:
    """The ranks that give a call another factor than the reference does, where any gives its.

    Where ranks of the reference give their own as well, that it shows one of them tells nothing.
    """
    table, bench = runs.npu.table, runs.bench.table
    partner, off = int(runs.partner[node]), set[int]()
    of_ranks = {} if other is None else other.factors
    for row in own_factors(table, provenance, node) if partner >= 0 else ():
        assert provenance is not None
        same = [one for one in rows_of(bench, partner) if bench.name_id[one] == table.name_id[row]]
        if any(one in of_ranks for one in same):
            continue
        values = bench.value_id[same].tolist()
        reference = {texts.values[one] if one >= 0 else "None" for one in values}
        given = provenance.factors[row].of_ranks
        if any(value in reference for value, _ in given):
            off.update(rank for value, ranks in given if value not in reference for rank in ranks)
    return tuple(sorted(off))


def told_of_ranks(
    table: ParameterTable, provenance: Provenance | None, node: int, texts: Texts
) -> list[Fact]:
    """What ranks have of their own at a node: arguments and values."""
    if provenance is None:
        return []
    names = texts.values
    arguments = [
        fact(
            "argument.of_ranks",
            name=names[table.name_id[row]].removeprefix("input."),
            values=provenance.factors[row].told(),
        )
        for row in own_factors(table, provenance, node)
    ]
    apart = [
        fact("apart.in_tensor", name=names[table.name_id[row]], what=told_of_apart(one))
        for row in rows_of(table, node)
        for one in provenance.apart.get(row, ())
    ]
    return [*arguments[:_SHOWN], *apart[:_SHOWN]]
