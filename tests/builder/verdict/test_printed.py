"""How a verdict is printed and handed on: each call once, each step, numbers that people read."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from msprobe_builder.facts.wording import tell
from msprobe_builder.facts.words import multiple
from tests.builder.small_dumps import forward, number, tensor, write_dump
from tests.conftest import BuildDatabase
from tests.worded import worded

SCALE = "wrong_attention_scale"


@pytest.fixture
def ranks(dumps: Path, build_database: BuildDatabase) -> Path:
    return build_database(dumps / f"ddp4_statistics_{SCALE}", dumps / "ddp4_statistics")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["verdict", *arguments]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_a_call_that_is_wrong_on_all_ranks_and_steps_is_printed_once(
    ranks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = printed(capsys, str(ranks))
    assert said.count("Tensor.__mul__.19.forward") == 1
    assert said.count("ranks 0-3: Tensor.__mul__.44.forward") == 1
    assert "First bad: step 0. Step 0: fault on all 4 ranks." in said


def test_the_next_dump_is_written_as_a_file_once(
    ranks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.json"
    assert f"--next-config {file}" not in printed(capsys, str(ranks))
    answer = json.loads(printed(capsys, str(ranks), "--json", "--next-config", str(file)))
    assert json.loads(file.read_text("utf-8")) == answer["next_dump"]["config"]
    assert main(["verdict", str(ranks), "--next-config", str(file)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_keys_of_the_answer_are_those_of_the_documentation(
    ranks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = json.loads(printed(capsys, str(ranks), "--json"))
    page = (Path(__file__).parents[3] / "docs" / "verdict.md").read_text("utf-8")
    for key in (*answer, *answer["suspects"][0], *answer["places"][0], *answer["next_dump"]):
        assert f"`{key}`" in page, key


def test_matches_that_changed_since_make_the_verdict_older(
    dumps: Path, build_database: BuildDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "llama_statistics"
    built = build_database(dumps / f"{name}_{SCALE}", dumps / name)
    assert "Older" not in printed(capsys, str(built))
    edit = (
        "INSERT INTO edit (batch, edited_at, action, npu_node, bench_node, source, undone)"
        " SELECT 1, '', ?, npu_node, bench_node, source, ? FROM match ORDER BY npu_node LIMIT 2"
    )

    def changed(*done: tuple[str, int]) -> int:
        with closing(sqlite3.connect(built)) as connection:
            connection.execute("DELETE FROM edit")
            connection.executemany(edit, done)
            connection.commit()
        return int(json.loads(printed(capsys, str(built), "--json"))["matches_changed"])

    assert changed(("confirm", 0), ("unmatch", 1)) == 0
    assert changed(("unmatch", 0), ("match", 0)) == 0
    assert changed(("unmatch", 0)) == 2
    assert "Older 2 matches were made or ended by hand since." in printed(capsys, str(built))


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (8.04, "8"),
        (12.3, "12"),
        (99.7, "100"),
        (129.0, "130"),
        (999.0, "1,000"),
        (3_564_233.2, "more than 1,000"),
        (float("inf"), "more than 1,000"),
    ],
)
def test_a_multiple_has_two_digits_and_what_is_beyond_doubt_none(times: float, said: str) -> None:
    assert tell(multiple(times)) == f"{said} times"


@pytest.mark.parametrize(
    ("own", "theirs", "said"),
    [
        (0.5303300858899107, 0.3535533905932738, "is 0.53033, 0.353553 in the reference."),
        (0.300000123456, 0.300002987654, "is 0.3, 0.300003 in the reference."),
        (3.0, 1.5, "is 3.0, 1.5 in the reference."),
        (1000000007, 3, "is 1000000007, 3 in the reference."),
    ],
)
def test_arguments_have_as_many_digits_as_tell_them_apart(
    own: float, theirs: float, said: str, tmp_path: Path, build_database: BuildDatabase
) -> None:
    given, right, wrong = (tensor(size, high=size / 2, low=-size / 3) for size in (2.0, 3.0, 6.0))
    sides = [
        write_dump(
            tmp_path / name,
            {
                "Functional.relu.0.forward": forward([given], [given]),
                "Tensor.__mul__.0.forward": forward([given, number(factor)], [result]),
            },
        )
        for name, factor, result in (("n", own, wrong), ("b", theirs, right))
    ]
    with closing(sqlite3.connect(build_database(*sides))) as connection:
        [(evidence,)] = worded(connection.execute("SELECT evidence FROM suspect"))
    assert said in evidence


def test_a_call_of_one_side_alone_is_not_to_be_run_again(
    tmp_path: Path, build_database: BuildDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be right in itself: that it is there, or not, is what is wrong."""
    given, between, last, other = (
        tensor(size, high=size / 2, low=-size / 3) for size in (2.0, 3.0, 5.0, 9.0)
    )
    bench = {
        "Functional.relu.0.forward": forward([given], [given]),
        "Tensor.__mul__.0.forward": forward([given, number(1.5)], [between]),
        "Torch.tanh.0.forward": forward([between], [last]),
        "Torch.exp.0.forward": forward([last], [other]),
    }
    npu = {name: record for name, record in bench.items() if "mul" not in name}
    npu["Torch.tanh.0.forward"] = forward([given], [other])
    npu["Torch.exp.0.forward"] = forward([other], [given])
    sides = [write_dump(tmp_path / name, data) for name, data in (("n", npu), ("b", bench))]
    built = build_database(*sides)
    [suspect] = json.loads(printed(capsys, str(built), "--json"))["suspects"]
    assert (suspect["cause"], suspect["command"]) == ("missing", None)
    assert "Check" not in printed(capsys, str(built))
