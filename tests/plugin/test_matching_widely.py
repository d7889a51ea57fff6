"""Matching by hand in all steps and ranks at once, and with everything below."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.builder.rematch.rebuild import matched
from tests.conftest import REPOSITORY, BuildDatabase
from tests.plugin.changing import change, operation, post, report, revision_of
from tests.plugin.conftest import client_of

FILE = "demo.vis.db"


def indices(database: Path, side: str = "npu") -> dict[str, int]:
    """Places of the nodes of a side by name; every step and rank has the same."""
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT name, seq FROM node_view WHERE side = ?"
        return dict(connection.execute(query, (side,)))


def generate(database: Path, *options: str) -> Path:
    generator = REPOSITORY / "benchmarks" / "generate_database.py"
    subprocess.run([sys.executable, str(generator), "-o", str(database), *options], check=True)
    return database


def test_the_same_is_done_in_all_steps_and_ranks_unless_they_are_matched_otherwise(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    name = "ddp4_statistics"
    built = build_database(dumps / f"{name}_wrong_attention_scale", dumps / name, "-oc")
    database = Path(shutil.copy(built, tmp_path / FILE))
    ask = client_of(tmp_path)
    wanted = [one for one in indices(database) if one.endswith("DecoderLayer.forward.0")][:2]
    first, second = wanted

    def matches(npu: str, bench: str) -> int:
        with closing(sqlite3.connect(database)) as connection:
            query = "SELECT count(*) FROM node_view WHERE side = 'npu' AND name = ? AND matched = ?"
            [(count,)] = connection.execute(query, (npu, bench))
            return int(count)

    everywhere = matches(first, first)
    assert everywhere == 8, "two steps of four ranks"
    npu, bench = indices(database)[first], indices(database, "bench")[first]
    told = report(change(ask, FILE, operation(npu, bench, "UNMATCH", everywhere=True)))
    assert matches(first, first) == 0
    assert {(one.step, one.rank) for one in told.changes} == {
        (step, rank) for step in range(2) for rank in range(4)
    }
    revision = {"file": FILE, "revision": revision_of(ask, FILE)}
    report(post(ask, "undo", revision))
    assert matches(first, first) == everywhere, "one request is one edit"

    # The reference's second layer has a partner in all other places.
    for layer_name in (first, second):
        at = indices(database)[layer_name], indices(database, "bench")[layer_name]
        report(change(ask, FILE, operation(*at, "UNMATCH")))
    other = indices(database, "bench")[second]
    told = report(change(ask, FILE, operation(npu, other, everywhere=True)))
    assert matches(first, second) == 1
    assert told.left_out >= everywhere - 1
    assert matches(first, first) == everywhere - 1
    told = report(change(ask, FILE, operation(npu, other, everywhere=True, replace=True)))
    assert not told.left_out
    assert matches(first, second) == everywhere


def test_a_subtree_matches_through_renamed_classes(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    sides = [
        dumps / name / "step0" / "rank"
        for name in ("llama_statistics_renamed_classes", "llama_statistics")
    ]
    database = Path(shutil.copy(build_database(*sides, "--exact"), tmp_path / FILE))
    ask = client_of(tmp_path)

    def path_of(name: str) -> str:
        """A module's name without its class."""
        path, direction, call = name.rsplit(".", 2)
        return f"{path.rpartition('.')[0]}.{direction}.{call}"

    at = "Module.model.layers.0.forward.0"
    npu, bench = (
        next(
            (name, index)
            for name, index in indices(database, side).items()
            if name.startswith("Module.") and path_of(name) == at
        )
        for side in ("npu", "bench")
    )
    assert npu[0] != bench[0]
    report(change(ask, FILE, operation(npu[1], bench[1], descendants=True, replace=True)))
    below = f"{at.removesuffix('.forward.0')}."
    modules = {
        name for name in indices(database) if name.startswith(below) and name.endswith(".forward.0")
    }
    partners = matched(database)
    assert len(modules) > 8
    assert {name: path_of(partners.get(name, "none.of.all.0")) for name in modules} == {
        name: path_of(name) for name in modules
    }


def test_a_preview_of_many_ranks_tells_the_grades_of_those_it_shows(tmp_path: Path) -> None:
    ranks, asked_rank = 103, 101
    database = generate(tmp_path / FILE, "--layers", "1", "--ranks", str(ranks))
    with closing(sqlite3.connect(database)) as connection:
        query = (
            "SELECT name, seq FROM node_view WHERE side = 'npu' AND rank = ? AND matched = name"
            " AND grade NOT IN ('ok', 'ungraded') AND name LIKE 'Module%forward.0' ORDER BY seq"
        )
        name, npu = connection.execute(query, (asked_rank,)).fetchone()
        query = "SELECT seq FROM node_view WHERE side = 'bench' AND rank = ? AND name = ?"
        [(bench,)] = connection.execute(query, (asked_rank, name))
    ask = client_of(tmp_path)
    at = {"step": 0, "rank": asked_rank}
    report(change(ask, FILE, operation(npu, bench, "UNMATCH", everywhere=True), **at))
    wanted = operation(npu, bench, everywhere=True)

    preview = report(change(ask, FILE, wanted, dry_run=True, **at))
    assert preview.changes[0].rank == asked_rank
    assert [one.rank for one in preview.changes[1:]] == sorted({*range(ranks)} - {asked_rank})
    done = report(change(ask, FILE, wanted, **at))
    assert len(done.updates) == ranks
    assert [one.npu_name for one in done.changes] == [name] * ranks
    shown = [(one.rank, one.grade, one.error) for one in done.changes][:100]
    assert [(one.rank, one.grade, one.error) for one in preview.changes][:100] == shown
    assert all(grade not in (pb.GRADE_UNGRADED, pb.GRADE_UNMATCHED) for _, grade, _ in shown)
    assert {one.rank for one in preview.updates} == {rank for rank, _, _ in shown}
    assert [one.grade for one in preview.changes[100:]] == [pb.GRADE_UNGRADED] * (ranks - 100)
