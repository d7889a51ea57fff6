"""Which calls draw random numbers, as their arguments say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, rows_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import draws

Bool = NDArray[np.bool_]

_INPUT = int(Section.INPUT)  # to be compared with at once


def drawing_calls(part: Part, texts: Texts) -> Bool:
    """Nodes that draw random numbers, and the backward calls of these.

    Dropout with probability 0, or outside of training, draws none. Of modules no arguments are
    known: those that are there to draw do so, where nothing but modules was recorded.
    """
    calls = part.calls
    if not calls.is_api.any():
        return calls.do(lambda one: one.kind is Kind.DRAW) & calls.is_module
    always = calls.are(lambda one: one.always_draws)
    may = calls.are(lambda one: bool(one.draws))
    result = always.copy()
    twin = calls.twin
    nodes = np.flatnonzero(may)
    back = (calls.direction[nodes] == Direction.BACKWARD) & (twin[nodes] >= 0)
    forward = np.where(back, twin[nodes], nodes)
    told = {node: _draws(part, node, texts) for node in set(forward.tolist())}
    result[nodes] = [told[node] for node in forward.tolist()]
    return result


def _draws(part: Part, node: int, texts: Texts) -> bool:
    table = part.table
    rows = rows_of(table, node)
    plain: dict[str, str] = {}
    by_type: dict[str, list[str]] = {"float": [], "bool": []}
    for row in rows:
        if table.section[row] != _INPUT:
            continue
        name, _, inner = texts.values[table.name_id[row]].removeprefix("input.").partition(".")
        value, kind = int(table.value_id[row]), int(table.type_id[row])
        is_text = not table.is_tensor[row] and not inner
        plain[name] = (texts.values[value] if value >= 0 else "None") if is_text else "a tensor"
        if is_text and kind >= 0 and texts.values[kind] in by_type:
            by_type[texts.values[kind]].append(plain[name])
    operator = part.calls.operators[int(part.calls.stem[node])]
    return draws(operator, plain, by_type["float"], by_type["bool"])
