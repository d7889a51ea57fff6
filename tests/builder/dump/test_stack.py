"""Both forms of stack.json."""

from __future__ import annotations

import json
from pathlib import Path

from msprobe_builder.dump.stack import Frame, is_framework, parse_frame, read_stacks

_EXAMPLES = (
    Path(__file__).resolve().parents[3] / "frontend_polymer/test/elements/details/frameworks.json"
)

_LINE = "File train/my model.py, line 79, in <module>, \n loss = model(x)"
_FRAME = Frame("train/my model.py", 79, "<module>", "loss = model(x)")


def test_a_line_is_taken_apart() -> None:
    assert parse_frame(_LINE) == _FRAME
    assert parse_frame("File a.py, line 3, in forward") == Frame("a.py", 3, "forward", None)
    assert parse_frame("no stack here") == Frame(None, None, None, "no stack here")


def test_both_forms_give_the_same_stacks() -> None:
    old = read_stacks({"a": [_LINE], "b": [_LINE], "c": []})
    new = read_stacks({"0": [["a", "b"], [_LINE]], "1": [["c"], []]})
    for stacks in (old, new):
        assert [stacks.stacks[stacks.of_name[name]] for name in "abc"] == [(_FRAME,), (_FRAME,), ()]
    assert len(old.stacks) == len(new.stacks) == 2


def test_other_entries_are_counted() -> None:
    stacks = read_stacks({"a": [_LINE], "b": 3, "c": [1], "d": [["x"], [2]]})
    assert set(stacks.of_name) == {"a"}
    assert stacks.skipped == 3


def test_frameworks_are_what_the_viewer_takes_for_them() -> None:
    examples = json.loads(_EXAMPLES.read_text("utf-8"))
    assert {example["isFramework"] for example in examples} == {True, False}
    for example in examples:
        assert is_framework(example["file"]) is example["isFramework"], example["file"]
