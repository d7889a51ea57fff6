"""Small programs, written down call by call, as dumps whose tensors are known by their names.

A line is ``results = Stem operands``; operands in capitals are given, as weights are. A result is
``name:2x4``; one that only has another form, as of a view, is told as ``name~other:8``.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from msprobe_builder.dump.source import InMemoryDump
from tests.alignment.score import said
from tests.builder.small_dumps import Record, forward, tensor

Group = tuple[frozenset[str], frozenset[str]]


def program(text: str, seed: int, *, is_structure: bool = False) -> InMemoryDump:
    """A dump of a program without modules; each seed gives other values."""
    known: dict[str, Record] = {}
    data: dict[str, Any] = {}
    numbers: Counter[str] = Counter()

    def named(word: str) -> Record:
        name, _, shape = word.partition(":")
        name, _, other = name.partition("~")
        if name not in known:
            sizes = tuple(map(int, shape.split("x")))
            norm = known[other]["Norm"] if other else Random(f"{seed} {name}").uniform(1, 9)  # noqa: S311
            known[name] = tensor(norm, high=norm / 2, low=-norm / 3, shape=sizes)
        return known[name]

    for line in filter(None, map(str.strip, text.splitlines())):
        results, _, call = line.partition(" = ")
        stem, *operands = call.split()
        given = [named(one) for one in operands]
        data[f"{stem}.{numbers[stem]}.forward"] = forward(
            given, [named(one) for one in results.split()]
        )
        numbers[stem] += 1
    head = {"task": "structure" if is_structure else "statistics", "framework": "pytorch"}
    if is_structure:
        data = {name: without_values(record) for name, record in data.items()}
    return InMemoryDump({**head, "data": data}, dict.fromkeys(data), {}, str(seed))


def without_values(value: Any) -> Any:
    """The same with nothing but shapes and types of tensors."""
    if isinstance(value, list):
        return [without_values(one) for one in value]
    if isinstance(value, dict):
        gone = ("Max", "Min", "Mean", "Norm")
        return {key: without_values(one) for key, one in value.items() if key not in gone}
    return value


def found(npu: str, bench: str, *, is_structure: bool = False) -> tuple[set[Group], dict[str, str]]:
    """Groups and pairs of two programs whose values differ, by short names as ``add.0``.

    Sides that are exchanged have the same.
    """
    sides = [
        program(text, seed, is_structure=is_structure) for seed, text in enumerate((npu, bench))
    ]
    groups: set[Group] = set()
    pairs: dict[str, str] = {}
    told, turned = said(sides[0], sides[1]), said(sides[1], sides[0], is_turned=True)
    assert {one for one in told if one[0] != "likely"} == {
        one for one in turned if one[0] != "likely"
    }
    for kind, *what in told:
        if kind == "group":
            mine, theirs = (frozenset(map(short, one)) for one in what)  # type: ignore[call-overload]
            groups.add((mine, theirs))
        elif kind == "pair":
            pairs[short(str(what[0]))] = short(str(what[1]))
    return groups, pairs


def short(name: str) -> str:
    return ".".join(name.split(".")[1:3])


def group(mine: str, theirs: str) -> Group:
    """Members of both sides, as they are told."""
    return frozenset(mine.split()), frozenset(theirs.split())
