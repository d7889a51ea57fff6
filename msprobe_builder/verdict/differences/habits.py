"""How the calls of a run treat errors: its own noise, and by how much they enlarge others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.part import Part
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.distance import mask_values
from msprobe_builder.verdict.differences.operators import normalising

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Seen:
    """Of each node the largest error seen of what it was given and put out, NaN unknown."""

    given: Float
    put_out: Float
    floor: Float


def seen_of(part: Part, error: Float, floor: Float, twin: Int) -> Seen:
    """A backward call is given what its forward call was given and put out, too."""
    table, size = part.table, len(part.tree)
    known = table.is_tensor & ~np.isnan(error) & ~np.isnan(table.statistics[3])
    given, put_out, floors = (np.full(size, np.nan) for _ in range(3))
    is_input = known & np.isin(table.section, (Section.INPUT, Section.PARAMETERS))
    np.fmax.at(given, table.node[is_input], error[is_input])
    is_output = known & ~is_input
    np.fmax.at(put_out, table.node[is_output], error[is_output])
    np.fmax.at(floors, table.node[known], floor[known])
    back = np.flatnonzero((twin >= 0) & (part.calls.direction == Direction.BACKWARD))
    with_twin = given.copy()
    with_twin[back] = np.fmax(given[back], np.fmax(given[twin[back]], put_out[twin[back]]))
    return Seen(with_twin, put_out, floors)


_ENOUGH = 4  # calls that a level of noise is learnt from


def own_noise(calls: Calls, seen: Seen, left_out: Bool) -> float:
    """What calls of this run make of tensors that are equal on both sides.

    No fault reaches them, as everything they were given agrees to the last digit; a few of them may
    be the fault itself, hence the lower quartile. NaN when there are too few such calls.
    """
    fresh = seen.put_out[
        calls.is_forward_call & ~left_out & (seen.given == 0) & ~np.isnan(seen.put_out)
    ]
    return float(np.sort(fresh)[len(fresh) // 4]) if len(fresh) >= _ENOUGH else float("nan")


_MOST_GAIN = 4.0


def gains(part: Part, seen: Seen) -> Float:
    """How many times the error it is given each call may put out, as learnt at other places.

    A place is a module and an operator in it: a fault sits at one place, and is there in every
    micro-step. The gain of a place is the median of its calls; allowed at a place is the median
    of the other places where the same operator is called. More than 4 is never granted: where
    one fault shows at many places, it must not excuse itself.
    """
    calls, result = part.calls, np.ones(len(part.tree))
    with np.errstate(all="ignore"):
        ratio = seen.put_out / np.fmax(seen.given, seen.floor)
    nodes = np.flatnonzero(np.isfinite(ratio))
    if not len(nodes):
        return result
    classes: dict[str, int] = {}
    last = calls.of_stems(lambda stem: classes.setdefault(stem.rpartition(".")[2], len(classes)))
    is_module = calls.is_module[nodes]
    operator = np.where(is_module, last[nodes] + len(calls.stems), calls.stem[nodes])
    operator = operator * len(Direction) + calls.direction[nodes]
    above = calls.stem[part.tree.parent[nodes]]
    place = np.where(is_module, calls.stem[nodes], above) + operator * len(calls.stems)
    order = np.lexsort((ratio[nodes], place))
    starts = np.flatnonzero(np.r_[True, np.diff(place[order]) != 0])
    counts = np.diff(np.r_[starts, len(order)])
    ranked = ratio[nodes[order]]
    median = (ranked[starts + (counts - 1) // 2] + ranked[starts + counts // 2]) / 2
    allowed = _median_of_others(median, operator[order[starts]])
    result[nodes[order]] = np.repeat(np.clip(allowed, 1.0, _MOST_GAIN), counts)
    return result


def _median_of_others(value: Float, group: Int) -> Float:
    """For each value the median of the others in its group, 1 where it is alone."""
    result = np.ones(len(value))
    order = np.lexsort((value, group))
    starts = np.flatnonzero(np.r_[True, np.diff(group[order]) != 0])
    for members in np.split(order, starts[1:]):
        others = len(members) - 1
        if others:
            ranked = value[members]
            at = np.arange(len(members))
            low, high = (others - 1) // 2, others // 2
            # Leaving out what stands before moves the middle up by one.
            result[members] = (ranked[low + (at <= low)] + ranked[high + (at <= high)]) / 2
    return result


def mixing(npu: Calls, bench: Part, partner: Int, twin: Int) -> Float:
    """By how much normalisations stretch what they are given, at their calls of both directions.

    A gradient is stretched as much before all that is common to its elements is subtracted.
    """
    table, calls = bench.table, bench.calls
    with np.errstate(all="ignore"):
        mean, norm = np.nan_to_num(table.statistics[2]), table.statistics[3]
        spread = np.sqrt(np.fmax(norm**2 / np.fmax(table.numel, 1) - mean**2, 0.0))
    mask_value = mask_values(table.statistics, table.statistics, table.numel)
    spread[mask_value.any(axis=0)] = 0.0  # that of a mask
    size = len(calls.kind)
    given, put_out = np.zeros(size), np.zeros(size)
    first = table.is_tensor & (table.position == 0) & np.isfinite(spread)
    for section, of_node in ((Section.INPUT, given), (Section.OUTPUT, put_out)):
        rows = np.flatnonzero(first & (table.section == section))
        of_node[table.node[rows]] = spread[rows]
    with np.errstate(all="ignore"):
        stretch = np.where(normalising(calls) & (given > 0), put_out / given, 0.0)
    result = np.zeros(len(partner))
    back = np.flatnonzero((twin >= 0) & (partner >= 0))
    forward = partner[twin[back]]
    known = forward >= 0
    result[back[known]] = stretch[forward[known]]
    ahead = np.flatnonzero((partner >= 0) & (npu.direction == Direction.FORWARD))
    result[ahead] = stretch[partner[ahead]]
    return result


def reach(part: Part, discrete: Bool, masked: Float) -> Float:
    """The largest number each call is given; labels and their like are names, no numbers.

    ``masked`` are the sizes of what masks were put on, by row, NaN where none was: errors are
    measured by these, too.
    """
    table = part.table
    with np.errstate(all="ignore"):
        extreme = np.abs(table.statistics[:2])
        extreme = np.where(np.isfinite(extreme) & (extreme < 1e3), extreme, 0.0).max(axis=0)
    extreme = np.fmax(extreme, masked)
    result = np.ones(len(part.tree))
    counts = ~discrete | part.calls.are(questions.one_of("pow", "rpow"))[table.node]
    rows = np.flatnonzero(table.is_tensor & (table.section == Section.INPUT) & counts)
    # A number to the power of what is given sees its logarithm, too: 16 is that of nearly 10⁷.
    stretch = np.where(part.calls.are(questions.one_of("rpow")), 16.0, 1.0)[table.node[rows]]
    np.maximum.at(result, table.node[rows], np.clip(extreme[rows] * stretch, 1.0, _FARTHEST))
    calls = part.calls
    result[
        calls.are(lambda one: "path" in one.condition) & (calls.direction == Direction.BACKWARD)
    ] = _FARTHEST
    return result


_FARTHEST = 100.0
