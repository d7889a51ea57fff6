"""The groups of calls of one step and rank."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.read.graphs import NPU
from msprobe_builder.database.read.groups import read_groups
from tb_graph_ascend.encode.answers import encode_groups
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.query.wanted import wanted_graph


def question(request: Request, revision: str) -> Build:
    """Calls that do together what calls of the other side do."""
    asked = read_query(request, pb.PlaceQuery)

    def build(connection: Connection) -> pb.Groups:
        wanted_graph(connection, asked.step, asked.rank, NPU)
        return encode_groups(revision, read_groups(connection, asked.step, asked.rank))

    return build
