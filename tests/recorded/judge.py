"""Build what a recorded case compares, and read the facts that hold of it."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict
from msprobe_builder.facts.fact import Facts, has_code, plain, within
from msprobe_builder.facts.words import UNUSUAL
from tests.builder.small_dumps import Record, number, tensor, write_dump
from tests.recorded.case import Call, RecordedCase, Side

_KEYS = {"dtype": "torch.float32", "shape": [4, 4], "Max": 1.0, "Min": -1.0, "Mean": 0.0}


def request_of(case: RecordedCase, dumps: Path | None, folder: Path) -> Path:
    """The compare.json that asks for a case; ``dumps`` is its unpacked archive."""
    request: dict[str, Any] = {"is_print_compare_log": False, **case.compare}
    for side in ("npu", "bench", "noise"):
        given: Side | None = getattr(case, side)
        if isinstance(given, str):
            assert dumps is not None, f"{case.name} has no archive that {side} could lie in"
            request[f"{side}_path"] = str(dumps / given)
        elif given is not None:
            request[f"{side}_path"] = str(written(folder / side, given, case.tensors))
    compare = folder / "compare.json"
    compare.write_text(json.dumps(request), encoding="utf-8")
    return compare


def database_of(case: RecordedCase, dumps: Path | None, folder: Path) -> Path:
    """The database that msprobe-build makes of a case; ``dumps`` is its unpacked archive."""
    compare = request_of(case, dumps, folder)
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(sys.__stderr__),
    ):
        arguments = ["-i", str(compare), "-o", str(folder / "out"), "--workers", "1"]
        status = main([*arguments, *case.options])
    assert status == 0, f"{case.name}: msprobe-build ended with {status}"
    [database] = (folder / "out").glob("*.vis.db")
    return database


def written(
    folder: Path, calls: Mapping[str, Call], tensors: Mapping[str, Mapping[str, Any]]
) -> Path:
    """A dump of calls that are written down: ``[inputs, outputs]``, or both by name.

    A text is the tensor of that name, anything else a plain value. By name there are ``in``,
    ``out``, ``keywords``, ``within`` (the module around it) and ``at`` (lines of its stack).
    """
    named = {
        name: tensor(values.get("Norm", 1.0)) | _KEYS | dict(values)
        for name, values in tensors.items()
    }

    def value(given: Any) -> Any:
        if isinstance(given, str) and given in named:
            return named[given]
        if isinstance(given, list):
            return [value(one) for one in given]
        return given if given is None or isinstance(given, dict) else number(given)

    data: dict[str, Record] = {}
    parents: dict[str, str | None] = {}
    stacks: dict[str, Any] = {}
    for name, given in calls.items():
        call = {"in": given[0], "out": given[1]} if isinstance(given, list) else given
        inputs, output = value(call.get("in", [])), value(call.get("out", []))
        if ".backward" in name:
            data[name] = {"input": inputs, "output": output}
        else:
            keywords = {key: value(one) for key, one in call.get("keywords", {}).items()}
            data[name] = {"input_args": inputs, "input_kwargs": keywords, "output": output}
        parents[name] = call.get("within")
        if "at" in call:
            stacks[str(len(stacks))] = [[name], call["at"]]
    return write_dump(folder, data, parents, stacks)


def facts_of(database: Path, wanted: Iterable[str]) -> dict[str, Any]:
    """What a database says of each fact, in the form of a case's facts."""
    with opened(database) as connection:
        verdict = read_verdict(connection)
        assert verdict is not None, "nothing was compared"
        return {name: _READERS[name](connection, verdict) for name in wanted}


def described(suspect: Suspect) -> dict[str, Any]:
    """A suspect as facts."""
    found = asdict(suspect)
    kept = ("node", "cause", "strength", "side", "direction", "source", "step", "rank")
    told = {"ranks": list(suspect.ranks), "said": said(suspect.facts)}
    return {key: found[key] for key in kept} | told


def said(facts: Facts) -> list[dict[str, Any]]:
    """All facts that are said, those within others too."""
    return [one for fact in within(facts) for one in plain([fact])]


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """What does not hold, a line each."""
    return [
        line
        for name, right in expected.items()
        for line in _UNLIKE.get(name, _unequal)(name, right, found[name])
    ]


def _first(_: sqlite3.Connection, verdict: Verdict) -> dict[str, Any] | None:
    suspects = _suspected(verdict)
    return described(suspects[0]) if suspects else None


def _suspected(verdict: Verdict) -> list[Suspect]:
    """Without what half precision explains worst, which is told where nobody is suspect."""
    return [one for one in verdict.suspects if not has_code(one.facts, UNUSUAL)]


