"""One node with its partner."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.read.graphs import other_side
from msprobe_builder.database.read.nodes import read_node
from tb_graph_ascend.encode.answers import encode_node
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.query.wanted import wanted_graph, wanted_node


def question(request: Request, revision: str) -> Build:
    """Tensors, errors, stacks and history of both."""
    asked = read_query(request, pb.NodeQuery)

    def build(connection: Connection) -> pb.NodeDetail:
        graph = wanted_graph(connection, asked.step, asked.rank, asked.side)
        node = wanted_node(graph, asked.index)
        detail = read_node(connection, graph, other_side(connection, graph), node)
        return encode_node(revision, detail)

    return build
