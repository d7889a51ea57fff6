"""What a user may do wrong with tables: one sentence, and nothing is written."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import msprobe_builder
from msprobe_builder import BuildConfig, build
from msprobe_builder.base.errors import BuildError
from msprobe_builder.command.main import main
from msprobe_builder.tables.export import TableOptions, export_tables
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.conftest import BuildDatabase


@pytest.fixture
def database(dumps: Path, build_database: BuildDatabase) -> Path:
    folder = dumps / "llama_statistics_L0"
    return build_database(folder / "step0" / "rank", folder / "step1" / "rank")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.vis.db"], "does not exist"),
        (["compare.json"], "give a compare.json with -i"),
        ([], "Give either"),
        (["DATABASE", "-f"], "--fuzzy-match needs -i"),
        (["DATABASE", "--step", "7"], "no step 7; it has 0"),
        (["DATABASE", "--ranks", "--index", "Cosine"], "'Cosine' is no index"),
        (["DATABASE", "--ranks", "--format", "csv"], "--format does not go with --ranks"),
        (["DATABASE", "--ranks", "--rank", "0"], "--rank does not go with --ranks"),
        (["DATABASE", "--index", "NPU max"], "--index needs --ranks"),
    ],
)
def test_mistakes_are_said_in_a_sentence(
    database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    given = [str(database) if one == "DATABASE" else one for one in arguments]
    assert main(["table", *given, "-o", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_named(database: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(BuildError, match=f"{taken} is not a directory; choose another output"):
        export_tables(database, taken / "deeper", TableOptions(form="csv"))
    assert taken.read_text() == "mine"


def test_python_names_the_argument_that_leads_nowhere(tmp_path: Path) -> None:
    sides = {"npu_path": "a", "bench_path": "b"}
    for call, name in (
        (partial(msprobe_builder.compare, sides), "npu_path a"),
        (partial(msprobe_builder.compare_distributed, tmp_path, "b"), "bench_dump_dir b"),
    ):
        with pytest.raises(BuildError, match=f"{name} does not exist"):
            call(tmp_path / "out")
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("partner", ["'0'", "99999"])
def test_a_partner_that_is_none_is_said_in_a_sentence(
    partner: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = {f"Torch.add.{number}.forward": forward([tensor()], [tensor()]) for number in (0, 1)}
    npu = write_dump(tmp_path / "npu", calls)
    more = {"Torch.exp.0.forward": forward([], [tensor()]), **calls}
    bench = write_dump(tmp_path / "bench", more)
    path = build(BuildConfig(npu, bench), tmp_path / "out", workers=1).path
    with closing(sqlite3.connect(path)) as connection, connection:
        last = "(SELECT max(npu_node) FROM match)"
        connection.execute(f"UPDATE match SET bench_node = {partner} WHERE npu_node = {last}")
    capsys.readouterr()
    assert main(["table", str(path), "-o", str(tmp_path / "t"), "--format", "csv"]) == 1
    said = capsys.readouterr().err
    assert "is damaged" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("options", [["--format", "csv"], [], ["--no-advice"]])
def test_what_cannot_be_read_to_its_end_leaves_no_table(
    options: list[str], database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of several tables, also those that came before the damage."""
    damaged = tmp_path / "damaged.vis.db"
    shutil.copy(database, damaged)
    with closing(sqlite3.connect(damaged)) as connection:
        [[page]] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'verdict'")
        [[size]] = connection.execute("PRAGMA page_size")
    content = bytearray(damaged.read_bytes())
    content[(page - 1) * size : page * size] = b"\xff" * size
    damaged.write_bytes(content)
    out = tmp_path / "out"
    assert main(["table", str(damaged), "-o", str(out), *options]) == 1
    assert "is damaged" in capsys.readouterr().err
    assert not out.exists()
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    assert main(["table", str(damaged), "-o", str(out), *options]) == 1
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
