"""The hierarchy of one graph."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.file import changes_of
from msprobe_builder.database.read.graphs import other_side
from msprobe_builder.database.read.skeleton import read_skeleton
from tb_graph_ascend.encode.encoded import Encoded
from tb_graph_ascend.encode.skeleton import encode_skeleton
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.query.wanted import wanted_graph


def question(request: Request, revision: str) -> Build:
    """Every node of one side as columns."""
    asked = read_query(request, pb.GraphQuery)

    def build(connection: Connection) -> Encoded:
        graph = wanted_graph(connection, asked.step, asked.rank, asked.side)
        skeleton = read_skeleton(
            connection, graph, other_side(connection, graph), changes_of(revision)
        )
        return encode_skeleton(revision, skeleton)

    return build
