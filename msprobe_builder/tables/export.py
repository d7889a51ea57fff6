"""From a database to the files of its tables: one per step and rank, each with its advice."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.memory import without_garbage_collection
from msprobe_builder.base.publish import written, written_together
from msprobe_builder.database.read.executed import Place, read_places
from msprobe_builder.database.read.meta import read_side_names, read_task
from msprobe_builder.database.read.verdict import read_verdict
from msprobe_builder.database.whole import opened_whole
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import calling
from msprobe_builder.tables.advice import (
    Advice,
    advice_json,
    advice_on,
    advice_text,
    all_good,
    with_verdict,
)
from msprobe_builder.tables.columns import columns_of
from msprobe_builder.tables.read import read_rows
from msprobe_builder.tables.write import FORMATS, table_file

_SUSPECTS = 3  # whose evidence is given


@dataclass(frozen=True)
class TableOptions:
    """How tables are written; empty tuples take all steps and ranks."""

    form: str = "xlsx"
    stack: bool = False
    marked: bool = False
    own: bool = False
    advise: bool = True
    suffix: str = ""
    prefix: str = ""
    steps: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Written:
    """One table that was written."""

    step: int
    rank: int
    path: Path
    rows: int
    bad: int  # rows that the documented verdict rejects
    advice: Advice
    compared: int = 0  # rows of which both sides have something to compare


def export_tables(database: Path, directory: Path, options: TableOptions) -> list[Written]:
    """Write every table that is wanted into ``directory``, or none; BuildError when it cannot be.

    The names are ``[debug_]compare_result[_step{S}][_rank{R}][suffix]_{timestamp}`` and
    ``advisor…`` beside it; step and rank stand in them where there are several.
    """
    if options.form not in FORMATS:
        raise UsageError(f"{options.form!r} is no format; choose one of {', '.join(FORMATS)}.")
    stamp = f"{datetime.now().astimezone():%Y%m%d%H%M%S}"
    with (
        written_together(directory) as folder,
        opened_whole(database) as connection,
        calling(read_side_names(connection)),
        without_garbage_collection(),
    ):
        task = read_task(connection)
        if task is Task.STRUCTURE:
            raise BuildError(f"{database} holds structure without values; there is no table of it.")
        places = wanted_places(connection, options.steps, options.ranks)
        several = (
            len({place.step for place in places}) > 1,
            any(place.rank or len(places) > 1 for place in places),
        )
        tables = [
            _export(
                connection, task, place, folder, _label(place, several, options), stamp, options
            )
            for place in places
        ]
    return [replace(one, path=directory / one.path.name) for one in tables]


def wanted_places(
    connection: sqlite3.Connection, steps: Sequence[int], ranks: Sequence[int]
) -> list[Place]:
    """The steps and ranks asked for; UsageError names one that is not there."""
    places = read_places(connection)
    for what, wanted, known in (
        ("step", steps, {place.step for place in places}),
        ("rank", ranks, {place.rank for place in places}),
    ):
        for value in wanted:
            if value not in known:
                listed = ", ".join(map(str, sorted(known)))
                raise UsageError(f"The file has no {what} {value}; it has {listed}.")
    return [
        place
        for place in places
        if (not steps or place.step in steps) and (not ranks or place.rank in ranks)
    ]


def _judged(connection: sqlite3.Connection, place: Place, advice: Advice) -> Advice:
    """With what the verdict says and its evidence, which knows more than names do."""
    verdict = read_verdict(connection)
    if verdict is None:
        return advice
    here = place.step, place.rank
    here_said = [one.said for one in verdict.places if (one.step, one.rank) == here]
    suspects = [one for one in verdict.suspects if (one.step, one.rank) == here]
    evidence = tuple(
        (fact("verdict.suspect", name=one.called, source=None), *one.facts)
        for one in suspects[:_SUSPECTS]
    )
    return with_verdict(advice, here_said[0] if here_said else verdict.said, evidence)


def _label(place: Place, several: tuple[bool, bool], options: TableOptions) -> str:
    step = f"_step{place.step}" if several[0] else ""
    rank = f"_rank{place.rank}" if several[1] else ""
    return f"{step}{rank}{options.suffix}"


def _export(
    connection: sqlite3.Connection,
    task: Task,
    place: Place,
    directory: Path,
    label: str,
    stamp: str,
    options: TableOptions,
) -> Written:
    columns = columns_of(task, stack=options.stack, own=options.own)
    path = directory / f"{options.prefix}compare_result{label}_{stamp}.{options.form}"
    count = bad = compared = 0
    first: tuple[int, str, int] | None = None
    rows = read_rows(connection, place, task, columns, marked=options.marked)
    with table_file(path, columns) as write:
        for count, row in enumerate(rows, start=1):
            write(row)
            compared += row.is_compared
            if row.is_bad:
                bad += 1
                first = first or (count + 1, str(row.cells[0]), row.section)
    advice = advice_on(*first) if first else all_good(compared, count)
    if not options.prefix:  # the verdict is on calls
        advice = _judged(connection, place, advice)
    if options.advise:
        for suffix, text in ((".txt", advice_text(advice)), (".json", advice_json(advice))):
            with written(directory / f"{options.prefix}advisor{label}_{stamp}{suffix}") as stream:
                stream.write(text.encode("utf-8", errors="replace"))
    return Written(place.step, place.rank, path, count, bad, advice, compared)
