"""What we record becomes a database, and the example's fault shows in it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.collector.models import MODELS, loss_of
from tests.collector.recording import record

REPOSITORY = Path(__file__).resolve().parents[2]


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def test_every_model_builds_into_a_database(
    tmp_path: Path, build_database: Callable[..., Path]
) -> None:
    """Each model stands for one step of a dump."""
    dumps = []
    for step, name in enumerate(MODELS):
        build, data = MODELS[name]
        model = build()
        batch = data()
        dump = record(tmp_path / name, lambda: loss_of(model, batch).backward(), model)  # noqa: B023
        dump.directory.parent.rename(tmp_path / f"step{step}")
        shutil.rmtree(tmp_path / name)
        dumps.append(dump)
    database = build_database(tmp_path)
    for step, dump in enumerate(dumps):
        query = f"SELECT name, parent FROM node_view WHERE step = {step}"
        found = dict(rows(database, query))
        for child, parent in dump.parents.items():
            assert child in found
            if parent is not None:
                assert found[child] == parent, child
        query = (
            f"SELECT max FROM tensor_view WHERE step = {step} AND name LIKE '%output.0' "
            "AND node = 'Functional.cross_entropy.0.forward'"
        )
        recorded = dump.data["Functional.cross_entropy.0.forward"]["output"][0]["Max"]
        assert rows(database, query) == [(pytest.approx(recorded),)]


@pytest.mark.parametrize(
    ("task", "section"),
    [("statistics", {"summary_mode": "md5"}), ("tensor", {}), ("structure", {})],
)
def test_every_task_can_be_compared_with_itself(
    task: str, section: dict[str, Any], tmp_path: Path, build_database: Callable[..., Path]
) -> None:
    build, data = MODELS["gru"]
    model = build().eval()
    batch = data()

    def step() -> None:
        loss_of(model, batch).backward()

    dumps = [
        record(tmp_path / side, step, model, task=task, **{task: section})
        for side in ("npu", "bench")
    ]
    database = build_database(*(dump.directory for dump in dumps))
    matches = rows(
        database, "SELECT name, matched, grade FROM node_view WHERE side = 'npu' AND kind != 'root'"
    )
    assert len(matches) > 20
    for name, matched, grade in matches:
        assert matched == name
        assert grade in ("ok", "ungraded", None), name


@pytest.mark.slow
def test_the_example_shows_its_fault(tmp_path: Path, build_database: Callable[..., Path]) -> None:
    for folder, arguments in (("good", []), ("bad", ["--fault"])):
        subprocess.run(
            [
                sys.executable,
                str(REPOSITORY / "examples" / "train" / "train.py"),
                str(tmp_path / folder),
                *arguments,
            ],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            check=True,
        )
    database = build_database(
        tmp_path / "bad" / "step0" / "rank", tmp_path / "good" / "step0" / "rank"
    )
    found = rows(
        database,
        "SELECT name FROM node_view WHERE side = 'npu' AND kind = 'api' AND error > 0.1 "
        "ORDER BY seq LIMIT 1",
    )
    assert found == [("Tensor.__mul__.1.forward",)]  # the scale of the second block


def test_gradients_by_argument_are_compared_where_both_sides_have_them(
    tmp_path: Path, build_database: Callable[..., Path]
) -> None:
    """Against a dump of the established form, the established gradients are."""
    build, data = MODELS["llama"]
    model, batch = build(), data()
    dump = record(tmp_path / "ours", lambda: loss_of(model, batch).backward(), model)
    shutil.copytree(dump.directory, tmp_path / "theirs")
    path = tmp_path / "theirs" / "dump.json"
    content = json.loads(path.read_text())
    del content["argument_gradients"]
    for entry in content["data"].values():
        entry.pop("input_gradients", None)
        entry.pop("output_gradients", None)
    path.write_text(json.dumps(content))
    query = (
        "SELECT shape FROM tensor_view WHERE node = 'Functional.linear.0.backward' "
        "AND name LIKE '%output.0'"
    )
    hidden = dump.data["Functional.linear.0.forward"]["input_args"][0]["shape"]
    merged = dump.data["Functional.linear.0.backward"]["output"][0]["shape"]
    for bench, wanted in ((dump.directory, hidden), (path.parent, merged)):
        database = build_database(dump.directory, bench, "--exact")
        assert {shape for (shape,) in rows(database, query)} == {str(wanted)}
        unmatched = "SELECT name FROM node_view WHERE side = 'npu' AND unmatched_reason IS NOT NULL"
        assert rows(database, unmatched) == []
