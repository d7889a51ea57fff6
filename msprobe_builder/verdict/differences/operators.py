"""How much of the error of its inputs an operator may show at its output, by its kind.

Few kinds are told apart, each for one reason:

sums        errors add up as amounts, not as fractions: what cancels makes a small error look large
            and what is added to something large makes a large one look small
products    sums of many products: the terms may cancel as well
curves      exp, softmax, sin and their like see how far their input moved, not by which fraction
selections  a part is picked, which may hold all of the error and little of the size
choices     integers: one step aside is another choice, and everything behind it is another number
steps       what is rounded to whole numbers: a little more or less is a whole one
random      the output is drawn; it agrees only where both runs drew alike
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.distance import is_other_precision


class Family(IntEnum):
    """What is known of an operator's conduct."""

    PLAIN = 0
    SUM = 1
    PRODUCT = 2
    CURVE = 3
    RANDOM = 4
    UNINITIALISED = 5
    COMMUNICATION = 6
    SELECTION = 7


# What errors do by the words of the table; the first that fits.
_FAMILY = {"sums": Family.SUM, "products": Family.PRODUCT, "reach": Family.CURVE}
_SELECTING = {Kind.SLICE, Kind.PICK, Kind.LOOKUP, Kind.FILTER, Kind.MASK}


def families(calls: Calls) -> NDArray[np.int64]:
    """The family of each node; modules are plain, unless nothing else was recorded.

    Of what draws if its arguments say so, such as attention with dropout, that of the numbers that
    it draws nothing for; :func:`~msprobe_builder.verdict.differences.drawn.drawing_calls` tells.
    """
    known = [_conduct(one, draws=one.kind is Kind.DRAW) for one in calls.operators]
    told = calls.is_api if calls.is_api.any() else calls.is_module
    return np.where(told, np.array(known, dtype=np.int64)[calls.stem], Family.PLAIN)


def _family(stem: str) -> int:
    """The family of a call of which the name alone is known: what may draw is random."""
    operator = operator_of(stem)
    return _conduct(operator, draws=operator.may_draw)


def _conduct(operator: Operator, *, draws: bool) -> Family:
    if operator.kind is Kind.COLLECTIVE:
        return Family.COMMUNICATION
    if draws:
        return Family.RANDOM
    if operator.kind is Kind.EMPTY:
        return Family.UNINITIALISED
    for word, family in _FAMILY.items():
        if word in operator.condition:
            return family
    return Family.SELECTION if operator.kind in _SELECTING else Family.PLAIN


_FEW = 4  # samples of a channel


def over_few_samples(part: Part, texts: Texts) -> NDArray[np.bool_]:
    """Batch normalisations of a handful of samples of each channel, forward and back.

    Of two samples nothing is left but their signs, and of a gradient nothing but rounding.
    """
    calls, table = part.calls, part.table
    named = calls.do(questions.one_of("batch_norm"))
    first = table.is_tensor & (table.section == Section.INPUT) & (table.position == 0)
    rows = np.flatnonzero(first & named[table.node])
    channels = {
        shape: _channels(texts.values[shape]) for shape in np.unique(table.shape_id[rows]).tolist()
    }
    result = np.zeros(len(part.tree), dtype=bool)
    for row in rows.tolist():
        result[table.node[row]] |= table.numel[row] <= _FEW * channels[int(table.shape_id[row])]
    twin = calls.twin
    return np.asarray(result | ((twin >= 0) & result[twin]))


def _channels(shape: str) -> int:
    sizes = shape.strip("[]()").split(",")
    return int(sizes[1]) if len(sizes) > 1 and sizes[1].strip().isdigit() else 0


def idle_casts(part: Part, is_whole: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Casts to the type that the tensor has, and of whole numbers, by type: they change nothing."""
    table, size = part.table, len(part.tree)
    given, put_out = np.full(size, -1, dtype=np.int64), np.full(size, -2, dtype=np.int64)
    first = table.is_tensor & (table.position == 0)
    for section, of_node in ((Section.INPUT, given), (Section.OUTPUT, put_out)):
        rows = np.flatnonzero(first & (table.section == section))
        of_node[table.node[rows]] = table.dtype_id[rows]
    return np.asarray(part.calls.are(questions.casts) & ((given == put_out) | is_whole[given]))


def has_other_precision(npu: Part, bench: ParameterTable, comparisons: Comparisons) -> bool:
    """Whether it is the habit of two runs that types differ."""
    calls = npu.calls
    products = calls.is_forward_call & (families(calls) == Family.PRODUCT)
    rows = products[npu.table.node] & (npu.table.section == Section.OUTPUT)
    weights = npu.table.section == Section.PARAMETERS
    return is_other_precision(npu.table, bench, comparisons, (np.asarray(rows), weights))


def normalising(calls: Calls) -> NDArray[np.bool_]:
    """Calls that take out what is common to their elements; modules where nothing else is known."""
    if calls.is_api.any():
        return calls.are(questions.normalises)
    return calls.do(_is_norm) & calls.is_module


def _is_norm(operator: Operator) -> bool:
    return operator.kind is Kind.NORMALISE and operator.name.endswith("norm")
