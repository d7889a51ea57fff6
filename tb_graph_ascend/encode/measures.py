"""Measures of nodes as a message."""

from __future__ import annotations

from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.query.measures import Measures


def encode_measures(revision: str, measures: Measures) -> pb.Measures:
    """Whole columns, in the order of the skeleton."""
    return pb.Measures(
        revision=revision,
        scaled=measures.scaled.tolist(),
        roundings=measures.roundings.tolist(),
    )
