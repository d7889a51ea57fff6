"""Gradients of a loss that each rank averages over its own part of a sequence.

The mean over the tokens of one of two ranks gives each token twice the weight that the mean over
all has. Where the ranks hand the same gradient to it as the other side, every gradient that flows
back from it is twice that of an unsplit run, until weights are averaged over the ranks. For the
comparison they are divided by the number of parts: then they are what the mean over all tokens
gives back. A script that divides the loss itself hands a smaller gradient to the mean, and nothing
is to be done.

A mean may be spelt as a sum that is divided by a count. It is one of each rank's own tokens where
the count is as many times smaller than the other side's as the sequence has parts; where it is as
large, ranks divide by the tokens of all, and nothing is to be done either, unless they multiply by
the number of parts behind, as what is averaged later asks for. Where the backward pass
makes calls of its own, such as products of gradients with activations, nobody tells which of their
tensors are gradients, and they are left as they are.
"""

from __future__ import annotations

from dataclasses import replace
from math import isclose

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, Facts, fact, within
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.operators import operator_of_call
from msprobe_builder.merge.flow.share import because
from msprobe_builder.operators.operator import Operator

_SAME = 1e-5


def with_common_mean(side: Side, other: Side, texts: Texts) -> Side:
    """The side with gradients of the mean over all tokens, where ranks took that of their own.

    Not with files at hand: the elements in them would not be divided.
    """
    provenance = side.provenance
    if provenance is None or not provenance.slices or provenance.assemblies:
        return side
    if other.provenance is not None and other.provenance.slices:
        return side
    means = _own_means(side, other, texts)
    for summed, node in means:
        side, provenance = _with_losses(side, provenance, summed, node)
    if not means or (means[0][0] is not None and works_in_backward(other)):
        return side
    count = next(iter(provenance.slices.values()), 1)
    if not all(_is_as_often(side, other, count, *one) for one in means):
        return side
    table = side.table
    backward = np.array([name.direction is Direction.BACKWARD for name in side.tree.parsed])
    of_loss = backward[table.node] | (table.section == Section.PARAMETERS_GRAD)
    of_loss &= ~np.isnan(table.statistics).all(axis=0)
    own = {row: parts for row, parts in provenance.slices.items() if of_loss[row]}
    for summed, node in means:
        if summed is not None:
            own |= {row: count for row in _between(side, summed, node) if of_loss[row]}
    rows, parts = [*own], np.array([*own.values()])
    statistics = table.statistics.copy()
    statistics[:, rows] /= parts
    recipes = dict(provenance.recipes)
    for row, count in zip(rows, parts.tolist(), strict=True):
        recipes[row] = with_reason(recipes.get(row, ()), fact("reason.own_mean", count=count))
    return replace(
        side,
        table=replace(table, statistics=statistics),
        provenance=replace(provenance, recipes=recipes),
    )


def _takes_a_mean(operator: Operator) -> bool:
    """Whether it takes the mean of what it is given if nobody says otherwise."""
    return operator.name == "mean" or "own_mean" in operator.traits


def with_reason(recipe: Facts, more: Fact) -> Facts:
    """A recipe with one more reason for what was done last; what was done before stands behind."""
    codes = [one.code for one in recipe]
    if "recipe.because" in codes:
        place = codes.index("recipe.because")
        known = [one for one in within(recipe[place]) if one.code.startswith("reason.")]
        return (*recipe[:place], because([*known, more]), *recipe[place + 1 :])
    place = codes.index("recipe.before") if "recipe.before" in codes else len(codes)
    return (*recipe[:place], because([more]), *recipe[place:])


def works_in_backward(side: Side) -> bool:
    """Whether calls stand in the backward pass of a module that are not made anew there."""
    tree = side.tree
    return any(
        name.kind is Kind.API
        and name.direction is Direction.FORWARD
        and not tree.is_recompute[node]
        and tree.parsed[int(tree.parent[node])].direction is Direction.BACKWARD
        for node, name in enumerate(tree.parsed)
    )


