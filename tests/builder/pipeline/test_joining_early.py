"""What is joined while others are built is what joining in the end would give, or is not used."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.write import pair
from msprobe_builder.pipeline import early
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.early import Joined, joining_early
from msprobe_builder.pipeline.executors.attempt import Outcome
from msprobe_builder.pipeline.executors.processes import longest_first
from msprobe_builder.pipeline.executors.run import run_jobs
from msprobe_builder.pipeline.join import gather, of_one_task
from msprobe_builder.pipeline.kept import Keep
from msprobe_builder.pipeline.progress import Progress
from msprobe_builder.pipeline.store import store_pair
from tests.builder.pipeline.test_workers import content
from tests.builder.small_dumps import forward, tensor, write_dump

RANKS = 4


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    """Ranks with texts of their own, which stand in the middle of those they share."""
    for side, factor in (("npu", 1.0), ("bench", 1.5)):
        for rank in range(RANKS):
            calls = {
                f"Torch.{name}.{i}.forward": forward([tensor(i)], [tensor(i + factor + rank)])
                for name in ("add", f"of_rank_{rank}", "mul")
                for i in range(20)
            }
            write_dump(tmp_path / side / f"rank{rank}", calls)
    return BuildConfig(tmp_path / "npu", tmp_path / "bench")


@pytest.fixture
def outcomes(config: BuildConfig, tmp_path: Path) -> list[Outcome]:
    assert isinstance(config.npu_path, Path)
    assert isinstance(config.bench_path, Path)
    npu, bench = config.npu_path, config.bench_path
    ranks = [(rank, f"rank{rank}") for rank in range(RANKS)]
    jobs = [PairJob(0, rank, npu / name, bench / name) for rank, name in ranks]
    (tmp_path / "shards").mkdir()
    return run_jobs(jobs, tmp_path / "shards", store_pair, Progress(1, quiet=True), 1)


def joined_at_once(outcomes: list[Outcome], config: BuildConfig, target: Path) -> None:
    gather(target, outcomes, config, [], keep_shards=True)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (3, 2, 1, 0)])
def test_in_whatever_order_they_finish(
    order: tuple[int, ...], outcomes: list[Outcome], config: BuildConfig, tmp_path: Path
) -> None:
    joined_at_once(outcomes, config, tmp_path / "at_once.db")
    with joining_early(tmp_path) as joined:
        for number in order:
            joined.take(number, outcomes[number])
        gather(*(tmp_path / "early.db", outcomes, config, []), keep_shards=False, joined=joined)
    assert content(tmp_path / "early.db") == content(tmp_path / "at_once.db")
    assert list((tmp_path / "shards").iterdir()) == []
    assert not list(tmp_path.glob("*.part"))


def test_the_first_ones_are_taken_over(outcomes: list[Outcome], tmp_path: Path) -> None:
    joined = Joined(tmp_path / "joined.part")
    for number in (0, 1, 3):
        joined.take(number, outcomes[number])
    shards = [outcome.shard for outcome in outcomes]
    assert joined.hand_over(tmp_path / "early.db", shards) == 2
    assert len(content(tmp_path / "early.db")["graph"]) == 2 * 2


def test_a_rank_that_failed_is_left_out(
    outcomes: list[Outcome], config: BuildConfig, tmp_path: Path
) -> None:
    outcomes[1] = replace(outcomes[1], problem="It cannot be read.")
    joined_at_once(outcomes, config, tmp_path / "at_once.db")
    with joining_early(tmp_path) as joined:
        for number, outcome in enumerate(outcomes):
            joined.take(number, outcome)
        gather(*(tmp_path / "early.db", outcomes, config, []), keep_shards=True, joined=joined)
    assert content(tmp_path / "early.db") == content(tmp_path / "at_once.db")


def test_a_rank_of_another_task_is_left_out(
    outcomes: list[Outcome], config: BuildConfig, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(outcomes[1].shard)) as connection, connection:
        connection.execute("UPDATE meta SET value = 'md5' WHERE key = 'task'")
    of_one = of_one_task(outcomes)
    assert [outcome.problem is None for outcome in of_one] == [True, False, True, True]
    joined_at_once(of_one, config, tmp_path / "at_once.db")
    with joining_early(tmp_path) as joined:
        for number, outcome in enumerate(outcomes):
            joined.take(number, outcome)
        gather(*(tmp_path / "early.db", of_one, config, []), keep_shards=False, joined=joined)
        left = sorted(path.name for path in (tmp_path / "shards").iterdir())
    assert left == [outcomes[1].shard.name]
    assert content(tmp_path / "early.db") == content(tmp_path / "at_once.db")


def test_a_rank_that_is_built_once_more_is_joined_as_it_is_then(
    outcomes: list[Outcome], tmp_path: Path
) -> None:
    with joining_early(tmp_path) as joined:
        for number, outcome in enumerate(outcomes):
            joined.take(number, outcome)
        again = tmp_path / "shards" / "again.shard"
        shutil.copyfile(outcomes[2].shard, again)
        outcomes[2] = replace(outcomes[2], shard=again)
        assert joined.hand_over(tmp_path / "early.db", [one.shard for one in outcomes]) == 0
        assert not (tmp_path / "early.db").exists()
    assert not list(tmp_path.glob("*.part"))


def test_what_is_too_large_to_be_there_twice_is_joined_in_the_end(
    outcomes: list[Outcome], config: BuildConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [outcome.shard.stat().st_size for outcome in outcomes]
    monkeypatch.setattr(early, "LARGEST_COPIED", 2 * max(sizes))
    joined_at_once(outcomes, config, tmp_path / "at_once.db")
    with joining_early(tmp_path) as joined:
        for number, outcome in enumerate(outcomes):
            joined.take(number, outcome)
        gather(*(tmp_path / "early.db", outcomes, config, []), keep_shards=True, joined=joined)
    assert content(tmp_path / "early.db") == content(tmp_path / "at_once.db")


def test_a_shard_that_cannot_be_joined_is_no_trouble_yet(
    outcomes: list[Outcome], tmp_path: Path
) -> None:
    torn = tmp_path / "torn.shard"
    torn.write_bytes(outcomes[1].shard.read_bytes()[:5000])
    with joining_early(tmp_path) as joined:
        joined.take(0, outcomes[0])
        joined.take(1, replace(outcomes[1], shard=torn))
        joined.take(2, outcomes[2])
        assert joined.hand_over(tmp_path / "early.db", [one.shard for one in outcomes]) == 0
    assert not list(tmp_path.glob("*.part"))


def test_a_build_by_two_leaves_nothing_but_its_file(config: BuildConfig, tmp_path: Path) -> None:
    one, two = (build(config, tmp_path / str(count), workers=count).path for count in (1, 2))
    assert content(one) == content(two)
    assert list((tmp_path / "2").iterdir()) == [two]


def test_the_longest_begin_first(tmp_path: Path) -> None:
    jobs = []
    for rank, size in enumerate((990, 100, 2000, 1010, 0)):
        (tmp_path / str(rank)).mkdir()
        if size:
            (tmp_path / str(rank) / "dump.json").write_bytes(b" " * size)
        jobs.append(PairJob(0, rank, tmp_path / str(rank), None))
    assert longest_first(jobs) == [2, 0, 3, 1, 4]  # of one size in their order
    kept = [replace(job, keep=Keep(0, "one")) for job in jobs]
    assert longest_first(kept) == [0, 1, 2, 3, 4]


def test_ranks_of_many_calls_and_of_few_are_joined(
    config: BuildConfig, outcomes: list[Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their databases have pages of another size; the first one's stays."""
    few, both = tmp_path / "few.db", tmp_path / "both.db"
    joined_at_once(outcomes, config, few)
    monkeypatch.setattr(pair, "_MANY_CALLS", 1)
    jobs = [outcome.job for outcome in outcomes[:2]]
    (tmp_path / "larger").mkdir()
    larger = run_jobs(jobs, tmp_path / "larger", store_pair, Progress(1, quiet=True), 1)
    joined_at_once([*larger, *outcomes[2:]], config, both)
    assert content(both) == content(few)
    sizes = []
    for path in (few, both):
        with closing(sqlite3.connect(path)) as connection:
            sizes += connection.execute("PRAGMA page_size").fetchone()
    assert sizes[0] < sizes[1]
