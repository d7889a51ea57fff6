"""msprobe-build export: a table that says what the database says, digit for digit."""

from __future__ import annotations

import csv
import gzip
import io
import math
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import Selection, export_table
from msprobe_builder.command.main import main
from tests.conftest import BuildDatabase

STATISTICS = ("max", "min", "mean", "norm")
# As docs/design/metrics.md lists them; bit k of nan_flags is that of the k-th.
METRICS = (
    *(f"{name}_diff" for name in STATISTICS),
    *(f"{name}_relative_err" for name in STATISTICS),
    *("cosine", "euclidean_distance", "max_abs_err", "max_elementwise_relative_err"),
    *("one_thousandth_ratio", "five_thousandths_ratio"),
)
HOSTILE = 'a,"b"\r\n\tc'


@pytest.fixture(scope="module")
def database(dumps: Path, build_database: BuildDatabase) -> Path:
    """Two steps of four ranks, compared, with overflow."""
    name = "ddp4_statistics"
    return build_database(dumps / f"{name}_wrong_attention_scale", dumps / name, "-oc")


def export(database: Path, output: Path, *options: str) -> list[dict[str, str]]:
    assert main(["export", str(database), "-o", str(output), *options]) == 0
    content = output.read_bytes()
    if output.suffix == ".gz":
        content = gzip.decompress(content)
    delimiter = "\t" if ".tsv" in output.name else ","
    return list(csv.DictReader(io.StringIO(content.decode(), newline=""), delimiter=delimiter))


def written(value: object) -> str:
    """How a value of the database reads in a file."""
    return "" if value is None else str(value)


def rows_of(database: Path, query: str, *bound: object) -> list[dict[str, object]]:
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query, bound)]