def _between(side: Side, summed: int, node: int) -> list[int]:
    """The gradient of a sum that a division puts out, and the same where the sum takes it in."""
    table, names = side.table, side.tree.names
    found: list[int] = []
    for call, section in ((node, Section.OUTPUT), (summed, Section.INPUT)):
        back = names[call].removesuffix(".forward") + ".backward"
        if back in names:
            first, last = np.searchsorted(table.node, names.index(back) + np.arange(2)).tolist()
            rows = np.arange(first, last)
            rows = rows[table.is_tensor[rows] & (table.section[rows] == section)]
            found += rows[table.numel[rows] == 1][:1].tolist()
    return found


def _is_as_often(side: Side, other: Side, count: int, summed: int | None, node: int) -> bool:
    """Whether gradients are so many times the other side's, by what is handed to a loss."""
    names = side.tree.names
    if _is_times(_given_back(side, node), 1, _given_back(other, names[node])):
        return True
    if summed is None:
        return False
    given = _given_back(other, names[summed]) or _given_back_first(other)
    return _is_times(_given_back(side, summed), count, given)


def _own_means(side: Side, other: Side, texts: Texts) -> list[tuple[int | None, int]]:
    """Of each micro-step the calls that add up and take the mean; one of both has None first."""
    forward: dict[int, list[int]] = {}
    closed = set[int]()
    for node, name in enumerate(side.tree.parsed):
        step = int(side.tree.micro_step[node])
        if name.direction is Direction.BACKWARD:
            closed.add(step)
        elif name.kind is Kind.API and step not in closed:
            forward.setdefault(step, []).append(node)
    found = [_own_mean(side, other, texts, nodes) for _, nodes in sorted(forward.items())]
    return [(summed, node) for summed, node in found if node is not None]


