"""What the catalog says about files, and which files it lists."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import EXAMPLE, Ask, catalog, client_of
from tests.plugin.example import write_example


def test_a_file_is_described_by_its_meta_and_its_graphs(ask: Ask, logdir: Path) -> None:
    found = catalog(ask)
    assert found.logdir == str(logdir)
    [file] = found.files
    assert file.file == EXAMPLE
    assert file.size == (logdir / EXAMPLE).stat().st_size
    assert file.modified == (logdir / EXAMPLE).stat().st_mtime
    assert not file.HasField("problem")
    assert file.is_comparison
    assert (file.task, file.npu_path, file.bench_path) == ("statistics", "/runs/npu", "/runs/bench")
    assert file.created_at == "2026-01-02T03:04:05+00:00"
    assert file.overflow_checked
    assert file.writable


def test_graphs_count_their_nodes_by_grade(ask: Ask) -> None:
    [file] = catalog(ask).files
    shown = [
        (one.step, one.rank, one.micro_steps, one.npu_nodes, one.bench_nodes, one.worst_grade)
        for one in file.graphs
    ]
    assert shown == [
        (0, 0, 2, 7, 6, pb.GRADE_SEVERE),
        (1, 0, 1, 2, 2, pb.GRADE_SERIOUS),
        (1, 2, 1, 2, 0, pb.GRADE_UNGRADED),
    ]
    # Root included: it is ungraded in the first two graphs and unmatched in the last.
    assert [list(one.grade_counts) for one in file.graphs] == [
        [1, 1, 1, 1, 0, 1, 2],
        [1, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 2],
    ]


def test_the_configurations_of_both_runs_are_told_where_there_are_any(
    ask: Ask, logdir: Path
) -> None:
    [file] = catalog(ask).files
    assert not file.HasField("configuration")
    with closing(sqlite3.connect(logdir / EXAMPLE)) as connection, connection:
        connection.execute("INSERT INTO configuration VALUES (1, NULL, 'warning', 301, 'Look.')")
        connection.execute("INSERT INTO configuration VALUES (2, 'env', 'warning', 301, 'a is b')")
        connection.executemany(
            "INSERT INTO configuration_difference VALUES (2, ?, 'warning', ?, NULL, '', 'x')",
            [(place, f"NAME_{place}") for place in range(1, 302)],
        )
    [file] = catalog(ask).files
    assert file.configuration.outcome == "warning"
    assert file.configuration.said == '[{"code":"text","text":"Look."}]'
    [part] = file.configuration.parts
    assert (part.part, part.outcome, part.differences) == ("env", "warning", 301)
    assert [one.name for one in part.shown] == [f"NAME_{place}" for place in range(1, 201)]
    # Not there and empty are two things.
    assert not part.shown[0].HasField("npu_value")
    assert part.shown[0].HasField("bench_value")


def test_bands_and_diagnostics_are_those_of_the_file(ask: Ask) -> None:
    [file] = catalog(ask).files
    assert [(band.grade, band.name, band.colour) for band in file.bands][:2] == [
        (pb.GRADE_UNGRADED, "ungraded", "#ffffff"),
        (pb.GRADE_OK, "ok", "#000001"),
    ]
    severe = file.bands[pb.GRADE_SEVERE]
    assert (severe.low, severe.high) == (0.8, 1.0)
    assert not file.bands[pb.GRADE_UNMATCHED].HasField("low")
    [noticed] = file.diagnostics
    assert (noticed.severity, noticed.code, noticed.count) == ("warning", "no_record", 2)
    assert (noticed.subject, noticed.side, noticed.step) == ("Torch.softmax.0.forward", 1, 0)
    assert not noticed.HasField("rank")


def test_files_are_found_at_any_depth_and_sorted_by_number(tmp_path: Path) -> None:
    names = ["b/run2.vis.db", "b/run10.vis.db", "A/deep/er/est.vis.db", "zero.vis.db"]
    for name in names:
        write_example(tmp_path / name)
    write_example(tmp_path / ".hidden" / "x.vis.db")
    (tmp_path / "folder.vis.db").mkdir()
    (tmp_path / "b" / "run3.vis.db.bak").write_bytes(b"")
    assert [file.file for file in catalog(client_of(tmp_path)).files] == [
        "A/deep/er/est.vis.db",
        "b/run2.vis.db",
        "b/run10.vis.db",
        "zero.vis.db",
    ]


def test_a_refresh_finds_new_files_and_forgets_old_ones(ask: Ask, logdir: Path) -> None:
    assert [file.file for file in catalog(ask).files] == [EXAMPLE]
    write_example(logdir / "new.vis.db")
    assert [file.file for file in catalog(ask).files] == ["new.vis.db", EXAMPLE]
    (logdir / EXAMPLE).unlink()
    assert [file.file for file in catalog(ask).files] == ["new.vis.db"]


def test_links_below_the_log_directory_count_and_cycles_end(tmp_path: Path) -> None:
    elsewhere = write_example(tmp_path / "elsewhere" / "far.vis.db")
    logs = tmp_path / "logs"
    (logs / "inner").mkdir(parents=True)
    (logs / "inner" / "up").symlink_to(logs)
    (logs / "linked").symlink_to(elsewhere.parent)
    (logs / "single.vis.db").symlink_to(elsewhere)
    (logs / "broken.vis.db").symlink_to(tmp_path / "nowhere")
    names = [file.file for file in catalog(client_of(logs)).files]
    assert names == ["linked/far.vis.db", "single.vis.db"]


@pytest.mark.parametrize("logdir", ["", "gs://bucket/logs", "/no/such/directory", "~nobody/logs"])
def test_a_log_directory_that_is_none_has_no_files(logdir: str) -> None:
    assert list(catalog(client_of(logdir)).files) == []


def test_the_revision_changes_with_the_content(ask: Ask, logdir: Path) -> None:
    [before] = catalog(ask).files
    with sqlite3.connect(logdir / EXAMPLE) as database:
        database.execute("UPDATE meta SET value = 'md5' WHERE key = 'task'")
    database.close()
    [after] = catalog(ask).files
    assert after.revision != before.revision
    assert after.task == "md5"


def test_the_revision_changes_when_a_file_is_put_in_its_place(ask: Ask, logdir: Path) -> None:
    [before] = catalog(ask).files
    status = (logdir / EXAMPLE).stat()
    other = write_example(logdir / "other")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(logdir / EXAMPLE)
    [after] = catalog(ask).files
    assert (after.size, after.modified) == (before.size, before.modified)
    assert after.revision != before.revision
