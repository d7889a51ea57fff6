"""``msprobe-build A B -o out``: dumps that are given as folders, without a compare.json."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from msprobe_builder.base.errors import UsageError
from msprobe_builder.command.main import COMMANDS
from msprobe_builder.dump.below import dump_below
from tests.builder.running import run_here
from tests.builder.small_dumps import forward, tensor, write_dump

FAULT = "llama_statistics_wrong_attention_scale"
SUSPECT = "Tensor.__mul__.19.forward"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real runs under short names, and folders that are none."""
    for name, run in {"bad": FAULT, "good": "llama_statistics", "md5": "llama_md5"}.items():
        (tmp_path / name).symlink_to(dumps / run)
    monkeypatch.chdir(tmp_path)
    Path("deep/run/logs").mkdir(parents=True)
    Path("deep/run/dump").symlink_to(dumps / "llama_statistics")
    Path("many").mkdir()
    for name in ("bad", "good"):
        Path("many", name).symlink_to(dumps / "llama_statistics")
    Path("empty").mkdir()
    Path("logs/rank0").mkdir(parents=True)  # as launchers of many processes write them
    Path("logs/rank0/stderr.txt").touch()
    Path("packed").mkdir()
    Path("packed/dump.json.gz").touch()
    Path("notes.txt").touch()
    Path("compare.json").write_text(json.dumps({"npu_path": "bad", "bench_path": "good"}))


def build(*words: str) -> tuple[str, str]:
    """What a build prints that succeeds, and how the file in ``out`` begins to be called."""
    done = run_here([*words, "-o", "out"])
    assert done.returncode == 0, done.stderr
    [database] = Path("out").iterdir()
    return done.stdout, database.name.partition("_")[0]


@pytest.mark.parametrize(
    ("debug", "reference"),
    [
        ("bad", "good"),
        ("bad", "deep"),
        ("bad/step0", "good/step0"),
        ("bad/step0/rank", "good/step0/rank"),
        ("bad/step0/rank/dump.json", "good/step0"),
    ],
)
def test_two_folders_are_compared_wherever_the_dump_lies(debug: str, reference: str) -> None:
    said, kind = build(debug, reference)
    assert kind == "compare"
    assert re.search(rf"Verdict +fault, .*\nWhere .*{re.escape(SUSPECT)}", said)


def test_the_first_folder_is_the_run_under_debug() -> None:
    build("bad", "good")
    [database] = Path("out").iterdir()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        values = dict(
            connection.execute(
                "SELECT side, text.value FROM argument JOIN text ON text_id = value_id"
                " JOIN node_view USING (node_id) WHERE name = ? AND step = 0",
                (SUSPECT,),
            )
        )
    assert values == {"npu": "0.375", "bench": "0.25"}


def test_one_folder_is_shown_alone() -> None:
    assert build("deep")[1] == "build"


@pytest.mark.parametrize("name", ["rank0", "rank", "proc4711", "step3", "step3/rank0"])
def test_ranks_steps_and_processes_inside_are_understood(name: str) -> None:
    call = {"Torch.add.0.forward": forward([tensor()], [tensor()])}
    write_dump(Path("new", name), call)
    write_dump(Path("below/a/b", name), call)
    assert dump_below(Path("new")) == Path("new")
    assert dump_below(Path("below")) == Path("below/a/b")
    said, _ = build("new", "below")
    assert "Matched   2 (100.0 % of new, 100.0 % of b)" in said


def test_operators_are_printed_only_when_asked_for() -> None:
    quiet, _ = build("bad", "good")
    assert quiet.startswith("Nodes ")
    assert SUSPECT not in quiet.partition("Verdict ")[0]
    log = run_here(["bad", "good", "-o", "verbose", "-v"]).stdout
    with_file = run_here(["-i", "compare.json", "-o", "file"]).stdout
    for said in (log, with_file):
        before, verdict, _ = said.partition("Verdict ")
        assert verdict
        assert SUSPECT in before
    Path("compare.json").write_text(
        json.dumps({"npu_path": "bad", "bench_path": "good", "is_print_compare_log": False})
    )
    assert run_here(["-i", "compare.json", "-o", "still"]).stdout.startswith("Nodes ")


ABSENT = "is no command, and there is no folder of that name; "
REFUSED = [
    ("gone good -o out", f"'gone' {ABSENT}commands are "),
    ("reprt x.vis.db", f"'reprt' {ABSENT}did you mean 'report'? Commands are "),
    ("good gone -o out", "gone does not exist; give the folder of a dump."),
    ("compare.json", "compare.json is a file, no folder of a dump; a compare.json is given with"),
    ("good notes.txt -o out", "notes.txt is a file, no folder of a dump"),
    ("good good/ -o out", "good and good are the same dump, "),
    ("good deep -o out", "good and deep are the same dump, "),
    ("good empty -o out", "empty is empty; give the folder that was recorded into"),
    ("logs good -o out", "logs holds rank0, but no dump; give the folder"),
    ("good many -o out", "many holds 2 dumps, bad, good; name one of them."),
    ("packed good -o out", "packed/dump.json.gz is packed; unpack it"),
    ("bad good many -o out", "3 folders were given; give the run under debug and then its"),
    ("good -i compare.json -o out", "Give either folders of dumps or a compare.json with -i"),
    ("-o out", "Give the folders of two dumps, or of one: msprobe-build A B -o out"),
    ("bad good", "-o/--output-path is required"),
    ("bad good -o out --open --quiet", "--open prints an address; leave --quiet and --json out."),
    ("good " + "x" * 5000, "File name too long"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED, ids=[words[:40] for words, _ in REFUSED])
def test_other_folders_are_refused_in_a_sentence(words: str, sentence: str) -> None:
    done = run_here(words.split())
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not Path("out").exists()


def test_a_word_that_is_no_command_is_told_all_commands() -> None:
    said = run_here(["nothing"]).stderr
    assert not [name for name in COMMANDS if name not in said]
    assert "'msprobe-build A B -o out' compares two folders" in said


def test_another_task_is_named() -> None:
    done = run_here(["good", "md5", "-o", "out"])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        "good/step0/rank holds statistics and md5/step0/rank holds statistics with md5 checksums; "
        "compare dumps of the same kind."
    )


def test_a_folder_does_not_hide_a_command() -> None:
    Path("report").symlink_to("good")
    with pytest.raises(SystemExit):
        run_here(["report", "--help"])
    assert build("./report")[1] == "build"


def test_fuzzy_matching_may_stand_before_folders() -> None:
    assert build("-f", "bad", "good")[1] == "compare"


def test_a_dump_too_deep_is_not_looked_for() -> None:
    write_dump(Path("a/1/2/3/4/5/rank0"), {"Torch.add.0.forward": forward([], [])})
    with pytest.raises(UsageError, match="a holds 1, but no dump"):
        dump_below(Path("a"))


def test_open_serves_the_result_until_it_is_stopped() -> None:
    command = [sys.executable, "-m", "msprobe_builder.command.main"]
    with subprocess.Popen(
        [*command, "bad", "good", "-o", "out", "--open"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            said = iter(process.stdout.readline, "")
            addresses = (re.match(r"Open +(http://\S+)#graph_ascend$", line) for line in said)
            address = next(filter(None, addresses))[1]
            with urllib.request.urlopen(f"{address}data/plugin/graph_ascend/catalog") as answer:
                assert next(Path("out").iterdir()).name.encode() in answer.read()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
