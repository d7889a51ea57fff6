"""Trends as messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.file import DatabaseFile
from msprobe_builder.database.trends.open import STATISTICS
from msprobe_builder.database.trends.read import TrendAxes
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_trends(files: Iterable[DatabaseFile]) -> pb.Trends:
    """Names, revisions and sizes."""
    found = [pb.TrendFile(name=f.name, revision=f.revision, size=f.size) for f in files]
    return pb.Trends(files=found)


def encode_axes(revision: str, axes: TrendAxes) -> pb.Trend:
    """Kinds as a table and a column of places in it."""
    kinds = list(dict.fromkeys(axes.kinds))
    place = {kind: number for number, kind in enumerate(kinds)}
    return pb.Trend(
        revision=revision,
        source=axes.source,
        steps=axes.steps,
        ranks=axes.ranks,
        kinds=kinds,
        kind=[place[kind] for kind in axes.kinds],
        names=axes.names,
        statistics=STATISTICS,
    )


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
