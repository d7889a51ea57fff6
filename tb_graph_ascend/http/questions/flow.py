"""Where the tensors of one node come from and where they go."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.read.flow import FlowLink, NodeFlow, read_flow
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.query.wanted import wanted_graph, wanted_node


def question(request: Request, revision: str) -> Build:
    """Makers and takers of every tensor, and the way from the first wrong node."""
    asked = read_query(request, pb.NodeQuery)

    def build(connection: Connection) -> pb.NodeFlow:
        graph = wanted_graph(connection, asked.step, asked.rank, asked.side)
        return _encode(revision, read_flow(connection, graph, wanted_node(graph, asked.index)))

    return build


def _encode(revision: str, flow: NodeFlow) -> pb.NodeFlow:
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
