"""Steps and ranks that are built once more with what another one has paired.

All are built first, each by its own evidence, in any order and by any number of workers. The one
with the most pairs then tells those that lack some of them, see align/from_other_ranks.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.matched import count_alone, read_matched, read_told
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.executors.attempt import Outcome

Answer = TypeVar("Answer")

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
    found = [
        (number, path, one) for number, path in own for one in _asked(path, base, read_matched)
    ]
    known = [(path, one) for _, path, one in found]
    if base is not None and own:
        known += [(base, one) for one in _asked(base, base, read_matched)]
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
    told = _asked(path, base, partial(read_told, one=best))
    return {
        number: replace(outcomes[number].job, told=told, keep=None, export_to=None)
        for number, shard, one in lacking
        if _asked(shard, base, partial(count_alone, one=one, told=told)) > _WORTH * one.count
    }


def _asked(
    path: Path, base: Path | None, question: Callable[[sqlite3.Connection], Answer]
) -> Answer:
    """What a shard of ours says, or the database that is added to, which anybody may have made."""
    with opened(path) if path == base else closing(connect_own(path)) as connection:
        return question(connection)
