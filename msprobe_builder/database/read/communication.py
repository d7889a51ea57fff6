"""Whom a communication call exchanges data with."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.base.codes import Role, words
from msprobe_builder.database.read.cells import flag, integer, number, optional_integer
from msprobe_builder.database.read.names import read_names

_ROLES = words(Role)


@dataclass(frozen=True)
class CommunicationPartner:
    """A call of another rank; ``role`` is what the node itself does."""

    step: int
    rank: int
    index: int
    name: str
    role: str
    grade: int
    overflow: int
    error: float | None
    data_equal: bool | None


def read_partners(connection: sqlite3.Connection, node: int) -> tuple[CommunicationPartner, ...]:
    """Partners of one node, ordered by rank."""
    rows = connection.execute(
        "SELECT partner_id, step, rank, partner_id - first_node, role, grade, overflow, error,"
        " data_equal FROM communication JOIN node ON node.node_id = partner_id"
        " JOIN graph USING (graph_id) WHERE communication.node_id = ?"
        " ORDER BY rank, partner_id, role",
        (node,),
    ).fetchall()
    names = read_names(connection, {row[0] for row in rows})
    return tuple(
        CommunicationPartner(
            step=integer(step),
            rank=integer(rank),
            index=integer(index),
            name=names[partner],
            role=_ROLES[integer(role, 0, len(_ROLES) - 1)],
            grade=integer(grade, 0, 6),
            overflow=optional_integer(overflow, 1, 3) or 0,
            error=number(error),
            data_equal=flag(equal),
        )
        for partner, step, rank, index, role, grade, overflow, error, equal in rows
    )
