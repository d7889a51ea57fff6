"""Directory layouts, and what is said of two that do not fit."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, BuildError, BuildOptions, build
from msprobe_builder.pipeline.build import BuildResult
from tests.builder.small_dumps import forward, tensor, write_dump

LENIENT = BuildOptions(allow_missing=True)


def dump(directory: Path, *, task: str = "statistics") -> Path:
    return write_dump(
        directory, {"Torch.add.0.forward": forward([tensor()], [tensor()])}, task=task
    )


def dumps_at(root: Path, *places: str) -> Path:
    for place in places:
        dump(root / place)
    return root


def built(folder: Path, npu: Path, bench: Path | None = None, lenient: bool = False) -> BuildResult:
    options = LENIENT if lenient else BuildOptions()
    return build(BuildConfig(npu, bench, options=options), folder / "out", workers=1)


def places(result: BuildResult) -> list[tuple[int, int, int]]:
    connection = sqlite3.connect(result.path)
    rows = connection.execute("SELECT side, step, rank FROM graph ORDER BY 1, 2, 3").fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        ([""], [(0, 0)]),
        (["rank"], [(0, 0)]),
        (["rank0", "rank2"], [(0, 0), (0, 2)]),
        (["rank0", "rank2", "rank10"], [(0, 0), (0, 2), (0, 10)]),
        (["step0/rank", "step1/rank"], [(0, 0), (1, 0)]),
        (["step2/rank0", "step10/rank0", "step10/rank3"], [(2, 0), (10, 0), (10, 3)]),
        (["step/rank"], [(0, 0)]),
        (["step0", "step1"], [(0, 0), (1, 0)]),
        (["rank7"], [(0, 7)]),
        (["proc1234"], [(0, 0)]),
        (["step0/proc12", "step1/proc7"], [(0, 0), (1, 0)]),
    ],
)
def test_layouts(tmp_path: Path, directories: list[str], expected: list[tuple[int, int]]) -> None:
    npu = dumps_at(tmp_path / "npu", *directories)
    assert places(built(tmp_path, npu)) == [(0, *place) for place in expected]
    bench = dumps_at(tmp_path / "bench", *directories)
    both = [(side, *place) for side in (0, 1) for place in expected]
    assert places(build(BuildConfig(npu, bench), tmp_path / "both", workers=1)) == both


def test_links_spaces_and_characters_of_any_language(tmp_path: Path) -> None:
    dumps_at(tmp_path / "数据 und Größe #1", "real rank")
    npu = tmp_path / "my links"
    npu.mkdir()
    (npu / "rank0").symlink_to(tmp_path / "数据 und Größe #1" / "real rank")
    (npu / "rank1").symlink_to("nowhere")
    link = tmp_path / "a link"
    link.symlink_to(npu)
    result = built(tmp_path / "out put", link)
    assert places(result) == [(0, 0, 0)]
    assert [one.subject for one in result.diagnostics] == ["rank1"]


def test_inputs_are_only_read(tmp_path: Path) -> None:
    npu = dumps_at(tmp_path / "npu", "rank0", "rank1")
    before = {path: path.stat().st_mtime_ns for path in [npu, *npu.rglob("*")]}
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    built(tmp_path, npu, npu)
    assert {path: path.stat().st_mtime_ns for path in [npu, *npu.rglob("*")]} == before


def test_of_several_processes_without_rank_one_must_be_chosen(tmp_path: Path) -> None:
    npu = dumps_at(tmp_path / "npu", "step0/proc12", "step0/proc7")
    with pytest.raises(BuildError, match=r"several processes without rank, proc12 and proc7; give"):
        built(tmp_path, npu)


def test_strays_are_reported(tmp_path: Path) -> None:
    npu = dumps_at(tmp_path / "npu", "step0/rank0", "step1/rank0")
    (npu / "readme.txt").write_text("notes")
    (npu / "step1" / "rank01").mkdir()
    (npu / "step1" / "logs").mkdir()
    (npu / "step2").mkdir()  # of a run that still writes
    result = built(tmp_path, npu)
    [stray] = [one for one in result.diagnostics if one.code == "stray_entry"]
    assert (stray.count, stray.subject, stray.severity) == (4, "readme.txt", "info")
    assert places(result) == [(0, 0, 0), (0, 1, 0)]


@pytest.mark.parametrize(
    ("npu", "bench", "sentence"),
    [
        (["rank0", "rank1"], ["rank0"], "bench_path lacks step 0 rank 1"),
        (["rank0"], ["rank0", "rank1"], "npu_path lacks step 0 rank 1"),
        (["step0/rank0"], ["step1/rank0"], "no step and rank in common"),
        (["rank0", "rank1"], ["step0/rank0", "step1/rank0"], "lacks step 1 rank 0; bench_path"),
        (["rank0", "rank1"], [""], "npu_path .* holds 2 ranks or steps and bench_path"),
        ([""], ["rank0", "rank1"], "bench_path .* holds 2 ranks or steps and npu_path"),
    ],
)
def test_sides_that_do_not_fit(
    tmp_path: Path, npu: list[str], bench: list[str], sentence: str
) -> None:
    left, right = dumps_at(tmp_path / "npu", *npu), dumps_at(tmp_path / "bench", *bench)
    with pytest.raises(BuildError, match=sentence) as caught:
        built(tmp_path, left, right)
    assert str(caught.value).endswith(".")
    assert not (tmp_path / "out").exists()


def test_many_missing_ranks_are_counted(tmp_path: Path) -> None:
    left = dumps_at(tmp_path / "npu", *(f"rank{rank}" for rank in range(12)))
    right = dumps_at(tmp_path / "bench", "rank0")
    with pytest.raises(BuildError, match=r"rank 8 and 3 more; .*--allow-missing"):
        built(tmp_path, left, right)


def test_allow_missing_compares_the_common_ones_and_says_so(tmp_path: Path) -> None:
    left = dumps_at(tmp_path / "npu", "rank0", "rank1", "rank2")
    right = dumps_at(tmp_path / "bench", "rank1", "rank3")
    result = built(tmp_path, left, right, lenient=True)
    assert places(result) == [(0, 0, 1), (1, 0, 1)]
    missing = [one for one in result.diagnostics if one.code == "missing_rank"]
    assert [(one.side, one.count) for one in missing] == [(0, 1), (1, 2)]
    assert "step 0 rank 3" in missing[0].message
    assert "step 0 rank 0, step 0 rank 2" in missing[1].message
    assert result.failed == []
    meta = dict(sqlite3.connect(result.path).execute("SELECT * FROM meta"))
    assert meta["complete"] == "0"


def test_allow_missing_still_needs_something_in_common(tmp_path: Path) -> None:
    left = dumps_at(tmp_path / "npu", "rank0")
    right = dumps_at(tmp_path / "bench", "rank1")
    with pytest.raises(BuildError, match="no step and rank in common"):
        built(tmp_path, left, right, lenient=True)


@pytest.mark.parametrize("single", ["npu", "bench"])
def test_a_single_rank_takes_its_place_from_the_other_side(tmp_path: Path, single: str) -> None:
    alone = dump(tmp_path / "alone")
    tree = dumps_at(tmp_path / "tree", "step3/rank5")
    pair = (alone, tree) if single == "npu" else (tree, alone)
    assert places(built(tmp_path, *pair)) == [(0, 3, 5), (1, 3, 5)]


@pytest.mark.parametrize("workers", [1, 2])
def test_one_broken_rank_of_several(tmp_path: Path, workers: int) -> None:
    npu = dumps_at(tmp_path / "npu", "rank0", "rank1", "rank2")
    (npu / "rank1" / "dump.json").write_text('{"task": "statistics", "data": {"Torch.ad')
    result = build(BuildConfig(npu), tmp_path / "out", workers=workers)
    assert places(result) == [(0, 0, 0), (0, 0, 2)]
    [(place, reason)] = result.failed
    assert place == (0, 1)
    assert "rank1/dump.json is cut off" in reason
    [finding] = [one for one in result.diagnostics if one.code == "rank_failed"]
    assert (finding.severity, finding.rank, finding.message) == ("error", 1, reason)
    assert list((tmp_path / "out").iterdir()) == [result.path]


@pytest.mark.parametrize("missing", ["dump.json", "construct.json"])
def test_two_files_are_needed(tmp_path: Path, missing: str) -> None:
    npu = dump(tmp_path / "npu")
    (npu / missing).unlink()
    with pytest.raises(BuildError, match=missing):
        built(tmp_path, npu)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("sides", [("npu",), ("bench",), ("npu", "bench")])
def test_stacks_may_be_missing(tmp_path: Path, sides: tuple[str, ...]) -> None:
    for side in ("npu", "bench"):
        dump(tmp_path / side)
    for side in sides:
        (tmp_path / side / "stack.json").unlink()
    result = built(tmp_path, tmp_path / "npu", tmp_path / "bench")
    notes = [one for one in result.diagnostics if one.code == "no_stacks"]
    assert [one.side for one in notes] == [("npu", "bench").index(side) for side in sides]
    assert result.matched == result.npu_nodes


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_left_when_every_rank_is_broken(tmp_path: Path, workers: int) -> None:
    npu = dumps_at(tmp_path / "npu", "rank0", "rank1")
    for rank in (0, 1):
        (npu / f"rank{rank}" / "construct.json").write_text("{}")
    with pytest.raises(BuildError, match="L0 or mix"):
        build(BuildConfig(npu), tmp_path / "out", workers=workers)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_rank_of_another_kind_is_left_out(tmp_path: Path) -> None:
    dump(tmp_path / "npu" / "rank0")
    dump(tmp_path / "npu" / "rank1", task="structure")
    result = built(tmp_path, tmp_path / "npu")
    assert places(result) == [(0, 0, 0)]
    [(place, reason)] = result.failed
    assert place == (0, 1)
    assert "of task structure" in reason


def test_two_directories_of_one_rank(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="are both rank 0 of step 0"):
        built(tmp_path, dumps_at(tmp_path / "npu", "rank", "rank0"))


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_paths_without_dump(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BuildError, match=f"npu_path .*{name} "):
        built(tmp_path, tmp_path / name)


def test_duplicate_entries_are_counted(tmp_path: Path) -> None:
    npu = dump(tmp_path / "npu")
    record = json.dumps(forward([tensor()], [tensor()]))
    name = '"Torch.add.0.forward"'
    (npu / "dump.json").write_text(
        f'{{"task": "statistics", "data": {{{name}: {record}, {name}: {record}}}}}'
    )
    (npu / "construct.json").write_text(f'{{{name}: null, "a": null, {name}: "a"}}')
    result = built(tmp_path, npu)
    found = {one.code: (one.count, one.subject) for one in result.diagnostics}
    assert found["malformed_record"] == (1, "Torch.add.0.forward")
    assert found["call_twice_in_construct"] == (1, "Torch.add.0.forward")
    connection = sqlite3.connect(result.path)
    query = "SELECT parent FROM node_view WHERE name = 'Torch.add.0.forward'"
    assert connection.execute(query).fetchall() == [("a",)]


def test_values_and_stacks_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    data = {"Torch.add.0.forward": {"input_args": 7, "output": "x"}}
    npu = write_dump(tmp_path / "npu", data, stack={"a": 1, "b": [[1], []]})
    found = {one.code: one.count for one in built(tmp_path, npu).diagnostics}
    assert found == {"unreadable_value": 2, "malformed_stack": 2}
