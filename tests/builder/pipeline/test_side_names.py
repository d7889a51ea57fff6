"""What the two sides are called: as the user says, else as their folders, whatever these hold."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.side_names import LONGEST_NAME, names_of_folders, side_name
from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.meta import read_side_names

HOSTILE = "\x1b[2J<script>alert(1)</script>\u202e" + "x" * 10_000


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (("npu_dump", "bench_dump"), ("npu_dump", "bench_dump")),
        (("/runs/npu/dump", "/runs/gpu/dump"), ("npu", "gpu")),
        (("a/step0/rank0", "b/step0/rank0"), ("a", "b")),
        (("a/step0/rank0", "b"), ("a", "b")),
        (("run/rank0", "run/rank1"), ("rank0", "rank1")),
        (("run/step3", "run/step4/rank0"), ("step3", "rank0")),
        ((r"C:\runs\npu\dump", r"D:\runs\gpu\dump"), ("npu", "gpu")),
        (("alone/step0", ""), ("alone", "")),
        (("in_memory", "in_memory"), ("", "")),
        (("same", "same"), ("", "")),
        (("", ""), ("", "")),
    ],
)
def test_sides_are_called_by_what_tells_their_folders_apart(
    paths: tuple[str, str], names: tuple[str, str]
) -> None:
    assert names_of_folders(*paths) == names


@given(text=st.text() | st.just(HOSTILE))
def test_a_name_is_short_and_moves_no_cursor(text: str) -> None:
    name = side_name(text)
    assert len(name) <= LONGEST_NAME
    assert name.isprintable()
    assert side_name(name) == name


@given(paths=st.tuples(st.text(), st.text()))
def test_names_of_folders_differ_or_are_left_out(paths: tuple[str, str]) -> None:
    first, second = names_of_folders(*paths)
    assert first != second or not first


@pytest.fixture
def sides(dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs below folders of the same name."""
    monkeypatch.chdir(tmp_path)
    for name, run in (
        ("npu", "llama_statistics_wrong_attention_scale"),
        ("gpu", "llama_statistics"),
    ):
        Path(name).mkdir()
        Path(name, "dump").symlink_to(dumps / run)


def built(*words: str) -> tuple[str, str]:
    """The names in the database that is built so."""
    assert main(["npu/dump", "gpu/dump", "-o", "out", "--output-name", "x.vis.db", *words]) == 0
    with opened(Path("out/x.vis.db")) as connection:
        return read_side_names(connection)


@pytest.mark.usefixtures("sides")
def test_names_stand_wherever_the_sides_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert built() == ("npu", "gpu")
    said = capsys.readouterr().out
    assert "1,376 npu, 1,376 gpu" in said
    assert "Verdict   fault, npu against gpu." in said
    Path("out/x.vis.db").unlink()
    names = ("NPU 8 cards", "GPU")
    assert built("--names", *names) == names
    said = capsys.readouterr().out
    assert "1,376 NPU 8 cards, 1,376 GPU" in said
    assert main(["verdict", "out/x.vis.db"]) == 0
    assert "NPU 8 cards against GPU" in capsys.readouterr().out
    assert main(["report", "out/x.vis.db", "-o", "report.html"]) == 0
    assert "NPU 8 cards" in Path("report.html").read_text("utf-8")
    assert main(["page", "out/x.vis.db", "-o", "page.html"]) == 0
    assert "<title>NPU 8 cards ↔ GPU</title>" in Path("page.html").read_text("utf-8")


@pytest.mark.usefixtures("sides")
@pytest.mark.parametrize(
    ("language", "said"), [("en", "the norm of A 100."), ("zh", "的范数是 A 100 的")]
)
def test_sentences_speak_of_the_sides_by_their_names(
    language: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    built("--names", "NPU", "A 100", "--language", language)
    printed = " ".join(capsys.readouterr().out.split())
    for words in (["verdict", "out/x.vis.db"], ["report", "out/x.vis.db", "-o", "r.html"]):
        assert main([*words, "--language", language]) == 0
    again = " ".join(capsys.readouterr().out.split())
    for text in (printed, again, Path("r.html").read_text("utf-8")):
        assert said in text
        assert not re.search(r"the (reference|debug run)\b|标杆的(?!运行)|调试侧的", text)


@pytest.mark.usefixtures("sides")
def test_hostile_names_are_shown_harmlessly(capsys: pytest.CaptureFixture[str]) -> None:
    names = built("--names", HOSTILE, "'; DROP TABLE node; --")
    printed = capsys.readouterr().out
    assert all(one.isprintable() or one == "\n" for one in printed)
    assert names[1] == "'; DROP TABLE node; --"
    assert main(["report", "out/x.vis.db", "-o", "report.html"]) == 0
    assert "<script" not in Path("report.html").read_text("utf-8")
    with contextlib.closing(sqlite3.connect("out/x.vis.db")) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'npu_name'", (HOSTILE,))
        connection.commit()
    assert main(["verdict", "out/x.vis.db"]) == 0
    printed = capsys.readouterr().out
    assert all(one.isprintable() or one == "\n" for one in printed)


@pytest.mark.usefixtures("sides")
@pytest.mark.parametrize("names", [["one"], ["a", "b", "c"], ["same", "same"], ["a", ""]])
def test_names_that_do_not_fit_are_refused(
    names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["npu/dump", "gpu/dump", "-o", "out", "--names", *names]) == 2
    assert "--names" in capsys.readouterr().err
    assert not Path("out").exists()


@pytest.mark.usefixtures("sides")
def test_a_compare_json_names_nothing_and_takes_names() -> None:
    Path("compare.json").write_text(json.dumps({"npu_path": "npu/dump", "bench_path": "gpu/dump"}))
    done = ["-i", "compare.json", "-o", "out", "--output-name", "x.vis.db", "--quiet"]
    assert main([*done, "--names", "A", "B"]) == 0
    with opened(Path("out/x.vis.db")) as connection:
        assert read_side_names(connection) == ("A", "B")


def test_an_older_file_is_named_by_its_folders(tmp_path: Path, demo_database: Path) -> None:
    old = Path(shutil.copy(demo_database, tmp_path / "old.vis.db"))
    with contextlib.closing(sqlite3.connect(old)) as connection:
        connection.execute("DELETE FROM meta WHERE key IN ('npu_name', 'bench_name')")
        connection.commit()
    with opened(old) as connection:
        first, second = read_side_names(connection)
    assert second == "llama_statistics"
    assert first.startswith("llama_statistics_wro")
