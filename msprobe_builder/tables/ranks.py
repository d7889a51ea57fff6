"""Many ranks beside each other: one sheet per index, and where the first trouble is."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from msprobe_builder.base.codes import Section
from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.publish import written, written_together
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.database.read.not_finite import holds_beginnings, read_beginnings
from msprobe_builder.database.whole import opened_whole
from msprobe_builder.facts.fact import Fact, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.metrics.beginning import Part
from msprobe_builder.pipeline.origins import first_of_ranks, origin_of
from msprobe_builder.tables.columns import NUMERIC, columns_of
from msprobe_builder.tables.export import wanted_places
from msprobe_builder.tables.read import read_rows
from msprobe_builder.tables.rows import Cell, Row
from msprobe_builder.tables.write import write_sheets


@dataclass(frozen=True)
class Trouble:
    """The first row of a rank that is bad, or not finite; ``order`` counts its rows from 0.

    ``is_received`` tells of NaN and infinity that came from another rank.
    """

    step: int
    rank: int
    order: int
    name: str
    is_received: bool = False


@dataclass(frozen=True)
class RankTable:
    """What was written of all ranks together."""

    path: Path
    first_difference: Trouble | None
    first_not_finite: Trouble | None
    said: tuple[Fact, Fact]


def export_ranks(
    database: Path,
    directory: Path,
    calls: Sequence[str],
    indexes: Sequence[str],
    steps: Sequence[int] = (),
) -> RankTable:
    """Write ``multi_ranks_compare_merge_{timestamp}.xlsx``, and beside it what came first.

    A sheet per column of ``indexes`` (all columns of numbers when empty) has a row per value of
    the calls whose names begin with one of ``calls`` (all when empty) and a column per rank. Of
    ranks that differ in the same row the first is the one with the lowest number: dumps have no
    clock that ranks share.
    """
    stamp = f"{datetime.now().astimezone():%Y%m%d%H%M%S}"
    with opened_whole(database) as connection:
        task = read_task(connection)
        columns = columns_of(task)
        known = [name for name in columns.names if name in NUMERIC or name == columns.verdict]
        for index in indexes:
            if index not in known:
                raise UsageError(f"{index!r} is no index of this table; it has {', '.join(known)}.")
        chosen = [(name, columns.place(name)) for name in indexes or known]
        places = wanted_places(connection, steps, ())
        several_steps = len({place.step for place in places}) > 1
        heads = []
        cells: dict[str, dict[tuple[str, int], Cell]] = {}
        different: list[Trouble] = []
        not_finite: list[Trouble] = []
        beginnings = _beginnings(connection)
        count = compared = 0
        for number, place in enumerate(places):
            began = None if beginnings is None else beginnings.get((place.step, place.rank))
            step = f"step{place.step}_" if several_steps else ""
            heads.append(f"{step}rank{place.rank}")
            has_different = has_not_finite = False
            rows = read_rows(connection, place, task, columns, marked=False)
            for order, row in enumerate(rows):
                name = str(row.cells[0])
                here = Trouble(place.step, place.rank, order, name)
                count += 1
                compared += row.is_compared
                if row.is_bad and not has_different:
                    has_different = True
                    different.append(here)
                if row.overflows and not has_not_finite and _is_where(began, beginnings, row):
                    has_not_finite = True
                    is_received = began is not None and not began.is_origin
                    not_finite.append(replace(here, is_received=is_received))
                if not calls or name.startswith(tuple(calls)):
                    of_name = cells.setdefault(name, {})
                    for index, column in chosen:
                        of_name[index, number] = row.cells[column]
    path = directory / f"multi_ranks_compare_merge_{stamp}.xlsx"
    tables = {index: _sheet(cells, index, len(heads)) for index, _ in chosen}
    first = (
        min(different, key=_earliest, default=None),
        min(not_finite, key=_made_first, default=None),
    )
    result = RankTable(path, *first, _said(*first, compared, count))
    with written_together(directory) as folder:
        write_sheets(folder / path.name, ["NPU Name", *heads], tables)
        with written(folder / f"ranks_{stamp}.json") as stream:
            stream.write(_as_json(result, different, not_finite).encode("utf-8", errors="replace"))
    return result


def _sheet(
    cells: dict[str, dict[tuple[str, int], Cell]], index: str, ranks: int
) -> Iterator[list[Cell]]:
    for name, of_name in cells.items():
        yield [name, *(of_name.get((index, rank), "") for rank in range(ranks))]


class _Began(NamedTuple):
    """The call with which NaN or infinity began on a rank; ``is_origin`` where on all."""

    name: str
    is_made: bool
    is_origin: bool


def _beginnings(connection: sqlite3.Connection) -> dict[tuple[int, int], _Began] | None:
    """By step and rank of this run; None of files from before that was stored."""
    if not holds_beginnings(connection):
        return None
    found = [one for one in read_beginnings(connection) if one.side == 0]
    origin = origin_of(found)
    names = {(one.step, one.rank): one for one in first_of_ranks(found)}
    if origin is not None:
        names[origin.step, origin.rank] = origin
    return {
        place: _Began(one.name, one.part is Part.MADE, one is origin)
        for place, one in names.items()
    }


def _is_where(began: _Began | None, known: object, row: Row) -> bool:
    """Whether a row that is not finite is the one to tell of its rank."""
    if known is None:
        return True
    if began is None or not str(row.cells[0]).startswith(f"{began.name}."):
        return False
    return row.section != Section.INPUT or not began.is_made


def _made_first(trouble: Trouble) -> tuple[int, bool, int, int]:
    return trouble.step, trouble.is_received, trouble.order, trouble.rank


def _earliest(trouble: Trouble) -> tuple[int, int, int]:
    return trouble.step, trouble.order, trouble.rank


def _said(
    different: Trouble | None, not_finite: Trouble | None, compared: int, rows: int
) -> tuple[Fact, Fact]:
    differs = fact("table.none_differs", compared=compared, rows=rows)
    is_not_finite = fact("table.none_not_finite")
    if different is not None:
        place = {"step": different.step, "rank": different.rank}
        differs = fact("table.first_differs", name=different.name, **place)
    if not_finite is not None:
        place = {"step": not_finite.step, "rank": not_finite.rank}
        is_not_finite = fact("table.first_not_finite", name=not_finite.name, **place)
    return differs, is_not_finite


def _as_json(result: RankTable, different: Sequence[Trouble], not_finite: Sequence[Trouble]) -> str:
    def entry(trouble: Trouble | None) -> dict[str, object] | None:
        return None if trouble is None else vars(trouble)

    content = {
        "first_difference": entry(result.first_difference),
        "first_not_finite": entry(result.first_not_finite),
        "sentences": [tell(one, ENGLISH) for one in result.said],
        "facts": plain(result.said),
        "differences_by_rank": list(map(entry, different)),
        "not_finite_by_rank": list(map(entry, not_finite)),
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
