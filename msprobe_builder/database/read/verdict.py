"""The verdict as a database holds it."""

from __future__ import annotations

import json
import shlex
import sqlite3
from dataclasses import dataclass
from typing import Any

from msprobe_builder.base.codes import SIDES, Direction, Kind, Strength, words
from msprobe_builder.base.printable import printable
from msprobe_builder.database.read.cells import (
    MAX_NODE,
    integer,
    listed,
    number,
    optional_text,
    text,
)
from msprobe_builder.database.read.edits import read_changed
from msprobe_builder.database.read.meta import read_meta
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import Fact, Facts, decode, fact, from_plain, has_code
from msprobe_builder.facts.wording import tell
from msprobe_builder.facts.words import FOLLOWS, multiple, standing_at

_SUSPECTS = """
SELECT overall, step, rank, side, suspect.node_id, name, direction, strength, cause, suspect.error,
       expected, followers, source, evidence,
       coalesce(
           ranks,
           (SELECT group_concat(DISTINCT disagreement.suspect) FROM disagreement
            WHERE disagreement.node_id = suspect.node_id AND is_origin),
           -- Where nothing tells which of them is off it is none more than the other.
           (SELECT group_concat(DISTINCT disagreement.rank)
                   || coalesce(',' || group_concat(DISTINCT shown_rank), '')
            FROM disagreement WHERE disagreement.node_id = suspect.node_id AND is_origin),
           (SELECT group_concat(rank) FROM origin WHERE origin.node_id = suspect.node_id)
       ) AS origins, kind, dump_dir, check_.status, check_.times, framework
FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id) JOIN node_name USING (node_id)
LEFT JOIN operator_check AS check_ USING (node_id)
WHERE overall IS NOT NULL ORDER BY overall
"""

_ALONE = ("missing", "extra")  # causes
_COMMUNICATION = "Distributed."  # which no rank can do alone
_MINDSPORE = ("Cell.", "Mint", "Primitive.", "Jit.")


@dataclass(frozen=True)
class Suspect:
    """A call that may be to blame, in words."""

    step: int
    rank: int
    side: str
    node_id: int
    node: str
    direction: str
    strength: str
    cause: str
    error: float | None
    expected: float | None
    followers: int
    source: str | None
    facts: Facts
    ranks: tuple[int, ...]  # of a merged model: those that are off, else all it came from
    check: str | None  # passed, failed, not tested: what running it again alone has found
    command: str | None  # what runs it again alone
    is_of_torch: bool  # whose calls msprobe-operators runs again

    @property
    def evidence(self) -> str:
        """What speaks against it."""
        return tell(self.facts)

    @property
    def probability(self) -> float | None:
        """How likely it is the place, from 0 to 1; None where rules have judged."""
        told = [one for one in self.facts if one.code == "probability"]
        percent = told[0].arguments.get("percent") if told else None
        return percent / 100 if isinstance(percent, int) else None

    @property
    def is_unrecorded(self) -> bool:
        """Whether no node is to blame; ``node`` then is the first that shows the fault."""
        return self.cause == "unrecorded"

    @property
    def called(self) -> Fact | str:
        """The node, or where it stands to a fault that nobody recorded."""
        return standing_at(self.node, is_unrecorded=self.is_unrecorded)


@dataclass(frozen=True)
class PlaceVerdict:
    """The verdict on one step and rank."""

    step: int
    rank: int
    conclusion: str
    said: Facts

    @property
    def sentence(self) -> str:
        """What is said of it."""
        return tell(self.said)

    @property
    def follows(self) -> bool:
        """Whether what differs here came from another rank or step."""
        return has_code(self.said, FOLLOWS)

    @property
    def outcome(self) -> str:
        """The conclusion, or ``follows``."""
        return "follows" if self.follows else self.conclusion


