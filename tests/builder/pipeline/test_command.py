"""The command: flags, output, exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from msprobe_builder.command.frame import parser_of
from msprobe_builder.command.main import COMMANDS, OTHERS, find_command, main
from tests.builder.small_dumps import forward, tensor, write_dump

PARSER = parser_of(find_command(None), "")


def config(folder: Path, ranks: int = 1, **more: object) -> Path:
    calls = {"Torch.add.0.forward": forward([tensor()], [tensor()])}
    for rank in range(ranks):
        write_dump(folder / "dump" / f"rank{rank}", calls)
    path = folder / "compare.json"
    path.write_text(json.dumps({"npu_path": str(folder / "dump"), **more}), encoding="utf-8")
    return path


def run(path: Path, output: Path, *options: str) -> int:
    return main(["-i", str(path), "-o", str(output), *options])


@pytest.mark.parametrize(
    "options",
    [["-oc"], ["--overflow_check"], ["--overflow-check"]],
)
def test_flags_in_the_users_spelling(options: list[str]) -> None:
    assert PARSER.parse_args(["-i", "a", "-o", "b", *options]).overflow_check
    long = ["--input_path", "a", "--output_path", "b"]
    assert PARSER.parse_args(long) == PARSER.parse_args(["-i", "a", "-o", "b"])
    hyphens = ["--input-path", "a", "--output-path", "b"]
    assert PARSER.parse_args(hyphens) == PARSER.parse_args(long)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    others = {entry.name for entry in entry_points(group=OTHERS)}
    assert others >= {"page", "checkpoint"}
    assert not [name for name in (*COMMANDS, *others) if f"\nmsprobe-build {name} " not in said]


def test_help_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    for flag in ("-oc", "--allow-missing", "--workers", "--quiet", "--json", "--output-name"):
        assert flag in text


def test_json_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config(tmp_path), tmp_path / "out", "--json", "--output-name", "a") == 0
    said = capsys.readouterr()
    summary = json.loads(said.out)
    assert summary["path"] == str(tmp_path / "out" / "a.vis.db")
    assert summary["npu_nodes"] == 2
    assert said.err == ""


def test_quiet_says_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config(tmp_path), tmp_path / "out", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_a_broken_rank_ends_with_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, ranks=2)
    (tmp_path / "dump" / "rank1" / "construct.json").unlink()
    assert run(path, tmp_path / "out", "--workers", "1") == 3
    said = capsys.readouterr().out
    assert "rank1/construct.json does not exist" in said
    assert run(path, tmp_path / "json", "--json", "--workers", "1") == 3
    [failed] = json.loads(capsys.readouterr().out)["failed"]
    assert (failed["step"], failed["rank"]) == (0, 1)


def test_allow_missing_is_said_in_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dump(tmp_path / "bench" / "rank0", {"Torch.add.0.forward": forward([], [])})
    path = config(tmp_path, ranks=2, bench_path=str(tmp_path / "bench"))
    assert run(path, tmp_path / "out") == 1
    assert "bench_path lacks step 0 rank 1" in capsys.readouterr().err
    assert run(path, tmp_path / "out", "--allow-missing") == 0
    assert "left out: step 0 rank 1." in capsys.readouterr().out


def test_what_cannot_be_built_ends_with_status_1_and_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path)
    (tmp_path / "dump" / "rank0" / "construct.json").write_text("{}")
    assert run(path, tmp_path / "out") == 1
    said = capsys.readouterr()
    [*_, last] = said.err.splitlines()
    assert last.startswith("msprobe-build: ")
    assert "L0 or mix" in last
    assert said.out == ""


@pytest.mark.parametrize(
    "arguments", [[], ["-i", "x"], ["--workers", "0"], ["--nonsense"], ["-i", "no.json", "-o", "o"]]
)
def test_wrong_usage_ends_with_status_2(
    tmp_path: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status: object = main(arguments)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("msprobe-build: ")
    assert list(tmp_path.iterdir()) == []


def test_names_with_any_character_are_printed(tmp_path: Path) -> None:
    """On a terminal that knows ASCII only."""
    nan = tensor(float("nan"), high=float("nan"))
    write_dump(tmp_path / "dump", {"Torch.空\ud800\n\x1b[31m.0.forward": forward([], [nan])})
    path = tmp_path / "compare.json"
    path.write_text(json.dumps({"npu_path": str(tmp_path / "dump")}))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "msprobe_builder.command.main",
            "-i",
            path,
            "-o",
            tmp_path / "out",
            "-oc",
        ],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout
    assert done.stdout.isascii()
    assert rb"Torch.\u7a7a" in done.stdout