def _strong(_: sqlite3.Connection, verdict: Verdict) -> list[str]:
    return list(dict.fromkeys(one.node for one in verdict.suspects if one.strength == "strong"))


def _said(_: sqlite3.Connection, verdict: Verdict) -> list[dict[str, Any]]:
    return said(verdict.said)


def _named(_: sqlite3.Connection, verdict: Verdict) -> list[str]:
    return list(dict.fromkeys(one.node for one in _suspected(verdict)))


def _pairs(connection: sqlite3.Connection, _: Verdict) -> dict[str, str]:
    return dict(
        connection.execute(
            "SELECT npu.name, bench.name FROM match"
            " JOIN node_name AS npu ON npu.node_id = npu_node"
            " JOIN node_name AS bench ON bench.node_id = bench_node"
        ).fetchall()
    )


def _alone(connection: sqlite3.Connection, _: Verdict) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"npu": [], "bench": []}
    for side, name in connection.execute(
        "SELECT side, name FROM unmatched JOIN node USING (node_id) JOIN graph USING (graph_id)"
        " JOIN node_name USING (node_id) ORDER BY node_id"
    ):
        found["bench" if side else "npu"].append(name)
    return found


def _roles(connection: sqlite3.Connection, _: Verdict) -> dict[str, int]:
    rows = connection.execute("SELECT name, role FROM role JOIN node_name USING (node_id)")
    return dict(rows.fetchall())


def _notes(connection: sqlite3.Connection, _: Verdict) -> list[str]:
    rows = connection.execute("SELECT DISTINCT code FROM diagnostic ORDER BY code")
    return [str(code) for (code,) in rows]


def _next(_: sqlite3.Connection, verdict: Verdict) -> dict[str, Any] | None:
    return None if verdict.next_dump is None else dict(verdict.next_dump["config"])


_READERS: dict[str, Callable[[sqlite3.Connection, Verdict], Any]] = {
    "conclusion": lambda _, verdict: verdict.conclusion,
    "first_bad_step": lambda _, verdict: verdict.first_bad_step,
    "first": _first,
    "said": _said,
    "innocent": _strong,
    "unnamed": _named,
    "pairs": _pairs,
    "alone": _alone,
    "roles": _roles,
    "notes": _notes,
    "next": _next,
}


def _unequal(name: str, right: Any, found: Any) -> list[str]:
    return [] if right == found else [f"{name} is {found!r}, should be {right!r}"]


def _one_of(name: str, right: Any, found: Any) -> list[str]:
    return [] if _fits(right, found) else [f"{name} is {found!r}, should be {right!r}"]


def _fits(right: Any, found: Any) -> bool:
    """Whether a value is what is right, one of several that are, or fits a pattern."""
    if isinstance(right, list) and not isinstance(found, list):
        return any(_fits(one, found) for one in right)
    if isinstance(right, str) and isinstance(found, str):
        return fnmatchcase(found, right)
    return bool(right == found)


def _by_key(name: str, right: Any, found: Any) -> list[str]:
    """What is told of some keys; None says that there is nothing of the kind."""
    if not right or found is None:  # an empty map as well: nothing at all
        return _unequal(name, right, found)
    return [
        line
        for key, one in right.items()
        for line in (_says if key == "said" else _one_of)(f"{name} {key}", one, found.get(key))
    ]


def _says(name: str, right: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[str]:
    """Facts that must be said, by their code and some of their arguments."""
    missing = [one for one in right if not any(one.items() <= fact.items() for fact in found)]
    return [f"{name} lacks {one!r}, there are {found!r}" for one in missing]


def _none_of(name: str, right: list[str], found: list[str]) -> list[str]:
    wrong = [one for one in found if any(fnmatchcase(one, pattern) for pattern in right)]
    return [f"{name} is accused: {one}" for one in wrong]


def _holds(name: str, right: list[str], found: list[str]) -> list[str]:
    missing = [one for one in right if one not in found]
    return [f"{name} lack {missing!r}, there are {found!r}"] if missing else []


def _names_of_sides(name: str, right: Mapping[str, list[str]], found: Any) -> list[str]:
    return [line for side in right for line in _unequal(f"{name} {side}", right[side], found[side])]


_UNLIKE: dict[str, Callable[[str, Any, Any], list[str]]] = {
    "conclusion": _one_of,
    "first": _by_key,
    "said": _says,
    "innocent": _none_of,
    "unnamed": _none_of,
    "pairs": _by_key,
    "roles": _by_key,
    "notes": _holds,
    "next": _by_key,
    "alone": _names_of_sides,
}