@dataclass(frozen=True)
class Verdict:
    """The verdict on a whole file."""

    conclusion: str
    said: Facts
    compared: int
    suspects: tuple[Suspect, ...]
    places: tuple[PlaceVerdict, ...]
    next_dump: dict[str, Any] | None
    remark: Facts = ()  # on the next dump
    changed: int = 0  # matches made or ended since, which it does not know

    @property
    def sentence(self) -> str:
        """What is said of it."""
        return tell(self.said)

    @property
    def first_bad_step(self) -> int | None:
        """The first step with a strong suspect."""
        return min((one.step for one in self.suspects if one.strength == "strong"), default=None)


def read_verdict(connection: sqlite3.Connection) -> Verdict | None:
    """The verdict of an open database; None when nothing was compared."""
    whole = connection.execute(
        "SELECT conclusion, sentence, compared, next_dump FROM verdict WHERE step IS NULL"
    ).fetchone()
    if whole is None:
        return None
    places = connection.execute(
        "SELECT step, rank, conclusion, sentence FROM verdict WHERE step IS NOT NULL"
        " ORDER BY step, rank"
    )
    rows = connection.execute(_SUSPECTS).fetchall()
    checked = _told_of_check(rows[0]) if rows else ()
    proposal = _next_dump(connection, whole[3])
    return Verdict(
        conclusion=str(whole[0]),
        said=(*decode(text(whole[1])), *checked),
        compared=int(whole[2]),
        suspects=tuple(map(_suspect, rows)),
        places=tuple(
            PlaceVerdict(integer(step), integer(rank), text(conclusion), decode(text(said)))
            for step, rank, conclusion, said in places
        ),
        next_dump=proposal,
        remark=from_plain((proposal or {}).get("remark")),
        changed=read_changed(connection),
    )


def _next_dump(connection: sqlite3.Connection, text: str | None) -> dict[str, Any] | None:
    """What to record next, where the dumps do not hold it already."""
    found = None if text is None else _object(text)
    config = (found or {}).get("config")
    asks_for_tensors = isinstance(config, dict) and config.get("task") == Task.TENSOR.value
    is_there = asks_for_tensors and read_meta(connection).get("task") == Task.TENSOR.value
    return None if is_there else found


def _suspect(row: tuple[Any, ...]) -> Suspect:
    return Suspect(
        step=integer(row[1]),
        rank=integer(row[2]),
        side=SIDES[integer(row[3], 0, len(SIDES) - 1)],
        node_id=integer(row[4], 0, MAX_NODE),
        node=text(row[5]),
        direction=words(Direction)[integer(row[6], 0, max(Direction))],
        strength=words(Strength)[integer(row[7], 0, max(Strength))],
        cause=text(row[8]),
        error=number(row[9]),
        expected=number(row[10]),
        followers=integer(row[11], 0, MAX_NODE),
        source=optional_text(row[12]),
        facts=(*decode(text(row[13])), *_told_of_check(row)),
        ranks=listed(row[14]),
        check=row[17],
        command=_command(row),
        is_of_torch=_is_of_torch(row),
    )


def _told_of_check(row: tuple[Any, ...]) -> Facts:
    """What running the call again alone says of it."""
    status, times = row[17], number(row[18])
    if status == "failed":
        by = None if times is None else fact("run_again.by", times=multiple(times))
        return (fact("run_again.failed", by=by),)
    return (fact("run_again.passed"),) if status == "passed" else ()


def _command(row: tuple[Any, ...]) -> str | None:
    """What runs a call of a dump on disk again; of a merged model there is no such dump.

    A call that one side alone makes is wrong there by itself, whatever it puts out.
    """
    if row[15] != Kind.API or row[14] is not None or not row[16] or not _is_of_torch(row):
        return None
    if row[8] in _ALONE:
        return None
    if str(row[5]).startswith(_COMMUNICATION):
        return None
    call = str(row[5]).rpartition(".")[0]
    folder = printable(str(row[16]))
    return f"msprobe-operators check {shlex.quote(folder)} --call {shlex.quote(call)}"


def _is_of_torch(row: tuple[Any, ...]) -> bool:
    return str(row[19] or "").lower() != "mindspore" and not str(row[5]).startswith(_MINDSPORE)


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
