"""What part a node plays in what went wrong, as a message."""

from __future__ import annotations

from collections.abc import Iterable

from msprobe_builder.database.read.roles import ChainLink, NodeVerdict, Origin
from tb_graph_ascend.generated import graph_pb2 as pb


def encode_node_verdict(verdict: NodeVerdict) -> pb.NodeVerdict:
    """What part one node plays, and its neighbours on the way of what is wrong."""
    return pb.NodeVerdict(
        role=pb.CallRole.Name(verdict.role),
        reason=verdict.reason,
        given=verdict.given,
        shown=verdict.shown,
        expected=verdict.expected,
        suspect=None if verdict.suspect is None else _encode_origin(verdict.suspect),
        came_from=_encode_links(verdict.came_from),
        went_to=_encode_links(verdict.went_to),
    )


def _encode_links(links: Iterable[ChainLink]) -> list[pb.ChainLink]:
    return [
        pb.ChainLink(index=link.index, name=link.name, role=pb.CallRole.Name(link.role))
        for link in links
    ]


def _encode_origin(origin: Origin) -> pb.Suspect:
    return pb.Suspect(
        step=origin.step,
        rank=origin.rank,
        side=pb.Side.Name(origin.side),
        index=origin.index,
        name=origin.name,
        strong=origin.is_strong,
        cause=origin.cause,
        evidence=origin.evidence,
        source=origin.source,
        followers=origin.followers,
        error=origin.error,
        expected=origin.expected,
    )
