"""Steps and ranks are added to a result, as if all had been built at once."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, BuildError, BuildOptions, UsageError, build
from msprobe_builder.command.main import main
from tests.builder.integrity import check
from tests.builder.pipeline.test_workers import content
from tests.builder.small_dumps import communicate, forward, group, number, tensor, write_dump


def write_rank(root: Path, step: int, rank: int, wrong: float = 0.0) -> None:
    """A rank with a sum over two ranks, behind calls of which some are wrong."""
    calls = {}
    for call in range(12):
        shift = wrong if call > 3 else 0.0
        calls[f"Torch.add.{call}.forward"] = forward(
            [tensor(call + 1.0 + (wrong if call > 4 else 0.0), mean=0.5)],
            [tensor(call + 2.0 + shift, mean=0.5 + shift)],
        )
    calls["Distributed.all_reduce.0.forward"] = communicate(
        tensor(13.0 + wrong), number("ReduceOp.SUM"), group=group(0, 1)
    )
    write_dump(root / f"step{step}" / f"rank{rank}", calls)


PLACES = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.fixture
def config(tmp_path: Path) -> BuildConfig:
    return BuildConfig(tmp_path / "npu", tmp_path / "bench")


def write(tmp_path: Path, places: list[tuple[int, int]]) -> None:
    for step, rank in places:
        write_rank(tmp_path / "npu", step, rank, wrong=0.75 if (step, rank) >= (0, 1) else 0.0)
        write_rank(tmp_path / "bench", step, rank)


def unordered(rows: dict[str, list[str]]) -> dict[str, list[str]]:
    """Findings are numbered as they were found."""
    findings = sorted(row.partition(",")[2] for row in rows["diagnostic"])
    return {**rows, "diagnostic": findings}


@pytest.mark.parametrize("first", [1, 2, 3])
def test_what_is_appended_is_as_if_it_had_been_there(
    config: BuildConfig, tmp_path: Path, first: int
) -> None:
    write(tmp_path, PLACES[:first])
    path = build(config, tmp_path / "out", name="a").path
    write(tmp_path, PLACES[first:])
    result = build(config, append_to=path)
    assert result.path == path
    check(path).close()
    whole = build(config, tmp_path / "whole").path
    assert unordered(content(path)) == unordered(content(whole))
    rows = content(whole)
    assert rows["communication"]
    assert rows["suspect_alone"], "ranks were heard together"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.vis.db"]


def test_appending_twice(config: BuildConfig, tmp_path: Path) -> None:
    for number_of_places in range(1, 5):
        write(tmp_path, PLACES[number_of_places - 1 : number_of_places])
        if number_of_places == 1:
            path = build(config, tmp_path / "out", name="a").path
        else:
            build(config, append_to=path)
    assert unordered(content(path)) == unordered(content(build(config, tmp_path / "whole").path))


def test_matches_made_by_hand_stay(config: BuildConfig, tmp_path: Path) -> None:
    write(tmp_path, PLACES[:2])
    path = build(config, tmp_path / "out").path
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE match SET source = 3, author = 'me' WHERE npu_node = 5")
        connection.commit()
    write(tmp_path, PLACES[2:])
    build(config, append_to=path)
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT npu_node, author FROM match WHERE source = 3")
        assert found.fetchall() == [(5, "me")]


def test_a_rank_that_had_failed_is_added(config: BuildConfig, tmp_path: Path) -> None:
    write(tmp_path, PLACES)
    dump = tmp_path / "npu" / "step1" / "rank0" / "dump.json"
    whole = dump.read_text()
    dump.write_text(whole[:100])
    path = build(config, tmp_path / "out").path
    dump.write_text(whole)
    build(config, append_to=path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT value FROM meta WHERE key = 'complete'").fetchall() == [
            ("1",)
        ]
        [[count]] = connection.execute("SELECT count(*) FROM diagnostic WHERE code = 'rank_failed'")
        assert count == 0
        assert connection.execute("SELECT count(*) FROM graph").fetchone() == (8,)


def test_inputs_that_changed_are_refused(config: BuildConfig, tmp_path: Path) -> None:
    write(tmp_path, PLACES[:2])
    path = build(config, tmp_path / "out").path
    before = path.read_bytes()
    write_rank(tmp_path / "bench", 0, 1, wrong=0.5)
    write(tmp_path, PLACES[2:])
    with pytest.raises(BuildError, match=r"The dumps of step 0 rank 1 are not those"):
        build(config, append_to=path)
    assert path.read_bytes() == before


def test_dumps_that_are_gone_are_no_change(config: BuildConfig, tmp_path: Path) -> None:
    write(tmp_path, PLACES[:2])
    path = build(config, tmp_path / "out").path
    shutil.rmtree(tmp_path / "npu" / "step0")
    shutil.rmtree(tmp_path / "bench" / "step0")
    write(tmp_path, PLACES[2:])
    build(config, append_to=path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM graph").fetchone() == (8,)


def test_what_would_not_be_alike_is_refused(config: BuildConfig, tmp_path: Path) -> None:
    write(tmp_path, PLACES[:2])
    path = build(config, tmp_path / "out").path
    before = path.read_bytes()
    with pytest.raises(BuildError, match="there is nothing to append"):
        build(config, append_to=path)
    write(tmp_path, PLACES[2:])
    fuzzy = BuildConfig(config.npu_path, config.bench_path, options=BuildOptions(fuzzy_match=True))
    with pytest.raises(UsageError, match=r"was built with options \{\}, this build has"):
        build(fuzzy, append_to=path)
    with pytest.raises(UsageError, match="was built with kind compare"):
        build(BuildConfig(config.npu_path), append_to=path)
    with pytest.raises(UsageError, match="does not exist"):
        build(config, append_to=tmp_path / "none.vis.db")
    assert path.read_bytes() == before


def test_what_one_side_lacks_may_be_missing_before_or_after(
    config: BuildConfig, tmp_path: Path
) -> None:
    """Which steps and ranks are there says nothing of how they are compared."""
    allowing = replace(config, options=BuildOptions(allow_missing=True))
    write(tmp_path, PLACES[:2])
    path = build(config, tmp_path / "out", name="a").path
    write_rank(tmp_path / "npu", 1, 0)
    write_rank(tmp_path / "npu", 1, 1)
    write_rank(tmp_path / "bench", 1, 0)
    with pytest.raises(BuildError, match=r"bench_path lacks step 1 rank 1.*--allow-missing"):
        build(config, append_to=path)
    result = build(allowing, append_to=path)
    assert [one.count for one in result.diagnostics if one.code == "missing_rank"] == [1]
    write_rank(tmp_path / "bench", 1, 1)
    result = build(config, append_to=path)
    assert not [one for one in result.diagnostics if one.code == "missing_rank"]
    whole = content(build(config, tmp_path / "whole").path)
    assert unordered(content(path)) == unordered(whole)


def test_the_old_file_stays_when_appending_fails(config: BuildConfig, tmp_path: Path) -> None:
    write(tmp_path, PLACES[:2])
    path = build(config, tmp_path / "out").path
    before = path.read_bytes()
    write(tmp_path, PLACES[2:3])
    (tmp_path / "npu" / "step1" / "rank0" / "dump.json").write_text("{")
    with pytest.raises(BuildError):
        build(config, append_to=path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_command(
    config: BuildConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, PLACES[:2])
    request = tmp_path / "compare.json"
    request.write_text(f'{{"npu_path": "{tmp_path}/npu", "bench_path": "{tmp_path}/bench"}}')
    path = build(config, tmp_path / "out", name="a").path
    write(tmp_path, PLACES[2:])
    assert main(["-i", str(request), "-o", str(tmp_path), "--append", str(path)]) == 2
    assert "leave -o out" in capsys.readouterr().err
    assert main(["-i", str(request), "--append", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
