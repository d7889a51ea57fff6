"""The matches made and rejected by hand, as a match file."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.read.edits import read_manual_matches, read_rejected_matches
from tb_graph_ascend.encode.edits import encode_match_file
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build


def question(_request: Request, _revision: str) -> Build:
    """All of a file."""

    def build(connection: Connection) -> pb.MatchFile:
        return encode_match_file(read_manual_matches(connection), read_rejected_matches(connection))

    return build
