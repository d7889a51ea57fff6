"""Many ranks beside each other: one sheet per index, and where the first trouble is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.facts.fact import Fact, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.tables.columns import NUMERIC, columns_of
from msprobe_builder.tables.export import wanted_places
from msprobe_builder.tables.read import read_rows
from msprobe_builder.tables.rows import Cell
from msprobe_builder.tables.write import write_sheets


@dataclass(frozen=True)
class Trouble:
    """The first row of a rank that is bad, or not finite; ``order`` counts its rows from 0."""

    step: int
    rank: int
    order: int
    name: str


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
    with opened(database) as connection:
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
        for number, place in enumerate(places):
            step = f"step{place.step}_" if several_steps else ""
            heads.append(f"{step}rank{place.rank}")
            has_different = has_not_finite = False
            rows = read_rows(connection, place, task, columns, marked=False)
            for order, row in enumerate(rows):
                name = str(row.cells[0])
                here = Trouble(place.step, place.rank, order, name)
                if row.is_bad and not has_different:
                    has_different = True
                    different.append(here)
                if row.overflows and not has_not_finite:
                    has_not_finite = True
                    not_finite.append(here)
                if not calls or name.startswith(tuple(calls)):
                    of_name = cells.setdefault(name, {})
                    for index, column in chosen:
                        of_name[index, number] = row.cells[column]
    path = directory / f"multi_ranks_compare_merge_{stamp}.xlsx"
    tables = {index: _sheet(cells, index, len(heads)) for index, _ in chosen}
    write_sheets(path, ["NPU Name", *heads], tables)
    first = (
        min(different, key=_earliest, default=None),
        min(not_finite, key=_earliest, default=None),
    )
    result = RankTable(path, *first, _said(*first))
    with written(directory / f"ranks_{stamp}.json") as stream:
        stream.write(_as_json(result, different, not_finite).encode("utf-8", errors="replace"))
    return result


def _sheet(
    cells: dict[str, dict[tuple[str, int], Cell]], index: str, ranks: int
) -> Iterator[list[Cell]]:
    for name, of_name in cells.items():
        yield [name, *(of_name.get((index, rank), "") for rank in range(ranks))]


def _earliest(trouble: Trouble) -> tuple[int, int, int]:
    return trouble.step, trouble.order, trouble.rank


def _said(different: Trouble | None, not_finite: Trouble | None) -> tuple[Fact, Fact]:
    differs, is_not_finite = fact("table.none_differs"), fact("table.none_not_finite")
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
