"""A single replica that is compared with many is merged once, and gives the same each time."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.options import DEFAULT_OPTIONS
from msprobe_builder.base.texts import Texts
from msprobe_builder.database.late_columns import complete
from msprobe_builder.dump.discover import discover
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_builder.pipeline.build import store_pair
from msprobe_builder.pipeline.jobs import pair_up_replicas
from msprobe_builder.pipeline.kept import Keeper, Kept

_VIEWS = (
    "SELECT * FROM node_view ORDER BY seq, side",
    "SELECT * FROM tensor_view ORDER BY side, node, name",
    "SELECT node_id, ordinal, recipe FROM recipe_view ORDER BY 1, 2",
    "SELECT node_id, rank FROM origin ORDER BY 1, 2",
    "SELECT severity, code, message, subject, count, side, step, rank FROM diagnostic ORDER BY 2",
)


def content(shard: Path) -> list[list[Any]]:
    with closing(sqlite3.connect(shard)) as connection:
        complete(connection)  # a part has no views until all parts are gathered
        return [connection.execute(one).fetchall() for one in _VIEWS]


@pytest.mark.slow
@pytest.mark.parametrize("many_first", [True, False])
def test_a_kept_side_is_as_one_read_again(many_first: bool, dumps: Path, tmp_path: Path) -> None:
    sides = [("megatron_tp2pp1dp2", 4), ("megatron_tp2pp1", 2)]
    sides = sides if many_first else sides[::-1]
    left, right = (discover(dumps / name / "step0", name) for name, _ in sides)
    npu, bench = (parse_layout({"rank_size": size, "tp": 2, "pp": 1}, "") for _, size in sides)
    jobs, _ = pair_up_replicas(left, right, (npu, bench), DEFAULT_OPTIONS)
    reports: list[str] = []
    keeper = Keeper()
    for job in jobs:
        store_pair(job, tmp_path / f"kept{job.rank}", reports.append, keeper)
    single, many = ("reference", "debug") if many_first else ("debug", "reference")
    assert [one for one in reports if single in one] == [f"read {single}", f"keep {single}"]
    assert reports.count(f"read {many}") == 2
    assert len(reports) == sum(job.stages for job in jobs)
    for job in jobs:
        again = tmp_path / f"again{job.rank}"
        store_pair(replace(job, keep=None), again, reports.append, Keeper())
        found = content(tmp_path / f"kept{job.rank}")
        assert all(found[:4])
        assert found == content(tmp_path / f"again{job.rank}")


def test_threads_that_ask_for_one_side_read_it_once() -> None:
    keeper, begun, go_on = Keeper(), threading.Event(), threading.Event()
    reads: list[int] = []

    def read() -> Kept:
        reads.append(1)
        begun.set()
        assert go_on.wait(60)
        return Kept(cast(Side, object()), Texts(), [])

    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(keeper.obtain, "one", read)
        assert begun.wait(60)
        others = [pool.submit(keeper.obtain, "one", read) for _ in range(2)]
        go_on.set()
        found = [future.result(60) for future in (first, *others)]
    assert (len(reads), [is_kept for _, is_kept in found]) == (1, [False, True, True])
    assert len({id(kept.side) for kept, _ in found}) == 1
    assert len({id(kept.texts) for kept, _ in found}) == 3  # each may add its own


def test_what_could_not_be_read_is_not_kept() -> None:
    keeper = Keeper()

    def fail() -> Kept:
        raise BuildError("no such dump")

    for _ in range(2):
        with pytest.raises(BuildError, match="no such dump"):
            keeper.obtain("one", fail)
    kept, is_kept = keeper.obtain("one", lambda: Kept(cast(Side, object()), Texts(), []))
    assert not is_kept
    assert keeper.obtain("one", fail)[0].side is kept.side
    keeper.forget()
    with pytest.raises(BuildError):
        keeper.obtain("one", fail)
