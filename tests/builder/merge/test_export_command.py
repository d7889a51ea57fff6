"""msprobe-build --export-merged: what it writes, what it refuses, and what a stop leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from merge_truth import SPLITS
from tests.builder.integrity import check, is_one_sentence
from tests.builder.running import run_here
from tests.cases import REPEATED, tried_first

TP2DP2: dict[str, Any] = {"rank_size": 4, "tp": 2, "pp": 1}
DP2: dict[str, Any] = {"rank_size": 2, "tp": 1, "pp": 1}
ONE: dict[str, Any] = {"rank_size": 1, "tp": 1, "pp": 1}


def run(folder: Path, *options: str, **config: Any) -> subprocess.CompletedProcess[str]:
    return run_here(arguments(folder, *options, **config))


def arguments(folder: Path, *options: str, **config: Any) -> list[str]:
    folder.mkdir(exist_ok=True)
    compare = folder / "compare.json"
    compare.write_text(json.dumps({"is_print_compare_log": False, **config}), encoding="utf-8")
    return ["-i", str(compare), *options]


def verdicts(folder: Path) -> list[tuple[Any, ...]]:
    """Every node with its place, partner and grade; every tensor with its errors."""
    [database] = folder.glob("*.vis.db")
    with closing(check(database)) as connection:
        nodes = connection.execute(
            "SELECT side, seq, name, micro_step, grade, error, matched FROM node_view"
            " ORDER BY side, step, rank, seq"
        ).fetchall()
        tensors = connection.execute("SELECT * FROM tensor_view").fetchall()
        columns = [row[0] for row in connection.execute("SELECT * FROM tensor_view").description]
    kept = [place for place, name in enumerate(columns) if name not in ("rank", "node_id")]
    return nodes + sorted((tuple(row[place] for place in kept) for row in tensors), key=str)


@pytest.mark.slow
def test_a_comparison_of_exports_is_that_of_the_merged_models(dumps: Path, tmp_path: Path) -> None:
    given = {
        "npu_path": str(dumps / "megatron_tp2pp1dp2" / "step0"),
        "bench_path": str(dumps / "megatron_tp1pp1dp2" / "step0"),
    }
    merge = {"npu": TP2DP2, "bench": DP2}
    exported, out = tmp_path / "exported", tmp_path / "out"
    done = run(
        tmp_path,
        *("-o", str(out), "--export-merged", str(exported)),
        **given,
        parallel_merge=merge,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert f"Dumps     {exported}\n" in done.stdout
    assert sorted(str(path.relative_to(exported)) for path in exported.glob("*/*/*/*")) == sorted(
        f"{side}/step0/rank{rank}/{name}.json"
        for side in ("npu", "bench")
        for rank in (0, 1)
        for name in ("dump", "construct", "stack")
    )
    again = tmp_path / "again"
    paths = {"npu_path": str(exported / "npu"), "bench_path": str(exported / "bench")}
    assert run(tmp_path, "-o", str(again), "-lm", **paths).returncode == 0
    assert verdicts(again) == verdicts(out)


@pytest.mark.parametrize(
    "name", tried_first(["megatron_tp2pp2", "megatron_tp1pp2vpp2"], 1, REPEATED)
)
def test_an_export_compares_with_the_truth_as_the_merged_model_does(
    name: str, dumps: Path, tmp_path: Path
) -> None:
    [split] = [one for one in SPLITS if one.name == name]
    truth = str(dumps / split.truth / "step0" / "rank0")
    given = {"npu_path": str(dumps / name / "step0"), "bench_path": truth}
    merge = {"npu": split.layout, "bench": ONE}
    exported = tmp_path / "exported"
    options = "-o", str(tmp_path / "out"), "--export-merged", str(exported)
    assert run(tmp_path, *options, **given, parallel_merge=merge).returncode == 0
    again = tmp_path / "again"
    given["npu_path"] = str(exported / "npu" / "step0" / "rank0")
    assert run(tmp_path, "-o", str(again), "-lm", **given).returncode == 0
    found = []
    for folder in (again, tmp_path / "out"):
        with closing(check(next(folder.glob("*.vis.db")))) as connection:
            query = "SELECT seq, name, grade, error FROM node_view WHERE side = 'npu' ORDER BY seq"
            found.append(connection.execute(query).fetchall())
    assert found[0] == found[1]


def test_alone_it_writes_no_database(dumps: Path, tmp_path: Path) -> None:
    given = {
        "npu_path": str(dumps / "megatron_tp1pp1dp2" / "step0"),
        "bench_path": str(dumps / "megatron_tp1pp1" / "step0"),
    }
    exported = tmp_path / "new" / "exported"
    exported.mkdir(parents=True)
    done = run(
        tmp_path,
        *("--export-merged", str(exported), "--json"),
        **given,
        parallel_merge={"npu": DP2, "bench": ONE},
    )
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    # One replica of the bench side stands for both of the other side.
    assert summary["dumps"] == {"npu": 2, "bench": 1}
    assert summary["path"] == str(exported)
    assert sorted(path.name for path in exported.iterdir()) == ["bench", "npu"]
    assert not list(tmp_path.rglob("*.vis.db"))
    head = json.loads((exported / "npu/step0/rank1/dump.json").read_text(encoding="utf-8"))
    assert (head["task"], head["level"], head["merged_ranks"]) == ("statistics", "mix", [1])


def test_what_cannot_be_read_is_left_out_and_said(dumps: Path, tmp_path: Path) -> None:
    shutil.copytree(dumps / "megatron_tp1pp1dp2", tmp_path / "dump")
    (tmp_path / "dump/step0/rank1/dump.json").write_text('{"task": "statistics", "data"')
    given = {"npu_path": str(tmp_path / "dump/step0"), "parallel_merge": {"npu": DP2}}
    exported = tmp_path / "exported"
    done = run(tmp_path, "--export-merged", str(exported), **given)
    assert done.returncode == 3
    assert "is cut off or damaged" in done.stdout
    assert [path.name for path in exported.glob("npu/step0/*")] == ["rank0"]
    (tmp_path / "dump/step0/rank0/dump.json").write_text("")
    done = run(tmp_path, "--export-merged", str(tmp_path / "other"), "--quiet", **given)
    assert done.returncode == 1
    assert is_one_sentence(done.stderr.strip())
    assert not (tmp_path / "other").exists()


def make_file(path: Path) -> None:
    path.write_text("")


def make_full(path: Path) -> None:
    path.mkdir()
    (path / "npu").mkdir()


def make_broken_link(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (make_file, "is not a directory; choose another"),
        (make_full, "is not empty; empty it or choose another"),
        (make_broken_link, "is a broken link; choose another"),
    ],
)
@pytest.mark.parametrize("with_database", [False, True])
def test_bad_targets(
    make: Any, sentence: str, with_database: bool, dumps: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    make(target)
    given = {"npu_path": str(dumps / "megatron_tp1pp1_L0" / "step0")}
    options = ["--export-merged", str(target), "--quiet"]
    options += ["-o", str(tmp_path / "out")] if with_database else []
    done = run(tmp_path, *options, **given, parallel_merge={"npu": ONE})
    assert done.returncode == 1
    assert sentence in done.stderr
    assert is_one_sentence(done.stderr.strip())
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_target_that_cannot_be_written(dumps: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    given = {"npu_path": str(dumps / "megatron_tp1pp1_L0" / "step0")}
    target = tmp_path / "closed" / "target"
    done = run(
        tmp_path, "--export-merged", str(target), "--quiet", **given, parallel_merge={"npu": ONE}
    )
    assert done.returncode == 1
    assert "Cannot write into" in done.stderr
    assert is_one_sentence(done.stderr.strip())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "-o/--output-path is required"),
        (["--export-merged", "x", "-f"], "--fuzzy-match has no effect without a database"),
        (["--export-merged", "x", "-lm"], "--layer-mapping has no effect"),
        (["--export-merged", "x", "-oc"], "--overflow-check has no effect"),
        (["--export-merged", "x", "--output-name", "y"], "--output-name has no effect"),
        (["--export-merged", "x"], "add parallel_merge to compare.json"),
        (["--export-merged", "x", "-o", "y"], "add parallel_merge to compare.json"),
    ],
)
def test_wrong_usage(options: list[str], sentence: str, dumps: Path, tmp_path: Path) -> None:
    given = {"npu_path": str(dumps / "megatron_tp1pp1_L0" / "step0")}
    done = run(tmp_path, *options, **given)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_export_leaves_nothing_that_looks_finished(
    number: signal.Signals, dumps: Path, tmp_path: Path
) -> None:
    for step in range(6):
        (tmp_path / "dump").mkdir(exist_ok=True)
        (tmp_path / "dump" / f"step{step}").symlink_to(dumps / "megatron_tp2pp2" / "step0")
    layout = {"rank_size": 4, "tp": 2, "pp": 2}
    given = {"npu_path": str(tmp_path / "dump"), "parallel_merge": {"npu": layout}}
    exported = tmp_path / "exported"
    stopped = arguments(tmp_path, "--export-merged", str(exported), "--workers", "1", **given)
    command = [sys.executable, "-m", "msprobe_builder", *stopped]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "step 3" in line:
                break
        process.send_signal(number)
        said = process.stderr.read()
    if number == signal.SIGTERM:
        assert said.endswith("msprobe-build: Stopped; nothing was written.\n")
        assert not exported.exists()
    else:
        assert all(path.name.startswith(".") for path in exported.iterdir())
    # What a killed build left is not in the way of the next one.
    assert run(tmp_path, "--export-merged", str(exported), **given).returncode == 0
    assert len(list(exported.glob("npu/step*/rank0/dump.json"))) == 6


def test_a_merged_dump_that_was_tampered_with_is_still_read(dumps: Path, tmp_path: Path) -> None:
    given = {"npu_path": str(dumps / "megatron_tp1pp2" / "step0")}
    layout = {"rank_size": 2, "tp": 1, "pp": 2}
    exported = tmp_path / "exported"
    done = run(tmp_path, "--export-merged", str(exported), **given, parallel_merge={"npu": layout})
    assert done.returncode == 0
    place = exported / "npu/step0/rank0/construct.json"
    construct = json.loads(place.read_text(encoding="utf-8"))
    entries = [name for name in construct if name.startswith("Module.")]
    construct[entries[0]] = [entries[0], 0]  # inside itself
    for name in entries[10:20]:
        del construct[name]
    place.write_text(json.dumps(construct), encoding="utf-8")
    done = run(tmp_path, "-o", str(tmp_path / "out"), npu_path=str(place.parent))
    assert done.returncode == 0
    [database] = (tmp_path / "out").glob("*.vis.db")
    with closing(sqlite3.connect(database)) as connection:
        codes = {code for (code,) in connection.execute("SELECT code FROM diagnostic")}
    assert {"cycle", "call_not_in_construct"} <= codes
