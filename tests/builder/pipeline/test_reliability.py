"""What is done stays done, and is said with the right exit status, whatever else happens."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from msprobe_builder import BuildConfig, BuildError, UsageError, build, export_table
from msprobe_builder.base import publish
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.metrics.tensor_file import TensorFileError, open_tensor
from msprobe_builder.pipeline import build as build_module
from msprobe_builder.pipeline.compare import PairJob, Report
from msprobe_builder.pipeline.executors.run import run_jobs
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.pipeline.progress import Progress
from tests.builder.integrity import check
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.cases import tried_first

NAME = "Functional.linear.0.forward"
RECORD = {NAME: forward([tensor()], [tensor()])}


@pytest.fixture
def compare(tmp_path: Path) -> Path:
    """compare.json of two runs that differ in many calls."""
    for name, norm in (("npu", 1.0), ("bench", 2.0)):
        data = {
            f"Functional.linear.{call}.forward": forward([], [tensor(norm)]) for call in range(5000)
        }
        write_dump(tmp_path / name, data)
    path = tmp_path / "compare.json"
    path.write_text(json.dumps({"npu_path": "npu", "bench_path": "bench"}), encoding="utf-8")
    return path


def shell(compare: Path, after: str) -> int:
    """Run the command in a shell, with what stands behind it; the command's own exit status."""
    command = f"{sys.executable} -m msprobe_builder -i {compare} -o out {after}"
    script = f"set -o pipefail; {command}"
    return subprocess.run(
        ["bash", "-c", script], cwd=compare.parent, check=False, stderr=subprocess.DEVNULL
    ).returncode


@pytest.mark.parametrize(
    "after",
    tried_first(
        [
            "| head -1 > said",
            "> /dev/full 2> /dev/full",
            ">&- 2>&-",
            "> /dev/full",
            "2> /dev/full > said",
            "2>&- > said",
            "--json | head -c 1 > said",
        ],
        3,
    ),
)
def test_a_written_file_is_a_success_whoever_listens(compare: Path, after: str) -> None:
    if "/dev/full" in after and not Path("/dev/full").is_char_device():
        pytest.skip("this system has no /dev/full; a shell would make a file of that name")
    assert shell(compare, after) == 0
    [database] = (compare.parent / "out").glob("*.vis.db")
    check(database).close()


def test_quiet_still_names_the_ranks_that_were_left_out(
    tmp_path: Path,
) -> None:
    for rank in range(2):
        write_dump(tmp_path / "npu" / f"rank{rank}", RECORD)
    (tmp_path / "npu" / "rank1" / "dump.json").write_text("{", encoding="utf-8")
    (tmp_path / "compare.json").write_text('{"npu_path": "npu"}', encoding="utf-8")
    assert shell(tmp_path / "compare.json", "--quiet 2> said") == 3
    said = (tmp_path / "said").read_text(encoding="utf-8")
    assert said.startswith("msprobe-build: Step 0 rank 1 was left out: ")
    assert "dump.json is cut off or damaged" in said


def test_two_builds_of_one_second_get_two_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npu = write_dump(tmp_path / "npu", RECORD)
    monkeypatch.setattr(build_module, "_timestamped", lambda _: "build_20260102030405.vis.db")
    results: list[Path] = []
    barrier = threading.Barrier(2)
    store = build_module.store_pair

    def meet(job: PairJob, shard: Path, report: Report, keeper: Keeper) -> None:
        barrier.wait()
        store(job, shard, report, keeper)

    monkeypatch.setattr(build_module, "store_pair", meet)
    # Temporary names carry the process: two threads stand for two processes.
    numbers = count(1_000_001)
    own: dict[int, int] = {}
    monkeypatch.setattr(os, "getpid", lambda: own.setdefault(threading.get_ident(), next(numbers)))
    monkeypatch.setattr(publish, "_is_running", lambda _: True)

    def run() -> None:
        results.append(build(BuildConfig(npu), tmp_path / "out").path)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in results) == [
        "build_20260102030405.vis.db",
        "build_20260102030405_1.vis.db",
    ]
    for path in results:
        check(path).close()
    monkeypatch.setattr(build_module, "store_pair", store)
    assert build(BuildConfig(npu), tmp_path / "out", name="a").path.name == "a.vis.db"
    with pytest.raises(BuildError, match="exists already"):
        build(BuildConfig(npu), tmp_path / "out", name="a")


def test_what_killed_builds_left_is_removed(tmp_path: Path) -> None:
    npu, out = write_dump(tmp_path / "npu", RECORD), tmp_path / "out"
    out.mkdir()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = publish._host()
    gone = [
        f"{start}.a.vis.db.{host}.{dead.pid}.building{end}"
        for start in ("", ".copy")  # the second is written when gaps are closed
        for end in ("", "-journal")  # SQLite's own, beside either
    ]
    kept = [
        f".a.vis.db.{host}.{os.getpid()}.building",  # of a build that runs
        f".a.vis.db.elsewhere-{host}.{dead.pid}.building",  # of another machine
        ".mine.building",
        "a.vis.db-journal-of-mine",
    ]
    for name in gone + kept:
        (out / name).write_bytes(b"")
    result = build(BuildConfig(npu), out, name="b")
    assert {path.name for path in out.iterdir()} == {*kept, result.path.name}


def read_on(dump: Path, change: Callable[[Path], object]) -> None:
    """Read a dump that changes when the first window of its text is read and the rest is not."""
    for number, _ in enumerate(DumpReader(dump)):
        if number == 10:
            change(dump)


