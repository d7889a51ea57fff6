"""Nodes of all steps and ranks."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.base.codes import Source, words
from msprobe_builder.database.file import changes_of
from msprobe_builder.database.read.search import Hit, search
from tb_graph_ascend.encode.numbers import number
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_search
from tb_graph_ascend.query.expressions import matching

_SOURCES = words(Source)


def question(request: Request, revision: str) -> Build:
    """One page of what fits all conditions."""
    wanted = read_search(request)

    def build(connection: Connection) -> pb.SearchResult:
        hits, total = search(connection, wanted, matching, changes_of(revision))
        return _encode(revision, hits, total, wanted.offset + len(hits))

    return build


def _encode(revision: str, hits: list[Hit], total: int, end: int) -> pb.SearchResult:
    """``end`` is the place behind its last hit."""
    return pb.SearchResult(
        revision=revision,
        step=[hit.step for hit in hits],
        rank=[hit.rank for hit in hits],
        side=[hit.side for hit in hits],
        index=[hit.index for hit in hits],
        name=[hit.name for hit in hits],
        grade=[hit.grade for hit in hits],
        error=[number(hit.error) for hit in hits],
        overflow=[hit.overflow for hit in hits],
        unmatched_reason=[hit.unmatched_reason for hit in hits],
        module=[hit.module for hit in hits],
        match_source=["" if hit.source is None else _SOURCES[hit.source] for hit in hits],
        match_certainty=[number(hit.certainty) for hit in hits],
        next=str(end) if end < total else "",
        total=total,
    )
