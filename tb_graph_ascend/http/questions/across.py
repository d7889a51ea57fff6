"""One node in all steps and ranks."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.read.across import RELATIVE_ERRORS, NodePlace
from tb_graph_ascend.encode.numbers import number
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.query.wanted import wanted_places


def question(request: Request, revision: str) -> Build:
    """The nodes of one name as columns."""
    asked = read_query(request, pb.NameQuery)

    def build(connection: Connection) -> pb.NodeAcross:
        return _encode(revision, wanted_places(connection, asked.name, asked.side))

    return build


def _encode(revision: str, places: list[NodePlace]) -> pb.NodeAcross:
    worst = {
        name: [number(place.worst[which]) for place in places]
        for which, name in enumerate(RELATIVE_ERRORS)
    }
    return pb.NodeAcross(
        revision=revision,
        step=[place.step for place in places],
        rank=[place.rank for place in places],
        index=[place.index for place in places],
        grade=[place.grade for place in places],
        error=[number(place.error) for place in places],
        overflow=[place.overflow for place in places],
        **worst,
    )
