"""How far the outputs of each node are off, by the size of their tensors."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.connection import allow_seconds
from msprobe_builder.database.read.graphs import NPU
from msprobe_builder.database.read.measures import read_measures
from tb_graph_ascend.encode.measures import encode_measures
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.limits import MEASURES_SECONDS
from tb_graph_ascend.query.wanted import wanted_graph


def question(request: Request, revision: str) -> Build:
    """Columns in the order of the skeleton."""
    asked = read_query(request, pb.PlaceQuery)

    def build(connection: Connection) -> pb.Measures:
        allow_seconds(connection, MEASURES_SECONDS)
        graph = wanted_graph(connection, asked.step, asked.rank, NPU)
        return encode_measures(revision, read_measures(connection, graph))

    return build