def overwrite(dump: Path) -> None:
    dump.write_text(dump.read_text("utf-8").replace('"Max": 1.0', '"Max": 9.0'))


def replace_whole(dump: Path) -> None:
    shutil.copy(dump, dump.with_name("new"))
    dump.with_name("new").rename(dump)


@pytest.mark.parametrize("change", [overwrite, replace_whole])
def test_a_dump_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    data = {f"Functional.linear.{call}.forward": RECORD[NAME] for call in range(20_000)}
    dump = write_dump(tmp_path / "npu", data) / "dump.json"
    with pytest.raises(BuildError, match=r"changed while it was read; build again when"):
        read_on(dump, change)
    assert len(list(DumpReader(dump))) == len(data)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_unexpected_fault_of_one_rank_is_its_own(tmp_path: Path, workers: int) -> None:
    jobs = [PairJob(0, rank, tmp_path / f"rank{rank}", None) for rank in range(3)]
    outcomes = run_jobs(jobs, tmp_path, fail_on_rank_1, Progress(9, quiet=True), workers)
    assert [outcome.problem is None for outcome in outcomes] == [True, False, True]
    assert "unexpected ZeroDivisionError" in str(outcomes[1].problem)


def fail_on_rank_1(job: PairJob, shard: Path, _report: Report, _keeper: Keeper) -> None:
    if job.rank == 1:
        raise ZeroDivisionError
    shard.touch()


def test_a_flipped_bit_in_a_tensor_file_is_found(tmp_path: Path) -> None:
    values = torch.arange(4096, dtype=torch.float32)
    torch.save(values, tmp_path / "a.pt")
    assert open_tensor(tmp_path, "a.pt").piece((...,)).tolist() == values.tolist()
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        [storage] = [one for one in archive.infolist() if one.filename.endswith("data/0")]
    whole = (tmp_path / "a.pt").read_bytes()
    begin = whole.index(values.numpy().tobytes(), storage.header_offset)
    for place in range(begin, begin + storage.file_size, 1111):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        (tmp_path / "b.pt").write_bytes(damaged)
        os.utime(tmp_path / "b.pt", ns=(place, place))
        with pytest.raises(TensorFileError, match="its checksum is wrong"):
            open_tensor(tmp_path, "b.pt")


def test_tensors_are_found_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {NAME: forward([], [{**tensor(), "data_name": "a.npy"}])}
    folder = write_dump(tmp_path / "npu", record, task="tensor") / "dump_tensor_data"
    folder.mkdir()
    np.save(folder / "a.npy", np.ones((4, 4)))
    monkeypatch.chdir(tmp_path)
    path = build(BuildConfig(Path("npu"), Path("npu")), Path("out")).path
    with closing(sqlite3.connect(path)) as connection:
        places = connection.execute("SELECT DISTINCT tensor_dir FROM graph").fetchall()
    assert places == [(str(folder),)]


@pytest.mark.parametrize("name", ["../x.vis.db", "a/b", "", ".", "..", "a\0b", "x" * 300, "\ud800"])
def test_a_name_that_is_none_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="output name"):
        build(BuildConfig(tmp_path / "nowhere"), tmp_path, name=name)


def test_paths_may_be_texts(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", RECORD)
    config: Any = BuildConfig(str(npu))  # type: ignore[arg-type]
    result = build(config, str(tmp_path / "out"), name="a")  # type: ignore[arg-type]
    assert result.path == tmp_path / "out" / "a.vis.db"
    table: Any = str(tmp_path / "a.csv")
    assert export_table(str(result.path), table) == result.npu_nodes  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="There is no table 'node'"):
        export_table(result.path, tmp_path / "b.csv", "node")  # type: ignore[arg-type]


def test_what_looks_like_a_missing_rank_is_named(tmp_path: Path) -> None:
    for side, ranks in (("npu", ("rank0", "rank01")), ("bench", ("rank0", "rank1"))):
        for rank in ranks:
            write_dump(tmp_path / side / rank, RECORD)
    with pytest.raises(BuildError, match=r"lacks step 0 rank 1 \(rank01 has no such name\)"):
        build(BuildConfig(tmp_path / "npu", tmp_path / "bench"), tmp_path / "out")


def test_a_disk_without_room_for_a_second_copy_gets_the_file_with_its_gaps(
    compare: Path, tmp_path: Path
) -> None:
    assert shell(compare, "--output-name room") == 0
    whole = tmp_path / "out" / "room.vis.db"
    small, at_end = tmp_path / "small", tmp_path / "at_end"
    small.mkdir()
    at_end.mkdir()
    size = whole.stat().st_size * 8 // 5
    build_there = f"{sys.executable} -m msprobe_builder -i {compare} -o {small} --output-name tight"
    mount = f"mount -t tmpfs -o size={size} tmpfs {small}"
    mounted = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("no small disk can be made here")
    script = f"{mount} && {build_there} && cp -a {small}/. {at_end}"
    subprocess.run(["unshare", "-rm", "sh", "-c", script], check=True, capture_output=True)
    assert [path.name for path in at_end.iterdir()] == ["tight.vis.db"]
    tight = at_end / "tight.vis.db"
    assert tight.stat().st_size > whole.stat().st_size
    check(tight).close()
    with closing(sqlite3.connect(tight)) as connection:
        connection.execute("ATTACH ? AS other", (str(whole),))
        for table in ("node", "tensor", "comparison"):
            both = f"SELECT * FROM main.{table} EXCEPT SELECT * FROM other.{table}"
            assert connection.execute(both).fetchall() == []
