"""What nodes put out as a message."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.database.read.values import Float
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_values(
    revision: str, norms: tuple[Float, Float], kinds: tuple[Sequence[str], Sequence[str]]
) -> pb.Values:
    """Whole columns of npu and bench, in the order of the skeletons; each kind is sent once."""
    tensors = list(dict.fromkeys(kind for side in kinds for kind in side if kind))
    places = {kind: place for place, kind in enumerate(tensors, 1)}
    npu, bench = ([places.get(kind, 0) for kind in side] if tensors else [] for side in kinds)
    return pb.Values(
        revision=revision,
        npu=norms[0].tolist(),
        bench=norms[1].tolist(),
        npu_tensor=npu,
        bench_tensor=bench,
        tensors=tensors,
    )
