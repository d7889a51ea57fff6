"""A .trend.db holds what monitors, dumps and the reference tool say of each step and rank."""

from __future__ import annotations

import csv
import json
import lzma
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.main import main
from msprobe_builder.database.trends.open import APPLICATION_ID, opened_trend
from msprobe_builder.trend.build import build_trend
from tests.conftest import REPOSITORY

HEADER = "step,kind,name,norm,mean,max,min,zeros,nans,count"


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def write_monitor(directory: Path, ranks: int = 2, steps: int = 3) -> Path:
    for rank in range(ranks):
        place = directory / "monitor" / f"rank{rank}"
        place.mkdir(parents=True)
        lines = [HEADER]
        for step in range(steps):
            norm = 1 + step + 10 * rank
            lines.append(f"{step},weight,layers.0.weight,{norm},0.5,2,-1,0,0,8")
            lines.append(f"{step},activation,layers.0,{norm},nan,inf,-1,3,1,8")
        (place / "values_step0.csv").write_text("\n".join(lines) + "\n")
    return directory


def test_a_monitor_becomes_a_database(tmp_path: Path) -> None:
    source = write_monitor(tmp_path / "run")
    report = build_trend(source, tmp_path / "out", "run")
    assert (report.source, report.targets, report.ranks, report.steps) == ("monitor", 2, 2, 3)
    assert report.values == 2 * 2 * 3 * 6
    with raw(report.path) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = connection.execute(
            "SELECT kind, name, rank, step, norm, mean, max, zeros FROM trend_view"
            " WHERE step = 2 ORDER BY rank, kind"
        ).fetchall()
    assert rows == [
        ("activation", "layers.0", 0, 2, 3.0, "NaN", math.inf, 3.0),
        ("weight", "layers.0.weight", 0, 2, 3.0, 0.5, 2.0, 0.0),
        ("activation", "layers.0", 1, 2, 13.0, "NaN", math.inf, 3.0),
        ("weight", "layers.0.weight", 1, 2, 13.0, 0.5, 2.0, 0.0),
    ]


def test_dumps_of_many_steps_become_a_database(dumps: Path, tmp_path: Path) -> None:
    source = dumps / "ddp4_statistics"
    report = build_trend(source, tmp_path, "dump")
    assert (report.source, report.ranks, report.steps) == ("dump", 4, 2)
    content = json.loads((source / "step1" / "rank2" / "dump.json").read_text())["data"]
    with raw(report.path) as connection:
        for name in ("Functional.linear.0.forward", "Functional.linear.0.backward"):
            stem, _, direction = name.rpartition(".")
            wanted = content[name]["output"][0]
            [row] = connection.execute(
                "SELECT norm, mean, max, min, zeros, node FROM value JOIN target USING (target_id)"
                " WHERE kind = ? AND name = ? AND rank = 2 AND step = 1",
                (direction, f"{stem}:output.0"),
            ).fetchall()
            numbers = [wanted[key] for key in ("Norm", "Mean", "Max", "Min")]
            assert row == (*numbers, None, name)


def test_the_reference_database_is_read(tmp_path: Path) -> None:
    packed = REPOSITORY / "tests" / "data" / "reference" / "ddp4_statistics.trend.db.xz"
    old = tmp_path / "old.trend.db"
    old.write_bytes(lzma.decompress(packed.read_bytes()))
    report = build_trend(old, tmp_path / "out", "new")
    with raw(old) as theirs, raw(report.path) as ours:
        wanted = theirs.execute(
            "SELECT metric_name, target_name, rank, step, norm, mean, max, min FROM trend_data"
            " JOIN monitoring_targets USING (target_id) JOIN monitoring_metrics USING (metric_id)"
            " WHERE vpp_stage = 0 AND micro_step = 0"
        ).fetchall()
        found = ours.execute(
            "SELECT kind, name, rank, step, norm, mean, max, min FROM trend_view"
            " WHERE name NOT LIKE '%@%'"
        ).fetchall()
    assert len(wanted) > 1000
    assert sorted(wanted) == sorted(found)


def test_what_is_no_source_is_refused_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for content, said in ((b"", "is empty"), (b"x" * 200, "is not a SQLite database")):
        (tmp_path / "a.trend.db").write_bytes(content)
        with pytest.raises(BuildError, match=said):
            build_trend(tmp_path / "a.trend.db", out)
    with pytest.raises(UsageError, match="does not exist"):
        build_trend(tmp_path / "nothing", out)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BuildError, match="holds no dump"):
        build_trend(tmp_path / "empty", out)
    source = write_monitor(tmp_path / "run")
    table = source / "monitor" / "rank1" / "values_step0.csv"
    table.write_text(table.read_text().replace("2,-1,0,0,8", "two,-1,0,0,8", 1))
    assert main(["trend", str(source), "-o", str(out)]) == 1
    assert "values_step0.csv is damaged in row 2" in capsys.readouterr().err
    assert not out.exists()


def test_only_a_file_of_ours_is_opened(tmp_path: Path, demo_database: Path) -> None:
    report = build_trend(write_monitor(tmp_path / "run"), tmp_path, "run")
    with opened_trend(report.path) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM value")
    with (
        pytest.raises(BuildError, match="not one of msprobe-build trend"),
        opened_trend(demo_database),
    ):
        pass
    with raw(report.path) as connection:
        connection.execute("PRAGMA user_version = 3")
    with (
        pytest.raises(BuildError, match="has schema version 3, this program reads 1 to 2"),
        opened_trend(report.path),
    ):
        pass
    with raw(report.path) as connection:
        connection.execute("PRAGMA user_version = 2")
        connection.executescript("DROP TABLE step; CREATE VIEW step AS SELECT 1 AS step;")
    # Nobody makes matches by hand in it.
    again = r"damaged: .*\. Build it again with msprobe-build\.\Z"
    with pytest.raises(BuildError, match=again), opened_trend(report.path):
        pass


def test_rows_of_the_table_are_those_of_the_record(tmp_path: Path) -> None:
    source = write_monitor(tmp_path / "run", ranks=1, steps=50)
    report = build_trend(source, tmp_path, "run")
    with (source / "monitor" / "rank0" / "values_step0.csv").open() as file:
        wanted = sorted((int(row["step"]), float(row["norm"])) for row in csv.DictReader(file))
    with raw(report.path) as connection:
        assert (
            wanted
            == connection.execute("SELECT step, norm FROM value ORDER BY step, norm").fetchall()
        )


def test_a_source_without_values_leaves_no_directory(tmp_path: Path) -> None:
    source = tmp_path / "run" / "monitor" / "rank0" / "values_step0.csv"
    source.parent.mkdir(parents=True)
    source.write_text("step,kind\n1")
    with pytest.raises(BuildError):
        build_trend(tmp_path / "run", tmp_path / "new" / "logs")
    (tmp_path / "old").mkdir()
    with pytest.raises(BuildError):
        build_trend(tmp_path / "run", tmp_path / "old")
    assert (tmp_path / "old").is_dir()
    assert not (tmp_path / "new" / "logs").exists()
