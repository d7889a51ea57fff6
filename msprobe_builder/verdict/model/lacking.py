"""Tensors and gradients that one side alone has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isclose

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import discrete_types, epsilons
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.pairing import pair_at_places
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import is_in_place, overwrites
from msprobe_builder.verdict.differences.histories import is_cut_off
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_NORM = 3
_SAME_NUMBER = 1e-6  # in single precision
_LACKING = 60.0  # a tensor on one side alone
CUT = 100.0  # a call of one side alone behind which nothing needs a gradient any more
_HABIT = 3  # calls of one operator
_ALONE = 8.0  # a call on one side alone, of which nothing shows
_FEW_ALONE = 0.05  # of the forward calls; more are another implementation
_IDLE = {Kind.CAST, Kind.SHAPE, Kind.QUERY, Kind.EMPTY, Kind.MAKE, Kind.SLICE}


def of_lacking(runs: Runs) -> Iterable[Clue]:
    """Calls of which one side is given a tensor, or puts one out, where the other has none."""
    calls = runs.npu.calls
    # One kernel of a recurrent cell tells other gradients than several calls do.
    in_cells = runs.backward & calls.are(lambda one: "cell" in one.traits)
    asked = calls.is_api & (runs.partner >= 0) & ~in_cells
    asked &= ~runs.other_operator & ~calls.are(lambda one: one.kind is Kind.COLLECTIVE)
    nodes = np.flatnonzero(asked)
    lacking = nodes[_otherwise(runs)[nodes]]
    if not len(lacking):
        return
    # What most calls of an operator have is a habit, of casts or of a recorder.
    kind = calls.operations
    times = np.bincount(kind[lacking], minlength=int(kind.max(initial=0)) + 1)
    of_all = np.bincount(kind[nodes], minlength=len(times))
    needing, reference = _needing(runs.npu), _needing(runs.bench)
    inside = _casts_inside(runs)
    for node in lacking.tolist():
        ahead, other = int(calls.twin[node]), int(runs.bench.calls.twin[runs.partner[node]])
        if runs.backward[node] and min(ahead, other) >= 0 and needing[ahead] != reference[other]:
            continue  # what needs no gradient gets none
        if runs.backward[node] and ahead >= 0 and inside[ahead]:
            continue  # a weight that was cast before gets its gradient where it was cast
        if times[kind[node]] >= _HABIT and 2 * times[kind[node]] > of_all[kind[node]]:
            continue
        cause = Cause.GRADIENT if runs.backward[node] else Cause.ARGUMENT
        yield Clue(_LACKING, 0, node, cause, -1)


def _casts_inside(runs: Runs) -> Bool:
    """Calls of either side that put out a coarser type than they are given, as autocast does.

    And casts to a finer one, which on the other side have nothing to do.
    """
    result = np.zeros(len(runs.npu.tree), dtype=bool)
    for part, node in ((runs.npu, None), (runs.bench, runs.partner)):
        table, unit = part.table, epsilons(part.table.dtype_id, runs.texts)
        floats = table.is_tensor & ~discrete_types(runs.texts)[table.dtype_id]
        least, most = np.full(len(part.tree), np.inf), np.zeros(len(part.tree))
        given, made = (
            np.flatnonzero(floats & (table.section == one))
            for one in (Section.INPUT, Section.OUTPUT)
        )
        np.minimum.at(least, table.node[given], unit[given])
        np.maximum.at(most, table.node[made], unit[made])
        is_cast = part.calls.are(lambda one: one.kind is Kind.CAST) & (most > 0)
        casts = ((least < most) | (is_cast & (least > most))) & np.isfinite(least)
        result |= casts if node is None else (node >= 0) & casts[node]
    return result


def _needing(part: Part) -> Int:
    """How many of the tensors that each node is given need a gradient."""
    table = part.table
    needs = table.is_tensor & (table.section == Section.INPUT) & (table.requires_grad == 1)
    return np.bincount(table.node[needs], minlength=len(part.tree))


def cut_off(runs: Runs, rows: Int) -> Iterable[Clue]:
    """The first call from which on one side alone keeps what gradients need.

    ``rows`` need a gradient on one side only. That alone is no news of data, or of what nobody
    derives; where the forward call has a gradient on one side alone it is.
    """
    table = runs.npu.table
    calls, others = runs.npu.calls, runs.bench.calls
    # Of a tensor that has the type already a cast hands on the tensor itself.
    casts = calls.are(lambda one: one.kind is Kind.CAST)
    is_derived = bool(runs.backward.any())
    told = calls.is_api | (calls.is_module & ~calls.is_api.any())
    holders = len(set(calls.stem[table.node[rows[table.section[rows] == Section.PARAMETERS]]]))
    for row in rows[~runs.discrete[rows]].tolist():
        node = int(table.node[row])
        other = int(runs.partner[node])
        if int(table.section[row]) == Section.PARAMETERS and _is_frozen(runs, row):
            # Several modules are frozen on purpose.
            yield Clue(CUT if holders == 1 else _LACKING, 0, node, Cause.GRADIENT, row)
            return
        if other < 0 or int(calls.direction[node]) != Direction.FORWARD or not told[node]:
            continue
        if is_derived and calls.twin[node] < 0 and others.twin[other] < 0:
            continue  # nobody derives it on either side
        made_by, there = (runs.maker, runs.bench_maker), int(runs.other[row])
        if not is_cut_off(runs.npu, runs.bench, made_by, row, there):
            continue
        if int(table.section[row]) == Section.OUTPUT and not casts[node]:
            yield Clue(_LACKING, 0, node, Cause.GRADIENT, row)
            return
        for side, (part, partner, _, _, origin) in enumerate(runs.sides):
            made = int(origin[there if side else row])
            maker = int(part.table.node[made]) if made >= 0 else -1
            if maker >= 0 and partner[maker] < 0:
                yield Clue(CUT, side, maker, Cause.GRADIENT, row)
                return
        twin = int(calls.twin[node])
        if twin >= 0 and others.twin[other] >= 0 and _is_handed_on_alone(runs, row):
            if calls.is_api[node]:
                yield Clue(_LACKING, 0, twin, Cause.GRADIENT, row)
            else:  # of modules alone, what stands between has cut it off
                yield Clue(CUT, 0, node, Cause.GRADIENT, row)
            return


def _is_frozen(runs: Runs, row: int) -> bool:
    """Whether one side alone has the gradient of a parameter, of those that a module holds.

    Of a pass ahead alone its flag is all that tells.
    """
    if not any(
        (one.table.section == Section.PARAMETERS_GRAD).any() for one in (runs.npu, runs.bench)
    ):
        return True
    name = runs.texts.values[runs.npu.table.name_id[row]].rpartition(".")[2]
    node, other = int(runs.npu.table.node[row]), int(runs.partner[runs.npu.table.node[row]])
    if other < 0:
        return False
    here, there = (
        _has_gradient(part, part.calls.stems[int(part.calls.stem[one])], name, runs.texts.values)
        for part, one in ((runs.npu, node), (runs.bench, other))
    )
    return here != there


def _has_gradient(part: Part, module: str, parameter: str, texts: Sequence[str]) -> bool:
    """Whether a parameter of a module, by its name there, has a gradient."""
    rows = np.flatnonzero(part.table.is_tensor & (part.table.section == Section.PARAMETERS_GRAD))
    return any(
        part.tree.names[part.table.node[row]].partition(".parameters_grad")[0] == module
        and texts[part.table.name_id[row]].rpartition(".")[2] == parameter
        for row in rows.tolist()
    )


def _is_handed_on_alone(runs: Runs, row: int) -> bool:
    """Whether a tensor needs a gradient where it is made, on both sides, and on one where given."""
    made, there = int(runs.origin[row]), int(runs.bench_origin[runs.other[row]])
    if min(made, there) < 0 or runs.other[made] != there:
        return False
    flags = runs.npu.table.requires_grad[made], runs.bench.table.requires_grad[there]
    return flags == (1, 1)


def calls_alone(runs: Runs) -> list[Clue]:
    """Calls of one side alone that do something, where few are, in order of the run.

    In half precision what they do may be within rounding, so that nothing shows it; and that a
    parameter has a gradient on one side alone shows in no number.
    """
    found: list[tuple[float, Clue]] = []
    counts: list[Counter[str]] = []
    place = np.maximum.accumulate(np.where(runs.bench_partner >= 0, runs.bench_partner, 0))
    for side, (part, partner, *_) in enumerate(runs.sides):
        forward = part.calls.is_forward_call
        does = forward & ~part.calls.are(_does_nothing)
        alone = np.flatnonzero(does & (partner < 0))
        if len(alone) > _FEW_ALONE * np.count_nonzero(forward):
            return []
        cause = Cause.MISSING if side else Cause.EXTRA
        for node in alone.tolist():
            at = float(place[node]) + 0.5 if side else float(node)
            found.append((at, Clue(_ALONE, side, node, cause, -1)))
        counts.append(Counter(_operator(part, node) for node in alone.tolist()))
    # As many of one operator on both sides have not been paired, and are not alone.
    return [
        one
        for _, one in sorted(found, key=lambda pair: pair[0])
        if counts[0][name := _operator((runs.npu, runs.bench)[one.side], one.node)]
        != counts[1][name]
    ]


def trains_otherwise(runs: Runs) -> bool:
    """Whether both sides train, and not the same number of parameters."""
    trained = [_trained(part) for part in (runs.npu, runs.bench)]
    return all(trained) and trained[0] != trained[1]


def _trained(part: Part) -> int:
    """How many parameters have a gradient, whatever they are called and how often it is told."""
    rows = np.flatnonzero(are_gradients(part) & part.table.is_tensor)
    stems = [part.calls.stems[one] for one in part.calls.stem[part.table.node[rows]].tolist()]
    modules = [stem.partition(".parameters_grad")[0] for stem in stems]
    return len(set(zip(modules, part.table.name_id[rows].tolist(), strict=True)))


def gradients_alone(runs: Runs) -> int:
    """How many parameters have a gradient on one side alone."""
    return sum(
        int(np.count_nonzero(part.table.is_tensor & are_gradients(part) & alone))
        for part, alone in ((side.part, side.other < 0) for side in runs.sides)
    )


def are_gradients(part: Part) -> Bool:
    """Rows that are gradients of parameters."""
    return np.asarray(part.table.section == Section.PARAMETERS_GRAD)


def undone(runs: Runs) -> list[Clue]:
    """Calls of one side alone that write to tensors at the end of a run, of which nobody reads.

    What they leave, such as gradients or weights, shows in no other call. Where both sides have
    such calls they have spelt one thing in two ways.
    """
    found: list[Clue] = []
    for side, (part, partner, _, maker, _) in enumerate(runs.sides):
        calls, last = part.calls, part.calls.last_pass
        if last == 0 or not calls.is_api[last:].any():
            return []  # nobody recorded what is behind the passes
        writes = calls.apis(lambda one: is_in_place(one) and not overwrites(one))
        alone = writes & (partner < 0)
        alone[: last + 1] = False
        alone[part.table.node[maker[maker >= 0]]] = False  # somebody shows what they have done
        if found and alone.any():
            return []
        cause = Cause.MISSING if side else Cause.EXTRA
        found += [Clue(_ALONE, side, node, cause, -1) for node in np.flatnonzero(alone).tolist()]
    return found


def left_out_inside(runs: Runs, clue: Clue) -> Clue:
    """Of a module in which nothing is called: the first call in it that the reference makes."""
    if clue.side:
        return clue
    calls, partner = runs.npu.calls, int(runs.partner[clue.node])
    is_empty = calls.is_module[clue.node] and not runs.open[clue.node] and calls.is_api.any()
    if clue.cause is not Cause.OUTPUT or not is_empty or partner < 0:
        return clue
    inside = slice(partner, int(runs.bench.tree.subtree_end[partner]) + 1)
    lacks = runs.bench.calls.is_forward_call & runs.bench.calls.is_api & (runs.bench_partner < 0)
    does = np.flatnonzero((lacks & ~runs.bench.calls.are(_does_nothing))[inside])
    if not len(does):
        return clue
    return replace(clue, side=1, node=partner + int(does[0]), cause=Cause.MISSING)


def _operator(part: Part, node: int) -> str:
    return part.calls.operators[int(part.calls.stem[node])].name


def _does_nothing(operator: Operator) -> bool:
    """Whether it only hands on, reshapes, converts or makes up what is used elsewhere."""
    return operator.kind in _IDLE or "itself" in operator.keeps


def _otherwise(runs: Runs) -> Bool:
    """Nodes of which an input or output is a tensor on one side alone."""
    table, bench = runs.npu.table, runs.bench.table
    asked, others = (
        ((one.section == Section.INPUT) | (one.section == Section.OUTPUT))
        # A gradient of zeros is as good as none.
        & ~(one.is_tensor & (one.statistics[_NORM] == 0) & back[one.node])
        for one, back in (
            (table, runs.backward),
            (bench, runs.bench.calls.direction == Direction.BACKWARD),
        )
    )
    result = np.zeros(len(runs.npu.tree), dtype=bool)
    for here, there in (
        (table.is_tensor, ~bench.is_tensor),
        (~table.is_tensor, bench.is_tensor),
    ):
        unlike = pair_at_places(
            table, bench, runs.partner, np.flatnonzero(asked & here), np.flatnonzero(others & there)
        )
        for row, other in zip(unlike.npu.tolist(), unlike.bench.tolist(), strict=True):
            if not _is_one_number(runs, row, other):
                result[table.node[row]] = True
    return result


def _is_one_number(runs: Runs, row: int, other: int) -> bool:
    """Whether a tensor of one element is what the other side gives as a plain number."""
    sides = (runs.npu.table, row), (runs.bench.table, other)
    (tensor, one), (plain, number) = sides if runs.npu.table.is_tensor[row] else sides[::-1]
    if tensor.numel[one] != 1 or plain.value_id[number] < 0:
        return False
    try:
        value = float(runs.texts.values[plain.value_id[number]])
    except ValueError:
        return False
    return isclose(value, float(tensor.statistics[0, one]), rel_tol=_SAME_NUMBER)
