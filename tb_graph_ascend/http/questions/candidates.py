"""Nodes of the other side that one may belong to."""

from __future__ import annotations

from sqlite3 import Connection

from werkzeug.wrappers import Request

from msprobe_builder.database.read.graphs import BENCH, NPU
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.answers import Build
from tb_graph_ascend.http.parameters import read_query
from tb_graph_ascend.query.candidates import Candidate, rank_candidates
from tb_graph_ascend.query.wanted import wanted_graph, wanted_node


def question(request: Request, revision: str) -> Build:
    """The best candidates of a node, with what speaks for each."""
    asked = read_query(request, pb.NodeQuery)

    def build(connection: Connection) -> pb.Candidates:
        graph = wanted_graph(connection, asked.step, asked.rank, asked.side)
        other_side = NPU if asked.side == BENCH else BENCH
        other = wanted_graph(connection, asked.step, asked.rank, other_side)
        node = wanted_node(graph, asked.index)
        return _encode(revision, rank_candidates(connection, graph, other, node))

    return build


def _encode(revision: str, candidates: list[Candidate]) -> pb.Candidates:
    return pb.Candidates(
        revision=revision,
        candidates=(
            pb.MatchCandidate(
                index=candidate.index,
                name=candidate.name,
                reasons=candidate.reasons,
                matched_index=candidate.matched,
                matched_name=candidate.matched_name,
                likelihood=candidate.likelihood,
            )
            for candidate in candidates
        ),
    )
