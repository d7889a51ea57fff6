"""Where NaN and infinity began, as one rank can tell: which calls made some, and of what.

What came from other ranks is found when all of them are there: ``pipeline/origins.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.calls import communicates
from msprobe_builder.graph.floating import lowest_numbers
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.tree import Tree
from msprobe_builder.metrics.beginning import Beginning, Part
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.overflow.check import Overflow

# Views and copies, some of which are a library's own.
_MOVES = {Kind.SHAPE, Kind.TRANSPOSE, Kind.SLICE, Kind.CAST, Kind.EMPTY, Kind.FILL, Kind.OTHER}
MOST = 100  # calls of a rank that make bad values: more say no more
_MAX, _MIN = 0, 1
_LOGARITHMS = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0}
_ROOTS = ("sqrt", "rsqrt")


def of_merged(
    began: Iterable[Beginning], found: Overflow, table: ParameterTable, provenance: Provenance
) -> Iterator[Beginning]:
    """The same of a merged side, where each says which of its ranks hold NaN or infinity."""
    for one in began:
        rows = found.bad[table.node[found.bad] == one.node]
        made = rows[np.isin(table.section[rows], (Section.OUTPUT, Section.PARAMETERS_GRAD))]
        chosen = made if one.part is Part.MADE else rows
        ranks = {rank for row in chosen.tolist() for rank in provenance.not_finite.get(row, ())}
        own = provenance.origins[one.node] if provenance.origins else ()
        if not ranks and len(own) == 1:
            ranks = set(own)
        said = (fact("origin.on_ranks", count=len(ranks), ranks=sorted(ranks)),) if ranks else ()
        yield replace(one, why=(*said, *one.why))


def beginnings(tree: Tree, table: ParameterTable, found: Overflow, texts: Texts) -> list[Beginning]:
    """The calls that made bad values, in order of execution, and the first that was given some.

    A call behind the first that was given some counts as one that only hands on.
    """
    given = found.given[:1]
    before = int(given[0]) if len(given) else len(tree)
    made = found.made[found.made < before][:MOST]
    result = [
        Beginning(node, Part.MADE, tuple(_why_made(tree, table, found, texts, node)))
        for node in made.tolist()
    ]
    # What received something is heard again with the ranks that gave it.
    late = [node for node in found.made.tolist() if node > before and _talks(tree, node)]
    result += [Beginning(node, Part.MADE, ()) for node in late[:MOST]]
    if len(made) or not _is_only_moved(tree, table, found):
        result += [_given(table, found, texts, tree, node) for node in given.tolist()]
    return sorted(result, key=lambda one: one.node)


def _is_only_moved(tree: Tree, table: ParameterTable, found: Overflow) -> bool:
    """Whether all bad values are of buffers that nothing has filled, and nobody computes with."""
    calls = tree.calls
    moves = calls.are(lambda one: one.kind in _MOVES) & (calls.direction == Direction.FORWARD)
    return bool(moves[table.node[found.bad]].all())


def _talks(tree: Tree, node: int) -> bool:
    return communicates(tree.parsed[node].stem)


def _given(
    table: ParameterTable, found: Overflow, texts: Texts, tree: Tree, node: int
) -> Beginning:
    rows = found.bad[table.node[found.bad] == node]
    rows = rows[table.section[rows] != Section.OUTPUT]
    names = [_shown(table, texts, row) for row in rows[:1].tolist()]
    maker = -1 if table.origins is None or not len(rows) else int(table.origins.maker[rows[0]])
    if maker >= 0 and _talks(tree, int(table.node[maker])):
        name = tree.names[int(table.node[maker])]
        return Beginning(node, Part.RECEIVED, (fact("origin.by_call", name=name),))
    return Beginning(node, Part.GIVEN, (fact("origin.given", name=names[0] if names else None),))


def _why_made(
    tree: Tree, table: ParameterTable, found: Overflow, texts: Texts, node: int
) -> Iterator[Fact]:
    """What a call puts out, and what of its operands explains it."""
    span = np.searchsorted(table.node, [node, node + 1])
    rows = np.arange(int(span[0]), int(span[1]))
    inputs = rows[table.section[rows] == Section.INPUT]
    bad = found.bad[table.node[found.bad] == node]
    reason = None
    if tree.parsed[node].direction is Direction.FORWARD:
        operator = tree.calls.operators[int(tree.calls.stem[node])]
        reasons = chain(
            _of_domain(operator, table, texts, inputs), _of_range(table, texts, inputs, bad)
        )
        reason = next(reasons, None)
    if reason is not None:
        yield reason
    elif len(bad):
        yield fact("origin.made", name=_shown(table, texts, int(bad[0])))
    if tree.parsed[node].direction is not Direction.FORWARD and _is_half(table, texts, bad):
        yield fact("origin.scaled")


def _of_domain(
    operator: Operator, table: ParameterTable, texts: Texts, inputs: np.ndarray
) -> Iterator[Fact]:
    """Whether an operand is where the operator has no finite value."""
    operands = {_shown(table, texts, row): row for row in inputs.tolist()}
    first = operands.get("input.0", -1)
    if "quotient" in operator.condition:
        yield from _zero(table, texts, "input.1", operands.get("input.1", -1))
    elif operator.name in ("rdiv", "reciprocal", "rsqrt"):
        yield from _zero(table, texts, "input.0", first)
    if first < 0 or not table.is_tensor[first]:
        return
    least = float(table.statistics[_MIN, first])
    if operator.name in _LOGARITHMS and least <= _LOGARITHMS[operator.name]:
        yield fact("origin.logarithm", name="input.0", least=least)
    if operator.name in _ROOTS and least < 0:
        yield fact("origin.root", name="input.0", least=least)
    if operator.name in ("softmax", "log_softmax") and least == -np.inf:
        yield fact("origin.masked")


def _zero(table: ParameterTable, texts: Texts, name: str, row: int) -> Iterator[Fact]:
    if row < 0:
        return
    largest, least = table.statistics[_MAX, row], table.statistics[_MIN, row]
    number = texts.values[int(table.value_id[row])] if table.value_id[row] >= 0 else ""
    if (largest == 0 and least == 0) or number in ("0", "0.0", "-0.0"):
        yield fact("origin.zero", name=name)
    elif largest == 0 or least == 0:
        yield fact("origin.zeros", name=name)


def _of_range(
    table: ParameterTable, texts: Texts, inputs: np.ndarray, bad: np.ndarray
) -> Iterator[Fact]:
    """Whether what is put out leaves the range of its type."""
    extremes = table.statistics[: _MIN + 1]
    over = bad[np.isinf(extremes[:, bad]).any(axis=0)]
    limits = -lowest_numbers(table.dtype_id[over], texts)
    if not len(over) or not np.isfinite(limits[0]) or not len(inputs):
        return
    sizes = np.abs(extremes[:, inputs[table.is_tensor[inputs]]])
    largest = float(np.max(sizes[np.isfinite(sizes)], initial=0.0))
    yield fact(
        "origin.leaves",
        name=_shown(table, texts, int(over[0])),
        dtype=texts.values[int(table.dtype_id[over[0]])].rpartition(".")[2],
        limit=f"{limits[0]:.3g}",
        largest=f"{largest:.3g}",
    )


def _is_half(table: ParameterTable, texts: Texts, bad: np.ndarray) -> bool:
    """Whether it is float16, whose gradients a loss scaler lets overflow now and then."""
    return bool(len(bad)) and bool((lowest_numbers(table.dtype_id[bad], texts) == -65504.0).all())


def _shown(table: ParameterTable, texts: Texts, row: int) -> str:
    return texts.values[int(table.name_id[row])]
