"""An addition adds: the sketch of its result is the sum of the sketches of its terms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Section
from msprobe_builder.base.texts import Texts
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.floating import rounding_unit
from msprobe_builder.graph.part import Part
from msprobe_builder.invariants.evidence import SketchedRows
from msprobe_builder.invariants.tolerances import of_sum
from msprobe_builder.invariants.violation import Check, Found, Violation
from msprobe_builder.sketch.definition import FLAT

Int = NDArray[np.int64]
_NORM = 3
# By operator what the two terms count.
_FACTORS = {"add": (1.0, 1.0), "sub": (1.0, -1.0), "rsub": (-1.0, 1.0)}
_NAMES = ("input.0", "input.1", "output.0")


def check_additions(part: Part, sketched: SketchedRows | None, texts: Texts) -> Found:
    """Additions and subtractions of two tensors of one shape on the way forward.

    The nodes of what is found count from 0.
    """
    found = Found()
    factors = [_FACTORS.get(one.name) for one in part.calls.operators]
    is_sum = np.array([one is not None for one in factors], dtype=bool)[part.calls.stem]
    nodes = np.flatnonzero(is_sum & part.calls.is_forward_call)
    places = _rows_of(part, nodes, texts)
    is_real = [rounding_unit(one) > 0 for one in texts.values]  # whole numbers begin anew
    wanted = (places[:, 0] >= 0) & np.array([*is_real, False])[part.table.dtype_id[places[:, 2]]]
    nodes, places = nodes[wanted], places[wanted]
    if sketched is None:
        found.unchecked[Check.ADDITION] += len(nodes)
        return found
    is_known = np.asarray((sketched.number[places] >= 0).all(1))
    for column in places.T:
        is_known[is_known] = sketched.left_out(column[is_known]) == 0
    found.unchecked[Check.ADDITION] += int(np.count_nonzero(~is_known))
    found.checked[Check.ADDITION] += int(np.count_nonzero(is_known))
    nodes, places = nodes[is_known], places[is_known]
    first, second, result = (sketched.numbers(column)[:, :FLAT] for column in places.T)
    norms = part.table.statistics[_NORM][places]
    for place, node in enumerate(nodes.tolist()):
        one, other = factors[part.calls.stem[node]] or (1.0, 1.0)
        terms = first[place] * one, second[place] * other
        off = float(np.linalg.norm(result[place] - terms[0] - terms[1]))
        dtype = texts.values[part.table.dtype_id[places[place, 2]]]
        allowed = of_sum(norms[place, :2].tolist(), dtype)
        if not off <= allowed and np.isfinite(allowed):
            size = float(norms[place, 2]) or float(max(norms[place, :2]))
            said = _said(result[place], (first[place], second[place]), off / size, allowed)
            found.violations.append(
                Violation(node, Check.ADDITION, said, error=off / size, expected=allowed / size)
            )
    return found


def _rows_of(part: Part, nodes: Int, texts: Texts) -> Int:
    """Rows of both terms and the result, (n, 3); -1 where a call is given anything else."""
    table = part.table
    begins, ends = (np.searchsorted(table.node, nodes, side=side) for side in ("left", "right"))
    rows = np.full((len(nodes), 3), -1, dtype=np.int64)
    wanted = [texts.id(name) for name in _NAMES]
    sections = [Section.INPUT, Section.INPUT, Section.OUTPUT]
    for place, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        if end - begin != 3 or not table.is_tensor[begin:end].all():
            continue
        is_plain = table.name_id[begin:end].tolist() == wanted
        is_plain &= table.section[begin:end].tolist() == sections
        is_plain &= len(set(table.shape_id[begin:end].tolist())) == 1
        if is_plain:
            rows[place] = range(begin, end)
    return rows


def _said(
    result: NDArray[np.float64],
    terms: tuple[NDArray[np.float64], NDArray[np.float64]],
    error: float,
    allowed: float,
) -> tuple[Fact, ...]:
    """What it puts out instead, where that is one of its terms."""
    for number, term in enumerate(terms):
        if float(np.linalg.norm(result - term)) <= allowed:
            return (fact("no_sum.term", name=_NAMES[number]),)
    return (fact("no_sum", error=float(f"{error:.2g}")),)
