"""What the nodes of both sides put out."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.read.graphs import BENCH, NPU
from msprobe_builder.database.read.values import read_norms, read_output_kinds
from tb_graph_ascend.encode.values import encode_values
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.query.wanted import wanted_graph


def question(request: Request, revision: str) -> Build:
    """Columns in the order of the skeletons."""
    asked = read_query(request, pb.PlaceQuery)

    def build(connection: Connection) -> pb.Values:
        npu, bench = (
            wanted_graph(connection, asked.step, asked.rank, side) for side in (NPU, BENCH)
        )
        norms = read_norms(connection, npu), read_norms(connection, bench)
        kinds = read_output_kinds(connection, npu), read_output_kinds(connection, bench)
        return encode_values(revision, norms, kinds)

    return build
