"""Where NaN and infinity come from: the overflow level of each call.

==========  ========  =========  =========================================================
level       inputs    outputs    also
==========  ========  =========  =========================================================
medium      abnormal  normal
high        abnormal  abnormal   the norm of an output is over 100 times that of the inputs, or
                                 a backward call's forward call was abnormal
critical    normal    abnormal
==========  ========  =========  =========================================================

Abnormal is a NaN in any statistic, or an infinity in max or min; an infinite mean or norm alone
only says that a sum left the range of its type. Parameters and plain floats count as inputs.
What is abnormal on purpose does not count: the rules stand in ``tolerance.py``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, format_name
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import lowest_numbers
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.metrics.tolerance import meaningless_rows
from msprobe_builder.operators import questions
from msprobe_builder.overflow.values import Values, is_text, values_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

NONE, MEDIUM, HIGH, CRITICAL = 0, 1, 2, 3
GROWTH = 100.0
_MAX, _MIN, _NORM = 0, 1, 3


@dataclass(frozen=True)
class Overflow:
    """Level of each node (0 none, 1 medium, 2 high, 3 critical) and the parameters to blame.

    ``rows`` are rows of the parameter table, ``bad`` those with NaN or infinity; ``first`` is the
    call where it began: the first that made NaN or infinity, else that was given some, else whose
    norm grew; -1 when the graph is clean. ``made`` and ``given`` are calls of the first two kinds
    with no such call inside, in order of execution.
    """

    level: Int
    rows: Int
    first: int
    bad: Int
    made: Int
    given: Int


def check_overflow(
    tree: Tree,
    table: ParameterTable,
    texts: Texts,
    rank: int,
    of_ranks: Collection[int] = (),
) -> Overflow:
    """Overflow level of every call of one side.

    ``of_ranks`` are rows of which a merged rank is NaN or infinite.
    """
    size = len(tree)
    ignored = meaningless_rows(tree, table, texts, rank)
    values = values_of(table, texts, of_ranks)
    is_input = np.isin(table.section, (Section.INPUT, Section.PARAMETERS))
    bad = values.abnormal & ~ignored
    bad &= ~_deliberate(tree, table, texts, values, bad)
    inputs = _nodes(table, bad & is_input, size)
    outputs = _nodes(table, bad & ~is_input, size)

    removed = tree.calls.are(questions.one_of("masked_fill")) & inputs & ~outputs
    bad &= ~removed[table.node]
    inputs &= ~removed
    level = np.select(
        [inputs & outputs, inputs, outputs], [HIGH, MEDIUM, CRITICAL], default=NONE
    ).astype(np.int64)
    _hand_on(tree, inputs | outputs, level)
    _judge_gradients(tree, table, bad, inputs | outputs, level)
    made, given = _beginnings(tree, level)
    grown = _grown(tree, table, texts, is_input, ignored | values.abnormal)
    grown &= level[table.node] == NONE
    level[table.node[grown]] = HIGH
    rows = np.flatnonzero(bad | grown)
    first = min((*made[:1].tolist(), *given[:1].tolist()), default=-1)
    if first < 0:
        first = _first(tree, level)
    return Overflow(level, rows, first, np.flatnonzero(bad), made, given)


def _hand_on(tree: Tree, abnormal: Bool, level: Int) -> None:
    """A backward call makes nothing of its own whose forward call had NaN or infinity already."""
    calls = tree.calls
    twin = calls.twin
    handed = (calls.direction == Direction.BACKWARD) & (level == CRITICAL) & (twin >= 0)
    level[handed & abnormal[twin]] = HIGH


def _beginnings(tree: Tree, level: Int) -> tuple[Int, Int]:
    """Calls that made bad values, and calls that were given some, none of them around another."""
    worse = np.r_[0, np.cumsum(level >= HIGH)]
    alone = worse[tree.subtree_end + 1] == worse[np.arange(len(tree)) + 1]
    made = np.flatnonzero((level == CRITICAL) & alone)
    given = np.flatnonzero((level == HIGH) & alone)
    if not len(given) and not len(made):  # some came in, none of it came out
        given = np.flatnonzero(level == MEDIUM)[:1]
    return made, given


def _nodes(table: ParameterTable, rows: Bool, size: int) -> Bool:
    found = np.zeros(size, dtype=bool)
    found[table.node[rows]] = True
    return found


def _deliberate(tree: Tree, table: ParameterTable, texts: Texts, values: Values, bad: Bool) -> Bool:
    """Rows whose infinity was put there on purpose: masks, and infinities given as numbers.

    A mask is an input of a forward call with -inf but neither NaN nor +inf. What comes out of a
    call that was given a mask, -inf as a number, or the lowest number of a type (two of which add
    up to -inf) may hold -inf too. So may the output of a module in which such a call stands.
    """
    size = len(tree)
    if not bad.any():
        return np.zeros(len(table), dtype=bool)
    is_module = tree.calls.is_module
    forward = (tree.calls.direction != Direction.BACKWARD)[table.node]
    is_input = table.section == Section.INPUT
    is_output = table.section == Section.OUTPUT

    mask = values.only_minus & is_input & forward
    is_lowest = table.statistics[_MIN] <= lowest_numbers(table.dtype_id, texts)
    lowest = table.is_tensor & is_input & is_lowest
    explains = _nodes(table, mask | (lowest & forward), size)
    minus = values.only_minus & is_output & forward & bad
    explained = minus & explains[table.node]
    below = np.r_[0, np.cumsum(_nodes(table, explained, size))]
    inside = below[tree.subtree_end + 1] > below[np.arange(size) + 1]
    explained |= minus & (inside & is_module)[table.node]

    takes_infinity = tree.calls.are(lambda one: "takes_infinity" in one.traits)[table.node]
    given = takes_infinity & values.is_scalar & (values.plus | values.minus) & is_input
    put_out = takes_infinity & is_output & values.plus & ~values.nan
    put_out &= _nodes(table, given & values.plus, size)[table.node]
    return np.asarray(mask | explained | given | put_out, dtype=bool)


def _judge_gradients(
    tree: Tree, table: ParameterTable, bad: Bool, abnormal: Bool, level: Int
) -> None:
    """Set the level of parameter gradients: critical unless the module's calls were abnormal."""
    gradients = np.unique(table.node[bad & (table.section == Section.PARAMETERS_GRAD)])
    if not len(gradients):
        return
    index = {name: node for node, name in enumerate(tree.names)}
    for node in gradients.tolist():
        backward = int(tree.parent[node])
        twin = format_name(tree.parsed[backward]._replace(direction=Direction.FORWARD))
        forward = index.get(twin, backward)
        propagated = backward > 0 and (abnormal[backward] or abnormal[forward])
        level[node] = HIGH if propagated else CRITICAL


