"""Linking the communication of the ranks of each step, and reporting what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.facts.fact import fact
from msprobe_builder.link.calls import Call
from msprobe_builder.link.pairing import Link, pair_calls

# Codes of what is found here.
FINDINGS = (
    "communication_data_differs",
    "communication_without_partner",
    "communication_rank_not_in_dump",
    "communication_peer_unknown",
)


@dataclass(frozen=True)
class Linked:
    """Rows of table ``communication``, and what does not fit."""

    rows: list[tuple[int, int, int, bool | None]]
    diagnostics: list[Diagnostic]


def link_ranks(calls: list[Call], ranks: Sequence[int], side: int, step: int) -> Linked:
    """Link the calls of the ranks of one side and step, and report what does not fit."""
    found = pair_calls(calls, tuple(ranks))
    differing = [link for link in found.links if link.data_equal is False]
    reports = (
        (
            "warning",
            fact("note.link_data_differs"),
            [f"{_call(link.call)} and {_call(link.partner)}" for link in differing],
        ),
        (
            "warning",
            fact("note.link_without_counterpart"),
            _names(found.unmatched),
        ),
        (
            "info",
            fact("note.link_ranks_absent"),
            _names(found.absent),
        ),
        (
            "info",
            fact("note.link_unreadable"),
            _names(found.unreadable),
        ),
    )
    diagnostics = [
        Diagnostic(severity, code, message, subjects[0], len(subjects), side=side, step=step)
        for code, (severity, message, subjects) in zip(FINDINGS, reports, strict=True)
        if subjects
    ]
    return Linked(_rows(found.links), diagnostics)


def _rows(links: Sequence[Link]) -> list[tuple[int, int, int, bool | None]]:
    """Both directions of each link; of several between two calls, as in a batch, one row."""
    rows: dict[tuple[int, int, int], bool | None] = {}
    for link in links:
        for way in (link, link.reversed()):
            key = way.call.node, way.partner.node, int(way.role)
            known = rows.get(key, way.data_equal)
            if False in (known, way.data_equal):
                rows[key] = False
            else:
                rows[key] = None if None in (known, way.data_equal) else True
    return [(*key, data_equal) for key, data_equal in rows.items()]


def _names(calls: Sequence[Call]) -> list[str]:
    return list(dict.fromkeys(map(_call, calls)))


def _call(call: Call) -> str:
    return f"rank {call.rank} Distributed.{call.name}.{call.number}.forward"