def test_every_node_has_its_line(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = export(database, tmp_path / "nodes.csv")
    expected = rows_of(database, "SELECT * FROM node_view ORDER BY step, rank, side = 'bench', seq")
    assert capsys.readouterr().out == f"{tmp_path / 'nodes.csv'}: {len(expected)} rows\n"
    names = set(rows[0]) & set(expected[0])
    assert names >= {"step", "rank", "side", "seq", "name", "parent", "matched", "error", "grade"}
    assert [{name: row[name] for name in names} for row in rows] == [
        {name: written(row[name]) for name in names} for row in expected
    ]


def test_every_tensor_stands_beside_the_one_it_was_compared_with(
    database: Path, tmp_path: Path
) -> None:
    rows = export(database, tmp_path / "tensors.tsv", "--table", "tensors")
    tensors = rows_of(database, "SELECT * FROM tensor_view")
    of_npu = [row for row in tensors if row["side"] == "npu"]
    compared = rows_of(database, "SELECT count(*) AS pairs FROM comparison")[0]["pairs"]
    assert compared == sum(1 for row in rows if row["npu_name"] and row["bench_name"])
    key = ("step", "rank", "node", "direction", "name")
    known = {(row["side"], *(str(row[name]) for name in key)): row for row in tensors}
    for row in rows:
        for side in ("npu", "bench"):
            if not row[f"{side}_name"]:
                assert not any(row[f"{side}_{statistic}"] for statistic in STATISTICS)
                continue
            place = (row["step"], row["rank"], row[f"{side}_node"], row["section"])
            tensor = known[(side, *place, row[f"{side}_name"])]
            for name in ("dtype", "shape", *STATISTICS):
                assert row[f"{side}_{name}"] == written(tensor[name])
            if side == "npu":
                for name in (*METRICS, "md5_equal", "error", "note"):
                    assert row[name] == written(tensor[name])
    sides = [sum(1 for row in rows if row[f"{side}_name"]) for side in ("npu", "bench")]
    assert sides == [len(of_npu), len(tensors) - len(of_npu)]


def test_what_is_not_a_number_and_what_is_missing_can_be_told_apart(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    broken = build_database(
        dumps / "llama_statistics_nan_weight" / "step0" / "rank",
        dumps / "llama_statistics" / "step0" / "rank",
    )
    rows = export(broken, tmp_path / "tensors.csv.gz", "--table", "tensors")
    values = [row["npu_mean"] for row in rows]
    assert {"NaN", "-inf", ""} <= set(values)
    missing = rows_of(
        broken,
        "SELECT tensor.node_id FROM tensor JOIN node_view USING (node_id)"
        " WHERE side = 'npu' AND mean IS NULL AND NOT nan_flags & 4",
    )
    unmatched = sum(1 for row in rows if not row["npu_name"])
    assert values.count("") == len(missing) + unmatched


def test_each_metric_stands_in_its_column(database: Path, tmp_path: Path) -> None:
    """Pair k has only metric k, pair k + 14 a NaN in its place."""
    marked = Path(shutil.copy(database, tmp_path))
    with closing(sqlite3.connect(marked)) as connection, connection:
        nothing = ", ".join(f"{name} = NULL" for name in METRICS)
        connection.execute(f"UPDATE comparison SET {nothing}, nan_flags = 0")
        keys = connection.execute(
            "SELECT npu_node, npu_ordinal FROM comparison ORDER BY npu_node, npu_ordinal"
        ).fetchmany(2 * len(METRICS))
        for place, name in enumerate(METRICS):
            row = "WHERE npu_node = ? AND npu_ordinal = ?"
            connection.execute(f"UPDATE comparison SET {name} = {place}.5 {row}", keys[place])
            flag = f"UPDATE comparison SET nan_flags = {1 << place} {row}"
            connection.execute(flag, keys[place + len(METRICS)])
    rows = export(marked, tmp_path / "marked.csv", "--table", "tensors")
    pairs = [row for row in rows if row["npu_name"] and row["bench_name"]]
    for place, name in enumerate(METRICS):
        for at, value in ((place, f"{place}.5"), (place + len(METRICS), "NaN")):
            filled = {column: pairs[at][column] for column in METRICS if pairs[at][column]}
            assert filled == {name: value}


def test_options_choose_rows(database: Path, tmp_path: Path) -> None:
    options = ("--side", "npu", "--step", "1", "--rank", "0", "--rank", "3")
    rows = export(
        database, tmp_path / "some.tsv", *options, "--grade", "moderate", "--name", "LINear"
    )
    expected = rows_of(
        database,
        "SELECT step, rank, name FROM node_view WHERE side = 'npu' AND step = 1 AND rank IN (0, 3)"
        " AND grade = 'moderate' AND name LIKE '%linear%' ORDER BY rank, seq",
    )
    assert expected
    assert [(row["step"], row["rank"], row["name"]) for row in rows] == [
        (str(row["step"]), str(row["rank"]), row["name"]) for row in expected
    ]


def test_the_same_from_python(database: Path, tmp_path: Path) -> None:
    selection = Selection(sides=("bench",), steps=(0,), ranks=(2,))
    output = tmp_path / "new" / "bench.csv"
    count = export_table(database, output, "nodes", selection)
    expected = rows_of(
        database,
        "SELECT count(*) AS nodes FROM node_view WHERE side = 'bench' AND step = 0 AND rank = 2",
    )
    assert count == expected[0]["nodes"]
    assert len(output.read_text().splitlines()) == count + 1


def test_whatever_a_name_holds_stays_in_its_cell(database: Path, tmp_path: Path) -> None:
    hostile = Path(shutil.copy(database, tmp_path))
    with closing(sqlite3.connect(hostile)) as connection, connection:
        connection.execute("UPDATE text SET value = value || ?", (HOSTILE,))
    for name in ("nodes.csv", "nodes.tsv"):
        rows = export(hostile, tmp_path / name)
        assert len(rows) == len(rows_of(hostile, "SELECT 1 FROM node"))
        assert all(HOSTILE in row["name"] for row in rows)


def test_no_name_is_a_formula(demo_database: Path, tmp_path: Path) -> None:
    hostile = Path(shutil.copy(demo_database, tmp_path))
    with closing(sqlite3.connect(hostile)) as connection, connection:
        connection.execute(
            "UPDATE text SET value = substr(?, text_id % 5 + 1, 1) || ? || value",
            ("=+-@\t", "cmd|' /C calc'!A0"),
        )
    for table in ("nodes", "tensors"):
        content = (tmp_path / f"{table}.csv", "--table", table)
        for row in export(hostile, *content):
            for cell in row.values():
                assert not cell.startswith(("=", "@", "\t", "\r"))
                assert (
                    not cell.startswith(("+", "-")) or math.isfinite(float(cell)) or cell == "-inf"
                )


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("-o", "nodes.xlsx"), 2, "none of the suffixes .csv, .tsv, .csv.gz, .tsv.gz"),
        (("-o", "nodes.csv", "--step", "7"), 2, "no step 7; it has 0, 1."),
        (("-o", "nodes.csv", "--rank", "9"), 2, "no rank 9; it has 0, 1, 2, 3."),
        (("-o", "taken/nodes.csv"), 1, "taken is not a directory"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    status: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    assert main(["export", str(database), *options]) == status
    error = capsys.readouterr().err
    assert error.startswith("msprobe-build: ")
    assert said in error
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_table_is_complete_or_as_it_was(database: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copy(database, tmp_path))
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute("DROP TABLE comparison")
    output = tmp_path / "tensors.csv"
    output.write_text("before")
    assert main(["export", str(damaged), "-o", str(output), "--table", "tensors"]) == 1
    assert output.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([damaged.name, output.name])
