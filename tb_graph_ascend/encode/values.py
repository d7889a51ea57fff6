"""What nodes put out as a message."""

from __future__ import annotations

from msprobe_builder.database.read.values import Float
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_values(revision: str, npu: Float, bench: Float) -> pb.Values:
    """Whole columns, in the order of the skeletons."""
    return pb.Values(revision=revision, npu=npu.tolist(), bench=bench.tolist())
