"""An interrupted build goes on from what it had finished, and notices what has changed since."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, BuildError, build
from msprobe_builder.pipeline.shards import request_name, shard_folder
from tests.builder.pipeline.test_workers import content
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.cases import REPEATED, tried_first

RANKS = 4


@pytest.fixture
def sides(tmp_path: Path) -> BuildConfig:
    for side, factor in (("npu", 1.0), ("bench", 1.5)):
        for rank in range(RANKS):
            calls = {
                f"Torch.add.{i}.forward": forward([tensor(i)], [tensor(i + factor + rank)])
                for i in range(600)
            }
            write_dump(tmp_path / side / f"rank{rank}", calls)
    (tmp_path / "compare.json").write_text(
        json.dumps({"npu_path": str(tmp_path / "npu"), "bench_path": str(tmp_path / "bench")})
    )
    return BuildConfig(tmp_path / "npu", tmp_path / "bench")


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "msprobe_builder.command.main"]
    command += ["-i", str(folder / "compare.json"), "-o", str(folder / "out"), "--workers", "1"]
    return subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def interrupted(folder: Path, *options: str, by: signal.Signals) -> str:
    """Stop a build when it begins with rank 2; what it said to the end."""
    with start(folder, *options) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "rank 2" in line:
                break
        process.send_signal(by)
        return process.stderr.read()


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "out").glob(".ranks-*/*.shard"))


def resumed(folder: Path) -> str:
    with start(folder, "--resume", "--output-name", "resumed") as process:
        _, said = process.communicate()
    assert process.returncode == 0, said
    assert [path.name for path in (folder / "out").iterdir()] == ["resumed.vis.db"]
    return said


def test_a_stopped_build_goes_on(sides: BuildConfig, tmp_path: Path) -> None:
    said = interrupted(tmp_path, "--resume", by=signal.SIGTERM)
    assert "Stopped; 2 of 4 steps and ranks are finished and kept in" in said
    assert len(shards(tmp_path)) == 2
    said = resumed(tmp_path)
    assert "already finished (step 0 rank 1)" in said
    assert "already finished (step 0 rank 2)" not in said
    whole = build(sides, tmp_path / "other", workers=1).path
    assert content(tmp_path / "out" / "resumed.vis.db") == content(whole)


def test_a_killed_build_goes_on_though_nobody_asked_before(
    sides: BuildConfig, tmp_path: Path
) -> None:
    interrupted(tmp_path, by=signal.SIGKILL)
    assert len(shards(tmp_path)) == 2
    assert "already finished (step 0 rank 1)" in resumed(tmp_path)
    assert content(tmp_path / "out" / "resumed.vis.db") == content(
        build(sides, tmp_path / "other", workers=1).path
    )


@pytest.mark.parametrize(
    "name", tried_first(["dump.json", "stack.json", "construct.json"], 1, REPEATED)
)
def test_a_rank_whose_inputs_changed_is_built_again(
    sides: BuildConfig, tmp_path: Path, name: str
) -> None:
    interrupted(tmp_path, "--resume", by=signal.SIGTERM)
    file = tmp_path / "bench" / "rank0" / name
    status = file.stat()
    if name == "dump.json":  # of the same length, in the same second
        file.write_text(file.read_text().replace('"Norm": 1.0', '"Norm": 9.0'))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    else:
        file.write_text(file.read_text() + " ")
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    said = resumed(tmp_path)
    assert "already finished (step 0 rank 0)" not in said
    assert "already finished (step 0 rank 1)" in said
    assert content(tmp_path / "out" / "resumed.vis.db") == content(
        build(sides, tmp_path / "other", workers=1).path
    )


def test_what_another_request_finished_is_not_taken(sides: BuildConfig, tmp_path: Path) -> None:
    interrupted(tmp_path, "--resume", by=signal.SIGTERM)
    with start(tmp_path, "--resume", "--fuzzy-match", "--output-name", "fuzzy") as process:
        _, said = process.communicate()
    assert "already finished" not in said
    assert len(shards(tmp_path)) == 2, "those of the first request stay"
    build(sides, tmp_path / "out", name="plain")
    assert not shards(tmp_path), "a build without --resume cleans up"


def test_two_builds_do_not_go_on_from_the_same(sides: BuildConfig, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with shard_folder(out, request_name(sides), resume=True) as folder:
        with pytest.raises(BuildError, match="Another build of the same request runs"):
            build(sides, out, resume=True)
        assert folder.exists()
        build(sides, out, name="a")  # not in the way of one that starts afresh
        assert folder.exists()
    assert [path.name for path in out.iterdir()] == ["a.vis.db"]


@pytest.mark.usefixtures("sides")
def test_a_shard_is_finished_only_when_it_is_whole(tmp_path: Path) -> None:
    interrupted(tmp_path, "--resume", by=signal.SIGKILL)
    shutil.copy(shards(tmp_path)[0], shards(tmp_path)[0].with_name("0123.part"))
    resumed(tmp_path)


def test_nothing_is_kept_of_a_request_that_finished(sides: BuildConfig, tmp_path: Path) -> None:
    (tmp_path / "npu" / "rank3" / "dump.json").write_text("{")
    result = build(sides, tmp_path / "out", resume=True, name="a")
    assert [place.rank for place, _ in result.failed] == [3]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.vis.db"]
