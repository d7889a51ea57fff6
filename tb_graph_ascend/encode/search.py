"""Hits, candidates and one node across ranks as messages."""

from __future__ import annotations

from msprobe_builder.base.codes import Source, words
from msprobe_builder.database.read.across import NodePlace
from msprobe_builder.database.read.search import Hit
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.query.candidates import Candidate

NO_NUMBER = -1.0
SOURCES = words(Source)


def encode_hits(revision: str, hits: list[Hit], total: int, end: int) -> pb.SearchResult:
    """One page; ``end`` is the place behind its last hit."""
    return pb.SearchResult(
        revision=revision,
        step=[hit.step for hit in hits],
        rank=[hit.rank for hit in hits],
        side=[hit.side for hit in hits],
        index=[hit.index for hit in hits],
        name=[hit.name for hit in hits],
        grade=[hit.grade for hit in hits],
        error=[_number(hit.error) for hit in hits],
        overflow=[hit.overflow for hit in hits],
        unmatched_reason=[hit.unmatched_reason for hit in hits],
        module=[hit.module for hit in hits],
        match_source=["" if hit.source is None else SOURCES[hit.source] for hit in hits],
        match_certainty=[_number(hit.certainty) for hit in hits],
        next=str(end) if end < total else "",
        total=total,
    )


def encode_candidates(revision: str, candidates: list[Candidate]) -> pb.Candidates:
    """The best candidates of a node."""
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


def encode_across(revision: str, places: list[NodePlace]) -> pb.NodeAcross:
    """The nodes of one name as columns."""
    worst = [[_number(place.worst[which]) for place in places] for which in range(4)]
    return pb.NodeAcross(
        revision=revision,
        step=[place.step for place in places],
        rank=[place.rank for place in places],
        index=[place.index for place in places],
        grade=[place.grade for place in places],
        error=[_number(place.error) for place in places],
        overflow=[place.overflow for place in places],
        max_relative_err=worst[0],
        min_relative_err=worst[1],
        mean_relative_err=worst[2],
        norm_relative_err=worst[3],
    )


def _number(value: float | None) -> float:
    return NO_NUMBER if value is None else value
