"""Score the verdict: python -m tests.faults.scoring [PART] [WORD …]

Parts are developed (the default), held-out, second, third, fourth, fifth, sixth, seventh,
eighth, ninth, tenth, eleventh, twelfth,
thirteenth, fourteenth, fifteenth, fifteenth-otherwise, sixteenth, sixteenth-otherwise,
seventeenth, seventeenth-otherwise,
eighteenth, eighteenth-otherwise, nineteenth, nineteenth-otherwise,
twentieth, twentieth-apart, twentieth-otherwise,
twentyfirst, twentyfirst-otherwise,
twentysecond, twentysecond-apart, twentysecond-otherwise and other-ways.
Words select cases by parts of their names. Prints each case whose best suspect is not the culprit,
then top-1, how many of these are strong, top-3 and strong accusations of somebody else for each
kind of noise.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict
from tests.faults.case import Case
from tests.faults.cases import developed, fourth, held_out, other_ways, second, third
from tests.faults.eighteenth_cases import eighteenth, eighteenth_otherwise
from tests.faults.kept_cases import fifteenth, fifteenth_otherwise
from tests.faults.later_cases import fourteenth
from tests.faults.nineteenth_cases import nineteenth, nineteenth_otherwise
from tests.faults.record import OUTSIDE
from tests.faults.recordings import recorded
from tests.faults.seventeenth_cases import seventeenth, seventeenth_otherwise
from tests.faults.sixteenth_cases import sixteenth, sixteenth_otherwise
from tests.faults.twentieth_cases import twentieth, twentieth_apart, twentieth_otherwise
from tests.faults.twentyfirst_cases import twentyfirst, twentyfirst_otherwise
from tests.faults.twentysecond_cases import (
    twentysecond,
    twentysecond_apart,
    twentysecond_otherwise,
)
from tests.faults.unseen_cases import (
    eighth,
    eleventh,
    fifth,
    ninth,
    seventh,
    sixth,
    tenth,
    thirteenth,
    twelfth,
)


@dataclass(frozen=True)
class Score:
    """What the verdict said of a case; ``place`` counts from 1, None when it named nobody."""

    case: Case
    verdict: Verdict
    place: int | None

    @property
    def is_strong(self) -> bool:
        """Whether somebody is accused strongly."""
        return bool(self.verdict.suspects) and self.verdict.suspects[0].strength == "strong"


def score(case: Case, folder: Path) -> Score:
    """Record a case, build it, and look up who is accused."""
    truth = recorded(case, folder)
    sides = folder / "npu" / "dump", folder / "bench" / "dump"
    config = BuildConfig(*sides)
    result = build(config, folder / "out", workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
        assert verdict is not None
        named = [_named(connection, one) for one in verdict.suspects]
    places = [place for place, one in enumerate(named, 1) if one & truth]
    return Score(case, verdict, min(places, default=None))


def _named(connection: sqlite3.Connection, suspect: Suspect) -> set[str]:
    """The call that is accused; of calls that have a counterpart only together these."""
    members = connection.execute(
        "SELECT name FROM group_member JOIN node_name USING (node_id) WHERE call_group_id ="
        " (SELECT call_group_id FROM group_member WHERE node_id = ?)",
        (suspect.node_id,),
    )
    told = {f"{OUTSIDE}{suspect.node}"} if suspect.cause in _BEFORE else set()
    node = set() if suspect.is_unrecorded else {suspect.node}
    return {*node, *told, *(str(name) for (name,) in members)}


_BEFORE = (
    "unrecorded",
    "weight",
    "gradient",
)  # nothing is wrong with the node, but with what it is given


def main(arguments: list[str]) -> None:
    """Score all cases that are asked for."""
    parts = {
        "developed": developed,
        "held-out": held_out,
        "second": second,
        "third": third,
        "fourth": fourth,
        "fifth": fifth,
        "sixth": sixth,
        "seventh": seventh,
        "eighth": eighth,
        "ninth": ninth,
        "tenth": tenth,
        "eleventh": eleventh,
        "twelfth": twelfth,
        "thirteenth": thirteenth,
        "fourteenth": fourteenth,
        "fifteenth": fifteenth,
        "fifteenth-otherwise": fifteenth_otherwise,
        "sixteenth": sixteenth,
        "sixteenth-otherwise": sixteenth_otherwise,
        "seventeenth": seventeenth,
        "seventeenth-otherwise": seventeenth_otherwise,
        "eighteenth": eighteenth,
        "eighteenth-otherwise": eighteenth_otherwise,
        "nineteenth": nineteenth,
        "nineteenth-otherwise": nineteenth_otherwise,
        "twentieth": twentieth,
        "twentieth-apart": twentieth_apart,
        "twentieth-otherwise": twentieth_otherwise,
        "twentyfirst": twentyfirst,
        "twentyfirst-otherwise": twentyfirst_otherwise,
        "twentysecond": twentysecond,
        "twentysecond-apart": twentysecond_apart,
        "twentysecond-otherwise": twentysecond_otherwise,
        "other-ways": other_ways,
    }
    chosen = next((part for name, part in parts.items() if name in arguments), developed)
    words = [one for one in arguments if one not in parts]
    total: dict[tuple[str, str], Counter[str]] = {}
    for case in chosen():
        if words and not any(word in case.name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = score(case, Path(folder))
        way = " ".join([case.kind, case.level, case.summary, case.task])
        of_kind = total.setdefault(("control" if case.is_control else "fault", way), Counter())
        of_kind.update(_counted(found))
        if found.place != 1 and (not case.is_control or found.verdict.suspects):
            best: Any = found.verdict.suspects[:1]
            print(f"{case.name}: place {found.place}; {best}", flush=True)
    for (what, kind), counts in total.items():
        print(what, kind, dict(counts))


def _counted(found: Score) -> list[str]:
    counted = ["cases"]
    if found.place == 1:
        counted.append("top-1")
        counted += ["strong"] if found.is_strong else []
    if found.place is not None and found.place <= 3:
        counted.append("top-3")
    if found.is_strong and found.place != 1:
        counted.append("strong accusation of another")
    return counted


if __name__ == "__main__":
    main(sys.argv[1:])
