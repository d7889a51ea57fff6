"""The questions of the guide find in real comparisons what is known of them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.command.main import main
from tests.conftest import REPOSITORY, BuildDatabase
from tests.docs.test_commands import blocks

GUIDE = REPOSITORY / "docs" / "query.md"
Row = dict[str, Any]
SCALED = "Tensor.__mul__.19.forward"  # the first that has the wrong scale


def is_first_wrong(rows: list[Row]) -> bool:
    return bool(rows[0]["name"] == SCALED)


def names_the_line(rows: list[Row]) -> bool:
    return (rows[0]["name"], rows[0]["source"]) == (SCALED, "modeling_llama.py:193")


def falls_from_the_largest(rows: list[Row]) -> bool:
    errors = [row["error"] for row in rows]
    return len(rows) == 20 and errors == sorted(errors, reverse=True) and errors[0] > 0.9


def counts_multiplications(rows: list[Row]) -> bool:
    return any(row["operator"] == "Tensor.__mul__" and row["bad"] > 1 for row in rows)


def holds_layer_1(rows: list[Row]) -> bool:
    """The scale is wrong there, in both of its passes; the root holds all."""
    names = [row["name"] for row in rows]
    assert all(row["bad"] <= row["graded"] for row in rows)
    forward = [name for name in names if "layers." in name and "forward" in name]
    return (names[0], {".".join(name.split(".")[2:4]) for name in forward}) == (
        "DefaultModel",
        {"layers.1"},
    )


def knows_which_ranks_are_wrong(rows: list[Row]) -> bool:
    return len(rows) == 4 and all(row["bad"] > 0 and row["worst"] > 0.4 for row in rows)


def tells_both_scales(rows: list[Row]) -> bool:
    return {(row["debug"], row["reference"]) for row in rows} == {("0.375", "0.25")}


def is_half_against_whole(rows: list[Row]) -> bool:
    return {(row["debug"], row["reference"]) for row in rows} == {
        ("torch.bfloat16", "torch.float32")
    }


def is_the_weight(rows: list[Row]) -> bool:
    return rows[0]["side"] == "npu" and "NaN" not in str(rows) and len(rows) == 10


def tells_what_is_renamed(rows: list[Row]) -> bool:
    return {row["side"] for row in rows} == {"npu", "bench"} and all(row["nodes"] for row in rows)


WRONG = "llama_statistics_wrong_attention_scale", "llama_statistics"
# By the question: which comparison, with which options, and what is known of the answer.
KNOWN: dict[str, tuple[tuple[str, str], tuple[str, ...], Callable[[list[Row]], bool]]] = {
    "Where does it go wrong first?": (WRONG, (), is_first_wrong),
    "Who is blamed, and which line called it?": (WRONG, (), names_the_line),
    "Which outputs are the worst?": (WRONG, (), falls_from_the_largest),
    "Which operators are off, and how often?": (WRONG, (), counts_multiplications),
    "Which modules hold the most that is bad?": (WRONG, (), holds_layer_1),
    "Which step and rank begins?": (
        ("ddp4_statistics_wrong_attention_scale", "ddp4_statistics"),
        (),
        knows_which_ranks_are_wrong,
    ),
    "Which calls were given other arguments?": (WRONG, (), tells_both_scales),
    "Where do types differ?": (
        ("llama_statistics_bf16", "llama_statistics"),
        (),
        is_half_against_whole,
    ),
    "Where does NaN come up first?": (
        ("llama_statistics_nan_weight", "llama_statistics"),
        (),
        is_the_weight,
    ),
    "Why is it grey?": (
        ("llama_statistics_renamed_classes", "llama_statistics"),
        ("--exact",),
        tells_what_is_renamed,
    ),
}


def questions() -> dict[str, str]:
    """SQL by the sentence before it."""
    text = GUIDE.read_text(encoding="utf-8").partition("## Ten questions")[2]
    return dict(re.findall(r"^(\S.*\?)\n\n```sql\n((?:.*\n)*?)```$", text, re.MULTILINE))


def test_each_question_of_the_guide_has_an_answer_that_is_known() -> None:
    assert list(questions()) == list(KNOWN)
    assert len(KNOWN) == 10


@pytest.mark.parametrize("question", KNOWN)
def test_a_question_finds_what_is_known(
    question: str,
    dumps: Path,
    build_database: BuildDatabase,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (npu, bench), options, is_right = KNOWN[question]
    database = build_database(dumps / npu / "step0", dumps / bench / "step0", *options)
    assert main(["query", str(database), questions()[question], "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert is_right(rows), rows


def test_the_commands_of_the_guide_run(
    demo_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "example.vis.db").symlink_to(demo_database)
    monkeypatch.chdir(tmp_path)
    for block in blocks(GUIDE.read_text(encoding="utf-8"), "shell"):
        for command in block.splitlines():
            assert main(shlex.split(command)[1:]) == 0