def _grown(tree: Tree, table: ParameterTable, texts: Texts, is_input: Bool, left_out: Bool) -> Bool:
    """Outputs whose norm is abnormally large against the inputs'.

    Only calls without calls inside them are judged: many small gains make a large one. The limit
    follows what is no overflow: the norm grows with the root of the number of elements and with a
    number that was given as a factor.
    """
    size = len(tree)
    is_call = tree.calls.direction != Direction.NONE
    contains_calls = np.zeros(size, dtype=bool)
    contains_calls[tree.parent[1:][is_call[1:]]] = True
    norm = table.statistics[_NORM]
    usable = table.is_tensor & np.isfinite(norm) & ~left_out
    usable &= np.isfinite(lowest_numbers(table.dtype_id, texts))  # floating point only
    usable &= ~(contains_calls | tree.calls.are(lambda one: "chooses_size" in one.traits))[
        table.node
    ]
    given = np.full(size, -1.0)
    elements = np.zeros(size)
    rows = np.flatnonzero(usable & is_input)
    np.maximum.at(given, table.node[rows], norm[rows])
    np.fmax.at(elements, table.node[rows], table.numel[rows])
    factor = _largest_factor(table, texts, size)
    node = table.node
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        more = np.sqrt(np.fmax(table.numel / elements[node], 1.0))
        base = np.where(given == 0, 1.0, given)[node]
        limit = GROWTH * base * np.where(np.isfinite(more), more, 1.0) * factor[node]
        over = norm > limit
    is_output = table.section == Section.OUTPUT
    return np.asarray(usable & is_output & (given[node] >= 0) & over, dtype=bool)


def _largest_factor(table: ParameterTable, texts: Texts, size: int) -> NDArray[np.float64]:
    """The largest finite number passed as a plain float to each node, at least 1."""
    factor = np.ones(size)
    rows = np.flatnonzero(~table.is_tensor & is_text(table.type_id, texts, "float"))
    of_text: dict[int, float] = {}
    for text_id in np.unique(table.value_id[rows]).tolist():
        try:
            of_text[text_id] = abs(float(texts.values[text_id])) if text_id >= 0 else 1.0
        except ValueError:
            of_text[text_id] = 1.0
    values = np.array([of_text[text_id] for text_id in table.value_id[rows].tolist()])
    finite = np.isfinite(values)
    np.maximum.at(factor, table.node[rows[finite]], values[finite])
    return factor


def _first(tree: Tree, level: Int) -> int:
    """The first flagged call without a flagged call inside it."""
    flagged = np.r_[0, np.cumsum(level > 0)]
    index = np.arange(len(tree))
    innermost = (level > 0) & (flagged[tree.subtree_end + 1] == flagged[index + 1])
    return int(np.argmax(innermost)) if innermost.any() else -1
