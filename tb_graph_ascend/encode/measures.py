"""Measures of nodes as a message."""

from __future__ import annotations

from msprobe_builder.database.read.measures import Measures
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_measures(revision: str, measures: Measures) -> pb.Measures:
    """Whole columns, in the order of the skeleton."""
    return pb.Measures(
        revision=revision,
        scaled=measures.scaled.tolist(),
        roundings=measures.roundings.tolist(),
    )