def _own_mean(
    side: Side, other: Side, texts: Texts, nodes: list[int]
) -> tuple[int | None, int | None]:
    """The calls that add up and take the mean, which may be one: then the first is None.

    The mean is the last number made of all tokens by ``nodes``, those before going back.
    """
    assert side.provenance is not None
    table, slices = side.table, side.provenance.slices
    found: int | None = None
    summed: int | None = None
    parts = 0  # of the sequence whose tokens were added up last
    for node in nodes:
        name = side.tree.parsed[node]
        first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
        rows = np.arange(first, last)
        given = rows[table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
        made = rows[table.is_tensor[rows] & (table.section[rows] == Section.OUTPUT)]
        if len(made) != 1 or table.numel[made[0]] != 1 or not len(given):
            continue
        operator = operator_of_call(name)
        # Of a loss the labels tell where merging lost what the model puts out.
        count = next((slices[row] for row in given.tolist() if row in slices), None)
        if count is not None:
            is_sum = operator.name == "sum" or _is_summed(table, rows, texts)
            is_mean = _takes_a_mean(operator) and not is_sum
            skips = "padded" in operator.traits and _skips(table, given)
            found = node if is_mean and not skips else None
            parts = count if is_sum and (operator.name == "sum" or _takes_a_mean(operator)) else 0
            summed = node if parts else None
        elif parts and operator.name in ("div", "mul"):
            own = _counted(side, node, texts)
            whole = _counted(other, side.tree.names[node], texts)
            if operator.name == "div":
                found = node if own and whole == own * parts else None
            else:
                found = node if own == parts != whole else None
            parts = parts if own and whole in (own, None) and not found else 0
    return (None, None) if found is None else (summed, found)


def _counted(side: Side, call: int | str, texts: Texts) -> float | None:
    """The number by which a call divides or multiplies, None where its ranks have others."""
    names, table = side.tree.names, side.table
    if isinstance(call, str):
        if call not in names:
            return None
        call = names.index(call)
    first, last = np.searchsorted(table.node, [call, call + 1]).tolist()
    rows = np.arange(first, last)
    rows = rows[table.section[rows] == Section.INPUT]
    given = rows[table.is_tensor[rows]]
    if len(given) < 2:
        plain = [texts.values[one] for one in table.value_id[rows[~table.is_tensor[rows]]]]
        try:
            return float(plain[0]) if len(plain) == 1 else None
        except ValueError:
            return None
    if table.numel[given[1]] != 1:
        return None
    return _common(side, int(given[1]))


def _given_back(side: Side, call: int | str) -> float | None:
    """The gradient that a call is handed in the backward pass, if it is one number."""
    names = side.tree.names
    name = names[call] if isinstance(call, int) else call
    back = name.removesuffix(".forward") + ".backward"
    if back not in names:
        return None
    table, node = side.table, names.index(back)
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    rows = np.arange(first, last)
    given = rows[table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
    if len(given) != 1 or table.numel[given[0]] != 1:
        return None
    return _common(side, int(given[0]))


def _is_times(one: float | None, times: int, other: float | None) -> bool:
    """Whether both are known, and one is so many times the other."""
    return one is not None and other is not None and isclose(one, times * other, rel_tol=_SAME)


def _given_back_first(side: Side) -> float | None:
    """The first gradient of a single number that is not one of a single number itself."""
    for node, name in enumerate(side.tree.parsed):
        if name.direction is Direction.BACKWARD and name.kind is Kind.API:
            first, last = np.searchsorted(side.table.node, [node, node + 1]).tolist()
            rows = np.arange(first, last)
            rows = rows[side.table.is_tensor[rows] & (side.table.section[rows] == Section.OUTPUT)]
            if len(rows) and side.table.numel[rows].max() > 1:
                return _given_back(
                    side, side.tree.names[node].removesuffix(".backward") + ".forward"
                )
    return None


def _common(side: Side, row: int) -> float | None:
    """A single number, if all ranks have it alike."""
    value = float(side.table.statistics[0, row])
    singles = {} if side.provenance is None else side.provenance.singles
    own = {*singles.get(row, ())}
    return value if np.isfinite(value) else own.pop() if len(own) == 1 else None


def _with_losses(
    side: Side, provenance: Provenance, summed: int | None, node: int
) -> tuple[Side, Provenance]:
    """The side with the sum and the mean over the tokens of all ranks, which have equally many.

    Wherever the ranks have the same numbers once more, they were handed on.
    """
    table = side.table
    statistics, missing = table.statistics.copy(), table.missing.copy()
    recipes, unknown = dict(provenance.recipes), dict(provenance.unknown)
    for call in (node, summed):
        made = [
            provenance.singles[row]
            for row in provenance.singles
            if table.node[row] == call and table.section[row] == Section.OUTPUT
        ]
        for row, own in provenance.singles.items():
            if made and own == made[0] and table.node[row] >= call:
                value = sum(own) / (len(own) if call == node else 1)
                statistics[:, row] = value, value, value, abs(value)
                missing[row] = 0
                told = fact("recipe.sum_of_ranks", parts=list(own), whole=value)
                if call == node:
                    told = fact("recipe.mean_of_ranks", parts=list(own), whole=value)
                recipes[row] = (told,)
                unknown.pop(row, None)
    provenance = replace(provenance, recipes=recipes, unknown=unknown)
    table = replace(table, statistics=statistics, missing=missing)
    return replace(side, table=table, provenance=provenance), provenance


def _is_summed(table: ParameterTable, rows: NDArray[np.int64], texts: Texts) -> bool:
    values = texts.values
    words = {values[one] for one in table.value_id[rows[~table.is_tensor[rows]]] if one >= 0}
    return "sum" in words


def _skips(table: ParameterTable, given: NDArray[np.int64]) -> bool:
    """Whether labels leave tokens out, so that ranks may count other numbers of them."""
    return len(given) > 1 and bool(table.statistics[1, given[1]] < 0)
