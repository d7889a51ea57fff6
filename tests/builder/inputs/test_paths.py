"""Whatever path a command is given, it answers in a sentence and leaves nothing half-written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from tests.builder.small_dumps import forward, tensor, write_dump

LONG = "a" * 300  # no file system takes such a name


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_dump(tmp_path / "dump", {"Torch.add.0.forward": forward([tensor()], [tensor()])})
    (tmp_path / "compare.json").write_text('{"npu_path": "dump", "bench_path": "dump"}', "utf-8")
    (tmp_path / "file").write_text("", "utf-8")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that cannot do what it was asked for says."""
    capsys.readouterr()
    assert main(arguments) in (1, 2)
    output = capsys.readouterr()
    [line] = output.err.splitlines()
    assert output.out == ""
    assert line.endswith(".")
    assert len(line) < 600
    return line.replace("msprobe-build: ", "")


READS: dict[str, Callable[[str], list[str]]] = {
    "report": lambda path: ["report", path, "-o", "o.html"],
    "page": lambda path: ["page", path, "-o", "o.html"],
    "export": lambda path: ["export", path, "-o", "o.csv"],
    "table": lambda path: ["table", path, "-o", "o", "--format", "csv"],
    "verdict": lambda path: ["verdict", path],
    "verify": lambda path: ["verify", path],
    "upgrade": lambda path: ["upgrade", path, "-o", "o.vis.db"],
    "import": lambda path: ["import", path],
    "append": lambda path: ["-i", "compare.json", "--append", path],
}


@pytest.mark.parametrize("command", READS.values(), ids=READS)
def test_what_is_no_database_is_called_what_it_is(
    command: Callable[[str], list[str]], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(command("dump"), capsys) == "dump is a directory; give a .vis.db file."
    assert said(command("."), capsys) == ". is a directory; give a .vis.db file."
    assert said(command(""), capsys) == ". is a directory; give a .vis.db file."
    assert said(command("none"), capsys) == "none does not exist; give a .vis.db file."
    assert said(command("loop"), capsys) == "loop does not exist; give a .vis.db file."
    assert said(command("/dev/null"), capsys) == (
        "/dev/null is no regular file; give a .vis.db file."
    )
    assert "File name too long" in said(command(LONG), capsys)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["compare.json", "dump", "file", "loop"]


WRITES: dict[str, Callable[[str], list[str]]] = {
    "mapping": lambda path: ["-i", "compare.json", "-o", "o", "--write-mapping", path],
    "trend": lambda path: ["trend", "dump", "-o", path],
    "trend name": lambda path: ["trend", "dump", "-o", "o", "--output-name", path],
    "config": lambda path: ["config", "collect", "-o", path],
    "matches": lambda path: ["verify", "out/a.vis.db", "--save-matches", path],
    "upgrade": lambda path: ["upgrade", "out/a.vis.db", "-o", path],
}


@pytest.mark.parametrize("path", ["file/x", LONG, "none/" + LONG])
@pytest.mark.parametrize("command", WRITES.values(), ids=WRITES)
def test_what_cannot_be_written_is_said_before_anything_is(
    command: Callable[[str], list[str]],
    path: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["-i", "compare.json", "-o", "out", "--output-name", "a", "--quiet"]) == 0
    said(command(path), capsys)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["compare.json", "dump", "file", "loop", "out"]
    assert [path.name for path in (folder / "out").iterdir()] == ["a.vis.db"]


def test_text_files_that_are_directories_have_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(["-i", "dump", "-o", "o"], capsys) == (
        "Cannot read dump: it is a directory; give the path of a compare.json with -i."
    )
    assert said(["monitor", "none", "none"], capsys) == (
        "none does not exist; give the dump_path of a monitor."
    )


@pytest.mark.parametrize(
    "text",
    ["a: 2024-13-45", "a: 0b_", "a: !!timestamp x", "a: !!bool x", 'a: !!float ""', "? [a]\n: b"],
)
def test_yaml_whose_values_are_none_is_refused(
    text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    table = ["table", "-i", "compare.json", "-o", "o", "--format", "csv"]
    for arguments in (
        *([*table, option, "a.yaml"] for option in ("-dm", "-cm", "-am")),
        ["config", "collect", "a.yaml", "-o", "o.zip"],
    ):
        assert said(arguments, capsys).startswith("a.yaml is not valid YAML")


@pytest.mark.parametrize("text", ["a: &x [1, *x]", "a: &x {b: *x}", "a: [{2024-01-01: 1}]"])
def test_a_configuration_of_unusual_values_is_collected(text: str, folder: Path) -> None:
    (folder / "a.yaml").write_text(text, encoding="utf-8")
    assert main(["config", "collect", "a.yaml", "-o", "o.zip"]) == 0
    assert main(["config", "compare", "o.zip", "o.zip", "-o", "same"]) == 0
