"""Linking the communication of the ranks of each step, and reporting what does not fit."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.link.calls import Call, read_calls
from msprobe_builder.link.pairing import Link, pair_calls

# Codes of what is found here.
FINDINGS = (
    "communication_data_differs",
    "communication_without_partner",
    "communication_rank_not_in_dump",
    "communication_peer_unknown",
)


def link_communication(connection: sqlite3.Connection) -> list[Diagnostic]:
    """Fill table ``communication`` for every step and side that has more than one rank.

    Structure dumps hold no arguments, so who talks to whom is not known there.
    """
    if connection.execute("SELECT value FROM meta WHERE key = 'task'").fetchone() == ("structure",):
        return []
    findings: list[Diagnostic] = []
    places: dict[tuple[int, int], list[int]] = {}
    for side, step, rank in connection.execute("SELECT side, step, rank FROM graph ORDER BY rank"):
        places.setdefault((side, step), []).append(rank)
    for (side, step), ranks in sorted(places.items()):
        if len(ranks) < 2:
            continue
        found = pair_calls(read_calls(connection, side, step), tuple(ranks))
        _store(connection, found.links)
        differing = [link for link in found.links if link.data_equal is False]
        reports = (
            (
                "warning",
                "What a rank received is not what the other rank sent.",
                [f"{_call(link.call)} and {_call(link.partner)}" for link in differing],
            ),
            (
                "warning",
                "Communication calls have no counterpart on a rank that should take part.",
                _names(found.lonely),
            ),
            (
                "info",
                "Communication calls involve ranks that are not in the dump.",
                _names(found.absent),
            ),
            (
                "info",
                "Communication calls do not say which rank they address.",
                _names(found.unreadable),
            ),
        )
        findings += [
            Diagnostic(severity, code, message, subjects[0], len(subjects), side=side, step=step)
            for code, (severity, message, subjects) in zip(FINDINGS, reports, strict=True)
            if subjects
        ]
    return findings


def _store(connection: sqlite3.Connection, links: Sequence[Link]) -> None:
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
    connection.executemany(
        "INSERT INTO communication VALUES (?, ?, ?, ?)",
        ((*key, data_equal) for key, data_equal in rows.items()),
    )


def _names(calls: Sequence[Call]) -> list[str]:
    return list(dict.fromkeys(map(_call, calls)))


def _call(call: Call) -> str:
    return f"rank {call.rank} Distributed.{call.name}.{call.number}.forward"
