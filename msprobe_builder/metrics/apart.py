"""What disagreements between merged ranks say of a node, and which rank the reference suspects.

Ranks that should hold a tensor alike were given the same numbers and ran the same code. So a
difference beyond rounding is a fault, however small: where it arises it has the worst grade, as a
checksum that differs; where it only passes through it counts by its size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import Disagreement
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Apart, Provenance, with_places_of_origin
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Matching
from msprobe_builder.metrics.statistics import statistic_errors, worst_error

if TYPE_CHECKING:
    from msprobe_builder.metrics.replicas import Copy

Float = NDArray[np.float64]


def with_suspects(side: Side, other: ParameterTable, partner: Mapping[int, int]) -> Side:
    """The side, its ranks that are apart weighed against the reference.

    ``partner`` is the row of the ``other`` table of each compared row. Of a rank and the one that
    is shown the one further from the reference is the suspect.
    """
    provenance = side.provenance
    if provenance is None or not provenance.apart:
        return side
    found = {
        row: tuple(
            _weighed(one, side.table.statistics[:, row], other.statistics[:, partner[row]])
            if row in partner and one.suspect is None and not one.is_from_others
            else one
            for one in several
        )
        for row, several in provenance.apart.items()
    }
    return replace(side, provenance=replace(provenance, apart=found))


def _weighed(one: Apart, shown: Float, reference: Float) -> Apart:
    mine = np.array(one.statistics if one.whole is None else one.whole)
    of_rank, of_shown = (_distance(values, reference) for values in (mine, shown))
    if np.isnan(of_rank) or np.isnan(of_shown) or of_rank == of_shown:
        return one
    return one._replace(suspect=one.rank if of_rank > of_shown else one.shown_rank)


def _distance(values: Float, reference: Float) -> float:
    _, relative = statistic_errors(values[:, None], reference[:, None])
    return float(worst_error(relative, ~np.isnan(values)[:, None])[0])


def apart_errors(npu: Side, bench: Side, matching: Matching, profile: tuple[Band, ...]) -> Float:
    """Error 0…1 of each npu node by what its ranks, or its partner's, disagree in; NaN without."""
    error = np.full(len(npu.tree), np.nan)
    worst = max((band.low for band in profile if band.low is not None), default=None)
    if worst is None:
        return error
    partner = matching.bench
    for table, provenance, node_of in (
        (npu.table, npu.provenance, None),
        (bench.table, bench.provenance, partner),
    ):
        for row, several in (provenance or Provenance()).apart.items():
            node = int(table.node[row])
            node = node if node_of is None else int(node_of[node])
            if node < 0:
                continue
            of_row = max(max(one.difference, worst * one.is_origin) for one in several)
            error[node] = np.fmax(error[node], of_row)
    return error


def with_copies_apart(side: Side, copies: Mapping[int, list[Copy]]) -> Side:
    """The side with what its files told of ranks whose copies of a tensor differ."""
    if side.provenance is None or not copies:
        return side
    found = {
        row: tuple(
            Apart(
                copy.rank,
                Disagreement.REPLICA,
                copy.first_rank,
                copy.statistics,
                copy.difference,
                note=fact("apart.elements_differ"),
            )
            for copy in own
        )
        for row, own in copies.items()
    }
    provenance = replace(side.provenance, apart={**found, **side.provenance.apart})
    return replace(side, provenance=with_places_of_origin(side.table, provenance))
