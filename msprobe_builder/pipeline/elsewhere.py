"""Steps and ranks that are built once more with what another one has paired.

All are built first, each by its own evidence, in any order and by any number of workers. The one
with the most pairs then tells those that lack some of them, see align/told.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from msprobe_builder.database.read.told import Matched, count_alone, read_matched, read_told
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.executors.attempt import Outcome

# Of the matched nodes: for fewer a step and rank is not read again.
_WORTH = 0.01


def jobs_once_more(outcomes: Sequence[Outcome], base: Path | None = None) -> dict[int, PairJob]:
    """Jobs to run again by the number of their outcome, with what another has paired.

    ``base`` is a database that may know more pairs than all of them.
    """
    own = [
        (number, one.shard)
        for number, one in enumerate(outcomes)
        if one.problem is None and one.job.bench is not None and not one.job.options.exact
    ]
    found = [(number, path, one) for number, path in own for one in _matched(path)]
    known = [(path, one) for _, path, one in found]
    if base is not None and own:
        known += [(base, one) for one in _matched(base)]
    if len(known) < 2:
        return {}
    path, best = max(known, key=lambda one: (one[1].count, -one[1].step, -one[1].rank))
    lacking = [
        (number, shard, one)
        for number, shard, one in found
        if best.by_evidence and one.count < best.count - _WORTH * one.count
    ]
    if not lacking:
        return {}
    with closing(sqlite3.connect(path)) as connection:
        told = read_told(connection, best)
    again = {}
    for number, shard, one in lacking:
        with closing(sqlite3.connect(shard)) as connection:
            if count_alone(connection, one, told) > _WORTH * one.count:
                again[number] = replace(outcomes[number].job, told=told, keep=None, export_to=None)
    return again


def _matched(path: Path) -> list[Matched]:
    with closing(sqlite3.connect(path)) as connection:
        return read_matched(connection)
