"""Where the tensors of a node come from and go, as a message."""

from __future__ import annotations

from msprobe_builder.database.read.flow import FlowLink, NodeFlow
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_flow(revision: str, flow: NodeFlow) -> pb.NodeFlow:
    """All tensors of one node."""
    return pb.NodeFlow(
        revision=revision,
        tensors=(
            pb.TensorFlow(
                section=pb.Section.Name(tensor.section),
                name=tensor.name,
                maker=None if tensor.maker is None else _encode_link(tensor.maker),
                takers=map(_encode_link, tensor.takers),
            )
            for tensor in flow.tensors
        ),
        trail=map(_encode_link, flow.trail),
    )


def _encode_link(link: FlowLink) -> pb.FlowLink:
    return pb.FlowLink(
        index=link.index,
        name=link.name,
        tensor=link.tensor,
        grade=pb.Grade.Name(link.grade),
        role=pb.CallRole.Name(link.role),
        evidence=link.evidence,
        certainty=link.certainty,
    )
