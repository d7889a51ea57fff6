"""From the verdicts on single steps and ranks to one on the whole run.

What a rank gets from others, and what a step inherits from the one before, is no fault of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from msprobe_builder.base.codes import CallRole, Direction, Kind, Strength
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.conclusion import CLEAN, FAULT, UNDECIDED
from msprobe_builder.verdict.next_dump import next_dump

_SUSPECTS = """
SELECT suspect_id, suspect.node_id, step, rank, side, strength, cause, place, evidence,
       node.node_id - first_node AS seq, kind, direction, call, value AS stem, source
FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id) JOIN text ON text_id = stem_id
ORDER BY step, rank, place
"""
_WANTED = """
CREATE TEMP TABLE wanted AS
SELECT DISTINCT stem_id, direction, call FROM suspect JOIN node USING (node_id) WHERE strength > 0
"""
_NAMESAKES = """
SELECT step, rank, node.direction, node.call, value, node.node_id, role, given
FROM node
JOIN wanted ON wanted.stem_id = node.stem_id AND wanted.direction = node.direction
    AND wanted.call IS node.call
JOIN graph USING (graph_id) JOIN text ON text_id = node.stem_id
LEFT JOIN role ON role.node_id = node.node_id
WHERE side = 0
"""
_PARTNERS = """
SELECT partner_id, rank, role.role FROM communication
JOIN node ON node.node_id = partner_id JOIN graph USING (graph_id)
LEFT JOIN role ON role.node_id = partner_id WHERE communication.node_id = ?
"""
_PUT_OUT = """
SELECT max, min, mean, norm FROM tensor WHERE node_id = ? AND section = ? ORDER BY ordinal
"""
_TALKS_BEFORE = """
SELECT 1 FROM node JOIN text ON text_id = stem_id
WHERE parent_id = (SELECT parent_id FROM node WHERE node_id = :node)
AND node_id BETWEEN :node - :near AND :node - 1 AND value LIKE 'Distributed.%'
"""
_NEAR = 3  # calls between communication and what encloses it: it is recorded when it has returned
_CARRYING = (int(CallRole.CARRIER), int(CallRole.AMPLIFIER), int(CallRole.SUSPECT))


@dataclass
class _Accused:
    """A suspect as it stands while the ranks are heard."""

    suspect_id: int
    node_id: int
    step: int
    rank: int
    side: int
    strength: int
    cause: str
    place: int
    evidence: str
    seq: int
    kind: int
    direction: int
    call: int | None
    stem: str
    source: str | None
    changed: bool = False

    def key(self) -> tuple[int, str, int, int | None]:
        """Equal for the same call of all ranks."""
        return self.step, self.stem, self.direction, self.call

    def name(self) -> str:
        word = {int(Direction.FORWARD): "forward", int(Direction.BACKWARD): "backward"}
        if self.direction not in word:
            return self.stem
        if self.kind == Kind.API:
            return f"{self.stem}.{self.call}.{word[self.direction]}"
        return f"{self.stem}.{word[self.direction]}.{self.call}"

    def explain(self, why: str) -> None:
        """Somebody else is to blame."""
        self.strength, self.changed = int(Strength.NONE), True
        self.evidence = f"{why} {self.evidence}"

    def add(self, what: str) -> None:
        self.changed = True
        self.evidence = f"{self.evidence} {what}"


def judge_across(connection: sqlite3.Connection) -> None:
    """Settle the strength of all suspects, their order in the file and the verdict on the whole."""
    places = connection.execute(
        "SELECT step, rank, conclusion, sentence, compared FROM verdict ORDER BY step, rank"
    ).fetchall()
    if not places:
        return
    accused = [_Accused(*row) for row in connection.execute(_SUSPECTS).fetchall()]
    if len({rank for _, rank, *_ in places}) > 1:
        _hear_other_ranks(connection, accused)
    _look_at_earlier_steps(accused)
    _compare_ranks(accused, len({rank for _, rank, *_ in places}))
    standing = [one for one in accused if one.strength]
    standing.sort(key=lambda one: (-one.strength, one.step, *_position(one), one.rank))
    connection.executemany(
        "UPDATE suspect SET overall = ? WHERE suspect_id = ?",
        [(number, one.suspect_id) for number, one in enumerate(standing, 1)],
    )
    connection.executemany(
        "UPDATE suspect SET strength = ?, evidence = ? WHERE suspect_id = ?",
        [(one.strength, one.evidence, one.suspect_id) for one in accused if one.changed],
    )
    for step, rank, *_ in places:
        _settle_place(connection, step, rank, [one for one in standing if _is_at(one, step, rank)])
    conclusion, sentence = _conclude(connection, standing, places)
    proposal = next_dump(connection, [one.node_id for one in standing[:3]])
    connection.execute(
        "INSERT INTO verdict (conclusion, sentence, compared, next_dump)"
        " SELECT ?, ?, sum(compared), ? FROM verdict",
        (conclusion, sentence, proposal),
    )


def _position(one: _Accused) -> tuple[int, int]:
    """Strong ones in order of execution, weak ones as they were ordered at their place."""
    return (one.seq, one.place) if one.strength == Strength.STRONG else (one.place, one.seq)


def _is_at(one: _Accused, step: int, rank: int) -> bool:
    return (one.step, one.rank) == (step, rank)


def _hear_other_ranks(connection: sqlite3.Connection, accused: list[_Accused]) -> None:
    """What came from another rank, or was reduced with it, was wrong there already."""
    # Where a rank was wrong first: nobody is to blame for what came to others before that.
    wrong: dict[tuple[int, int], int] = {}
    for one in accused:
        if one.strength and not one.side:
            begun = wrong.get((one.step, one.rank), one.seq)
            wrong[one.step, one.rank] = min(begun, one.seq)
    namesakes = _namesakes(connection)
    for one in accused:
        if one.side or not one.strength:
            continue
        guilty = [
            (node, rank)
            for rank, node, role, given in namesakes.get(one.key(), ())
            if rank != one.rank
            and role in _CARRYING[:2]
            and given
            and wrong.get((one.step, rank), one.seq) < one.seq
        ]
        reduced = one.stem.endswith(".parameters_grad") or ".parameters_grad." in one.stem
        if not _talks(connection, one) and not reduced:
            # Where both hold the same now, though they were given their own, they have talked.
            guilty = [pair for pair in guilty if _same_output(connection, one.node_id, pair[0])]
        ranks = [rank for _, rank in guilty]
        if not guilty:
            partners = connection.execute(_PARTNERS, (one.node_id,)).fetchall()
            ranks = [rank for _, rank, role in partners if role in _CARRYING and rank != one.rank]
        if ranks:
            one.explain(f"It comes from rank {ranks[0]}, where it was wrong before.")


def _namesakes(
    connection: sqlite3.Connection,
) -> dict[tuple[int, str, int, int | None], list[tuple[int, int, int | None, float | None]]]:
    """The npu nodes that are called as a suspect is: rank, node, role, error of what it was given.

    Asked for all suspects at once, as that goes through all nodes.
    """
    found: dict[
        tuple[int, str, int, int | None], list[tuple[int, int, int | None, float | None]]
    ] = {}
    connection.execute(_WANTED)
    for step, rank, direction, call, stem, *own in connection.execute(_NAMESAKES):
        node, role, given = own
        found.setdefault((step, stem, direction, call), []).append((rank, node, role, given))
    connection.execute("DROP TABLE wanted")
    return found


def _talks(connection: sqlite3.Connection, one: _Accused) -> bool:
    """Whether a call talks to other ranks, or encloses one that does."""
    if one.stem.startswith("Distributed."):
        return True
    near = {"node": one.node_id, "near": _NEAR}
    return connection.execute(_TALKS_BEFORE, near).fetchone() is not None


def _same_output(connection: sqlite3.Connection, node: int, other: int) -> bool:
    """Whether two calls have put out the same, to the last digit."""
    own, theirs = (
        connection.execute(_PUT_OUT, (one, int(Section.OUTPUT))).fetchall() for one in (node, other)
    )
    return bool(own) and own == theirs and any(row[0] != row[1] for row in own)


def _look_at_earlier_steps(accused: Iterable[_Accused]) -> None:
    """Weights that differ behind a step with a fault were trained wrongly by it."""
    first: int | None = None
    ordered = sorted(accused, key=lambda one: one.step)
    for one in ordered:
        if first is not None and one.step > first and one.cause == "external":
            one.explain(f"It follows from step {first}.")
        elif one.strength == Strength.STRONG and first is None:
            first = one.step


def _compare_ranks(accused: list[_Accused], ranks: int) -> None:
    """Say when a call is wrong on some ranks only."""
    if ranks < 2:
        return
    found: dict[tuple[int, str, int], set[int]] = {}
    for one in accused:
        if one.strength == Strength.STRONG:
            found.setdefault((one.step, one.name(), one.side), set()).add(one.rank)
    for one in accused:
        own = found.get((one.step, one.name(), one.side), set())
        if one.strength == Strength.STRONG and len(own) < ranks:
            told = ", ".join(map(str, sorted(own)))
            one.add(f"Only on {'rank' if len(own) == 1 else 'ranks'} {told} of {ranks}.")
        elif one.strength == Strength.STRONG:
            one.add(f"On all {ranks} ranks alike.")


def _settle_place(
    connection: sqlite3.Connection, step: int, rank: int, standing: list[_Accused]
) -> None:
    """A place whose suspects all fell is no fault any more."""
    [[conclusion]] = connection.execute(
        "SELECT conclusion FROM verdict WHERE step = ? AND rank = ?", (step, rank)
    )
    if standing or conclusion == CLEAN:
        return
    [[fallen]] = connection.execute(
        "SELECT count(*) FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id)"
        " WHERE step = ? AND rank = ?",
        (step, rank),
    )
    if fallen:
        connection.execute(
            "UPDATE verdict SET conclusion = ?, sentence = ? WHERE step = ? AND rank = ?",
            (CLEAN, "What differs here came from another rank or step.", step, rank),
        )


def _conclude(
    connection: sqlite3.Connection, standing: list[_Accused], places: list[tuple[object, ...]]
) -> tuple[str, str]:
    if standing:
        best = standing[0]
        where = f"Step {best.step}, rank {best.rank}: "
        if len(places) == 1:
            where = ""
        place = _called(connection, best)
        said = f"{where}{place}: {best.evidence}"
        if best.strength == Strength.STRONG:
            return FAULT, said
        return UNDECIDED, f"Nothing certain; look first at {said}"
    undecided = [row for row in places if row[2] == UNDECIDED]
    if undecided:
        return UNDECIDED, str(undecided[0][3])
    compared = sum(int(str(row[4])) for row in places)
    return CLEAN, f"No fault beyond rounding in {compared:,} nodes."


def _called(connection: sqlite3.Connection, one: _Accused) -> str:
    """The module it is called in, its own name, and the line of code."""
    above = connection.execute(
        "SELECT value, above.kind, above.direction FROM node"
        " JOIN node AS above ON above.node_id = node.parent_id"
        " JOIN text ON text_id = above.stem_id WHERE node.node_id = ?",
        (one.node_id,),
    ).fetchone()
    name = one.name()
    if above is not None and above[1] == Kind.MODULE and above[2]:
        name = f"{str(above[0]).rpartition('.')[0]} \u2192 {name}"
    side = " of the reference" if one.side else ""
    return f"{name}{side} ({one.source})" if one.source else f"{name}{side}"
