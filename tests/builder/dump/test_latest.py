"""A dump that says the same as the latest is made of its parts; one that does not, of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump import read
from msprobe_builder.dump.latest import Latest
from msprobe_builder.dump.read import Dump, read_dump
from msprobe_builder.graph.shared import Shared

CALLS = [f"Torch.a.{number}.forward" for number in range(6)]
GRADIENTS = "Module.m.M.parameters_grad.0"
STACK = ["File a.py, line 1, in b, \n c()"]


def record(number: float) -> dict[str, Any]:
    numbers = dict.fromkeys(("Max", "Min", "Mean", "Norm"), number)
    one = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **numbers}
    return {"input_args": [one | {"requires_grad": False}], "input_kwargs": {}, "output": []}


def write(folder: Path, names: list[str], construct: list[str], stacks: list[str] = STACK) -> Path:
    """A dump of so many records; a name may be there twice, which json.dumps cannot write."""
    folder.mkdir()
    data = ",\n ".join(
        f"{json.dumps(name)}: {json.dumps(record(number + 0.5))}"
        for number, name in enumerate(names)
    )
    text = f'{{"task": "statistics",\n"data": {{\n {data}\n}}}}'
    (folder / "dump.json").write_text(text)
    (folder / "construct.json").write_text(json.dumps(dict.fromkeys(construct)))
    (folder / "stack.json").write_text(json.dumps({"0": [construct, stacks]}))
    return folder


def told(dump: Dump) -> tuple[object, ...]:
    """Everything that follows from names and records."""
    return (
        list(dump.records.items()),
        list(dump.construct.parent.items()),
        list(dump.stacks.of_name.items()),
        dump.stacks.stacks,
        dump.malformed,
        dump.twice,
        dump.repeated,
        dump.parameters.record.tolist(),
        dump.parameters.statistic_columns().tolist(),
    )


@pytest.mark.parametrize("small", [read._SMALL, -1], ids=["in full", "by example"])
@pytest.mark.parametrize(
    "names",
    [
        CALLS,
        CALLS[:4],
        [*CALLS, "Torch.b.0.forward"],
        CALLS[::-1],
        [*CALLS[:3], "Torch.b.0.forward", *CALLS[3:]],
        [*CALLS, CALLS[2]],
        [CALLS[0], CALLS[0], *CALLS[1:]],
        [*CALLS, "Torch.b.0.forward", "Torch.b.0.forward", "Torch.c.0.forward"],
        [*CALLS, GRADIENTS, GRADIENTS, GRADIENTS, "Torch.c.0.forward"],
        [*CALLS[:3], "DefaultModel", *CALLS[3:]],
    ],
)
def test_what_was_read_before_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], small: int
) -> None:
    monkeypatch.setattr(read, "_SMALL", small)
    before = write(tmp_path / "before", CALLS, CALLS)
    folder = write(tmp_path / "own", names, CALLS)
    latest = Latest()
    for one in (before, folder, folder):
        found = read_dump(one, Texts(), latest=latest)
        assert told(found) == told(read_dump(one, Texts()))
    expected = [name for name in dict.fromkeys(names) if name != "DefaultModel"]
    expected += [GRADIENTS[:-1] + str(number) for number in (1, 2) if GRADIENTS in names]
    assert sorted(found.records) == sorted(expected)


def test_equal_parts_are_the_same_objects(tmp_path: Path) -> None:
    latest = Latest()
    one, other = (
        read_dump(write(tmp_path / side, CALLS, CALLS), Texts(), latest=latest) for side in "ab"
    )
    assert other.construct is one.construct
    assert other.stacks is one.stacks
    assert other.records is one.records


def test_other_calls_have_a_tree_of_their_own(tmp_path: Path) -> None:
    """Also where one file alone differs, or the order of its calls."""
    shared = Shared()
    trees = []
    for number, (names, construct) in enumerate(
        [
            (CALLS, CALLS),
            (CALLS, CALLS),
            (CALLS[::-1], CALLS),
            (CALLS[:5], CALLS),
            (CALLS, CALLS[:5]),
        ]
    ):
        dump = read_dump(write(tmp_path / str(number), names, construct), Texts())
        trees.append(shared.tree(dump)[0])
    assert trees[1] is trees[0]
    assert len({id(tree) for tree in trees}) == 4
    assert trees[2].record.tolist() == [-1, -1, *range(5, -1, -1)]


def test_stacks_that_differ_in_a_line_share_their_numbers(tmp_path: Path) -> None:
    shared, other = Shared(), ["File a.py, line 2, in b, \n c()"]
    one, two = (
        shared.stacks(read_dump(write(tmp_path / name, CALLS, CALLS, stack), Texts()).stacks)
        for name, stack in (("a", STACK), ("b", other))
    )
    assert two.of_name is one.of_name
    assert (one.stacks[0][0].line, two.stacks[0][0].line) == (1, 2)


def test_keys_that_are_there_twice_are_told_of_both(tmp_path: Path) -> None:
    latest = Latest()
    for name in "ab":
        folder = write(tmp_path / name, CALLS, CALLS)
        twice = f'{{"{CALLS[0]}": null, "{CALLS[0]}": null}}'
        (folder / "construct.json").write_text(twice)
        assert read_dump(folder, Texts(), latest=latest).twice == (CALLS[0],)
