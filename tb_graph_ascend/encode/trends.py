"""Trends as messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.trends.read import TrendAxes
from msprobe_builder.trend.places import losses_of
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_trends(files: Iterable[DatabaseFile]) -> pb.Trends:
    """Names, revisions and sizes."""
    found = [pb.TrendFile(name=f.name, revision=f.revision, size=f.size) for f in files]
    return pb.Trends(files=found)


def encode_axes(revision: str, axes: TrendAxes) -> pb.Trend:
    """Kinds as a table and a column of places in it."""
    kinds, kind = _numbered(axes.kinds)
    groups, group = _numbered(
        # A call outside of modules is its own: ``Functional.linear.0:input.0`` is of that.
        name.partition(":")[0] if module is None else module
        for module, name in zip(axes.modules, axes.names, strict=True)
    )
    return pb.Trend(
        revision=revision,
        source=axes.source,
        steps=axes.steps,
        ranks=axes.ranks,
        kinds=kinds,
        kind=kind,
        names=axes.names,
        statistics=axes.statistics,
        groups=groups,
        group=group,
        losses=losses_of(axes.kinds, axes.names),
    )


def _numbered(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Each text once, and the places of all of them among these."""
    place: dict[str, int] = {}
    numbers = [place.setdefault(one, len(place)) for one in texts]
    return list(place), numbers


def encode_moves(revision: str, moves: NDArray[np.float64]) -> pb.TrendMoves:
    """One number for each target that was asked for."""
    return pb.TrendMoves(revision=revision, moves=moves.tolist())


def encode_values(
    revision: str,
    first_steps: Sequence[int],
    values: NDArray[np.float64],
    there: NDArray[np.bool_],
) -> pb.TrendValues:
    """Arrays of shape (targets, ranks, columns)."""
    targets, ranks, _ = values.shape
    return pb.TrendValues(
        revision=revision,
        targets=targets,
        ranks=ranks,
        first_step=first_steps,
        values=values.reshape(-1).tolist(),
        there=there.astype(np.uint8).tobytes(),
    )


def encode_places(places: Iterable[tuple[str, str]]) -> pb.TrendGraphs:
    """Files and the names of nodes in them."""
    return pb.TrendGraphs(graphs=[pb.TrendGraph(file=file, node=node) for file, node in places])
