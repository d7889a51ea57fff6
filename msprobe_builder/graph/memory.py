"""Tensors that hold nothing: nobody has written to them, or nobody reads them.

``empty`` and its like hand out memory as it was, and communication is given the tensors that it
shall write to. A product with ``beta`` 0 is given a tensor that it does not read, often memory that
was kept since an earlier step; what is copied into a tensor does not read what it held. Views of
such memory hold nothing either.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import carries, communicates
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.producers import producers
from msprobe_builder.graph.tree import Tree
from msprobe_builder.operators import questions
from msprobe_builder.operators.table import overwrites

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

FIRST_OPERANDS = ("input.0", "input.input", "input.self")
# Where communication writes to, if not to the first argument.
_KEYWORDS = ("tensor_list", "output", "output_tensor", "output_tensor_list", "gather_list")


def meaningless(part: Part, producer: Int, texts: Texts) -> Bool:
    """Rows whose contents mean nothing; ``producer`` by row as from ``producers``."""
    views = _views(part)
    unread = unread_operands(part.tree, part.table, texts)
    overwritten = _overwritten(part, texts)
    unread |= _written_over(part, texts) | overwritten
    if overwritten.any():
        unread |= _room(overwritten, part.table, producer)
    if unread.any():
        _lead_nowhere(unread, views, part.table, producer)
    return np.asarray(unread | _unwritten(part, views, producer))


def unwritten(tree: Tree, table: ParameterTable) -> Bool:
    """Rows that hold memory as it was handed out, or a view of it."""
    if not tree.calls.are(questions.is_uninitialised).any():
        return np.zeros(len(table), dtype=bool)  # spares looking for where tensors came from
    part = Part(tree, table)
    return _unwritten(part, _views(part), producers(tree, part.calls, table))


def unread_operands(tree: Tree, table: ParameterTable, texts: Texts) -> Bool:
    """The tensors that products are to be added to with ``beta`` 0."""
    betas = np.array([text == "input.beta" for text in texts.values] + [False])
    if not betas.any():
        return np.zeros(len(table), dtype=bool)
    names = np.array([text in FIRST_OPERANDS for text in texts.values] + [False])
    zeros = np.array([text in ("0", "0.0", "-0.0", "False") for text in texts.values] + [False])
    adds_nothing = np.zeros(len(tree), dtype=bool)
    adds_nothing[table.node[betas[table.name_id] & zeros[table.value_id]]] = True
    if adds_nothing.any():  # hardly ever
        adds_nothing &= tree.calls.are(lambda one: "adds_product" in one.traits)
    is_input = table.section == Section.INPUT
    return np.asarray(is_input & names[table.name_id] & adds_nothing[table.node])


def _views(part: Part) -> Bool:
    return np.asarray(carries(part.calls) & (part.calls.direction == Direction.FORWARD))


def _unwritten(part: Part, views: Bool, producer: Int) -> Bool:
    table, makes = part.table, part.calls.are(questions.is_uninitialised)
    if not makes.any():
        return np.zeros(len(table), dtype=bool)
    fresh = makes[table.node]
    # What a call was given and has written to is no longer as it was handed out.
    written = (table.section == Section.INPUT) & part.calls.is_api[table.node]
    _hand_on(fresh, views, table, np.where((producer >= 0) & written[producer], -1, producer))
    return fresh


def _written_over(part: Part, texts: Texts) -> Bool:
    """What calls write to, whole or in part, without reading it."""
    calls, table = part.calls, part.table
    # By their full names: ``normal`` reads what ``normal_`` writes to.
    writes = calls.apis(lambda one: overwrites(one) or one.endswith(".__setitem__"))
    names = np.array([text in FIRST_OPERANDS for text in texts.values] + [False])
    is_input = table.section == Section.INPUT
    rows = (calls.is_forward_call & writes)[table.node] & is_input
    rows[rows] = names[table.name_id[rows]]
    outs = np.array([f"{text}.".startswith("input.out.") for text in texts.values] + [False])
    if outs.any():
        rows |= is_input & outs[table.name_id]
    return np.asarray(rows)


def _room(overwritten: Bool, table: ParameterTable, producer: Int) -> Bool:
    """What calls put out for communication to write to, and for nothing else.

    Such as room for the parts of all ranks, in which a rank has its own part only.
    """
    made = np.flatnonzero(producer >= 0)
    read = np.zeros(len(table), dtype=bool)
    read[producer[made[~overwritten[made]]]] = True
    room = np.zeros(len(table), dtype=bool)
    room[producer[made[overwritten[made]]]] = True
    return np.asarray(room & ~read & (table.section == Section.OUTPUT))


def _overwritten(part: Part, texts: Texts) -> Bool:
    """What communication is given to write to."""
    table = part.table
    result = np.zeros(len(table), dtype=bool)
    talks = np.flatnonzero(part.calls.apis(communicates))
    if not len(talks):
        return result
    rows = np.flatnonzero((table.section == Section.INPUT) & np.isin(table.node, talks))
    # Who is given one tensor alone puts out another one, but for those that receive it.
    given = np.bincount(table.node[rows[table.is_tensor[rows]]], minlength=len(part.tree))
    writes = part.calls.are(lambda one: "writes_first" in one.traits)
    writes &= (given != 1) | part.calls.are(lambda one: "receives" in one.traits)
    first = talks[writes[talks]]
    is_first = np.isin(table.node[rows], first)
    for row, leads in zip(rows.tolist(), is_first.tolist(), strict=True):
        place = texts.values[table.name_id[row]].split(".")[1:2]
        if place and ((leads and place[0] in ("0", "tensor")) or place[0] in _KEYWORDS):
            result[row] = True
    return result


def _hand_on(result: Bool, views: Bool, table: ParameterTable, producer: Int) -> None:
    """What is made of fresh memory alone is fresh memory."""
    made = np.flatnonzero(producer >= 0)
    given = table.is_tensor & (table.section == Section.INPUT)
    before = -1
    while before != (before := int(np.count_nonzero(result))):
        result[made] |= result[producer[made]]
        fresh, real = np.zeros(len(views), dtype=bool), np.zeros(len(views), dtype=bool)
        fresh[table.node[given & result]] = True
        real[table.node[given & ~result]] = True
        result |= (views & fresh & ~real)[table.node] & (table.section == Section.OUTPUT)


def _lead_nowhere(unread: Bool, views: Bool, table: ParameterTable, producer: Int) -> None:
    """Views that are taken for unread operands alone are read by nobody either."""
    made = np.flatnonzero(producer >= 0)
    before = -1
    while before != (before := int(np.count_nonzero(unread))):
        aside, read = np.zeros(len(views), dtype=bool), np.zeros(len(views), dtype=bool)
        aside[table.node[producer[made[unread[made]]]]] = True
        read[table.node[producer[made[~unread[made]]]]] = True
        unread |= (views & aside & ~read)[table.node] & table.is_tensor
