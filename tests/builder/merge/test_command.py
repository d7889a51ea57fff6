"""parallel_merge from the command line: what it accepts and what it says."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.builder.integrity import check, is_one_sentence
from tests.builder.running import run_here
from tests.worded import worded

ONE = {"rank_size": 1, "tp": 1, "pp": 1}
TP2 = {"rank_size": 2, "tp": 2, "pp": 1}


def run(folder: Path, **config: Any) -> subprocess.CompletedProcess[str]:
    compare = folder / "compare.json"
    compare.write_text(json.dumps({"is_print_compare_log": False, **config}), encoding="utf-8")
    command = ["-i", str(compare), "-o", str(folder / "out"), "--output-name", "merged", "--quiet"]
    return run_here(command)


def paths(dumps: Path, npu: str, bench: str | None = None) -> dict[str, str]:
    result = {"npu_path": str(dumps / npu / "step0")}
    if bench is not None:
        result["bench_path"] = str(dumps / bench / "step0")
    return result


def ranks_of(database: Path, side: str) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT rank FROM graph WHERE side = ? ORDER BY rank"
        return [rank for (rank,) in connection.execute(query, ({"npu": 0, "bench": 1}[side],))]


def test_comparison(dumps: Path, tmp_path: Path) -> None:
    merge = {"npu": TP2, "bench": ONE}
    done = run(tmp_path, **paths(dumps, "megatron_tp2pp1", "megatron_tp1pp1"), parallel_merge=merge)
    assert (done.returncode, done.stderr) == (0, "")
    with closing(check(tmp_path / "out" / "merged.vis.db")) as connection:
        origins = connection.execute("SELECT DISTINCT rank FROM origin ORDER BY rank").fetchall()
        # Shards and what they became: norm as root of summed squares, the recipe with its numbers.
        [(recipe,)] = worded(
            connection.execute(
                "SELECT recipe FROM recipe_view JOIN node_name USING (node_id)"
                " WHERE name = 'Module.0.embedding.word_embeddings.VocabParallelEmbedding."
                "forward.0'"
                " AND recipe LIKE '%recipe.shards%'"
            )
        )
    assert origins == [(0,), (1,)]
    assert "shards of ranks 0, 1 along dimension 0: max(" in recipe


def test_build(dumps: Path, tmp_path: Path) -> None:
    done = run(tmp_path, **paths(dumps, "megatron_tp2pp1dp2"), parallel_merge={
        "npu": {"rank_size": 4, "tp": 2, "pp": 1}
    })  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert ranks_of(tmp_path / "out" / "merged.vis.db", "npu") == [0, 2]


def test_equal_replicas_pair_by_position(dumps: Path, tmp_path: Path) -> None:
    merge = {"npu": {"rank_size": 4, "tp": 2, "pp": 1}, "bench": {"rank_size": 2, "tp": 1, "pp": 1}}
    given = paths(dumps, "megatron_tp2pp1dp2", "megatron_tp1pp1dp2")
    done = run(tmp_path, **given, parallel_merge=merge)
    assert (done.returncode, done.stderr) == (0, "")
    with closing(check(tmp_path / "out" / "merged.vis.db")) as connection:
        counts = connection.execute(
            "SELECT rank, count(matched), max(error) FILTER (WHERE name GLOB 'Module.*')"
            " FROM node_view WHERE side = 'npu' GROUP BY rank"
        ).fetchall()
    assert [rank for rank, _, _ in counts] == [0, 2]
    assert all(matched >= 1344 and error < 1e-3 for _, matched, error in counts)


def test_one_replica_against_each_of_many(dumps: Path, tmp_path: Path) -> None:
    merge = {"npu": {"rank_size": 2, "tp": 1, "pp": 1}, "bench": ONE}
    given = paths(dumps, "megatron_tp1pp1dp2", "megatron_tp1pp1")
    done = run(tmp_path, **given, parallel_merge=merge)
    assert (done.returncode, done.stderr) == (0, "")
    assert ranks_of(tmp_path / "out" / "merged.vis.db", "npu") == [0, 1]


def test_a_directory_named_rank_is_the_only_rank(dumps: Path, tmp_path: Path) -> None:
    shutil.copytree(dumps / "megatron_tp1pp1_L0" / "step0" / "rank0", tmp_path / "step0" / "rank")
    given = paths(dumps, "megatron_tp2pp1_L0") | {"bench_path": str(tmp_path / "step0")}
    done = run(tmp_path, **given, parallel_merge={"npu": TP2, "bench": ONE})
    assert (done.returncode, done.stderr) == (0, "")
    with closing(check(tmp_path / "out" / "merged.vis.db")) as connection:
        [unmatched] = connection.execute("SELECT count(*) FROM node_view WHERE matched IS NULL")
    assert unmatched == (0,)


@pytest.mark.parametrize(
    ("merge", "status", "sentence"),
    [
        ({"bench": ONE}, 2, "parallel_merge lacks 'npu'"),
        ({"npu": TP2}, 2, "parallel_merge lacks 'bench'"),
        ({}, 2, "parallel_merge lacks 'npu'"),
        ([], 2, 'parallel_merge must be "auto", or an object'),
        (3, 2, 'parallel_merge must be "auto", or an object'),
        (
            {"npu": TP2, "bench": ONE, "cpu": ONE},
            2,
            'parallel_merge must be "auto", or an object with',
        ),
        ({"npu": {**TP2, "tp": "2"}, "bench": ONE}, 2, "'tp' is '2'"),
        ({"npu": {**TP2, "tp": True}, "bench": ONE}, 2, "'tp' is True"),
        ({"npu": {**TP2, "tp": 2.0}, "bench": ONE}, 2, "'tp' is 2.0"),
        ({"npu": {**TP2, "pp": 0}, "bench": ONE}, 2, "'pp' is 0"),
        ({"npu": {**TP2, "rank_size": None}, "bench": ONE}, 2, "lacks 'rank_size'"),
        ({"npu": {**TP2, "tp": 4}, "bench": ONE}, 2, "rank_size 2 is no multiple"),
        ({"npu": {**TP2, "vpp": 2}, "bench": ONE}, 2, "vpp 2 needs pp of 2 or more"),
        ({"npu": {**TP2, "order": 1}, "bench": ONE}, 2, "'order' must be text"),
        ({"npu": {**TP2, "order": "TP-PP"}, "bench": ONE}, 2, "unknown word 'TP'"),
        ({"npu": {**TP2, "order": ""}, "bench": ONE}, 2, "unknown word ''"),
        ({"npu": {**TP2, "rank_size": 4}, "bench": ONE}, 1, "declares rank_size 4, but npu_path"),
        ({"npu": TP2, "bench": TP2}, 1, "declares rank_size 2, but bench_path"),
        ({"npu": {**TP2, "cp": 2}, "bench": ONE}, 2, "no multiple of tp · cp · pp = 4"),
        ({"npu": {**TP2, "ep": 2}, "bench": ONE}, 2, "ep 2 does not divide dp · cp = 1"),
    ],
)
def test_mistakes(merge: Any, status: int, sentence: str, dumps: Path, tmp_path: Path) -> None:
    given = paths(dumps, "megatron_tp2pp1_L0", "megatron_tp1pp1_L0")
    done = run(tmp_path, **given, parallel_merge=merge)
    assert done.returncode == status
    assert sentence in done.stderr
    assert is_one_sentence(done.stderr.strip())
    assert not list(tmp_path.glob("out/*"))


def test_more_replicas_on_both_sides_than_can_be_paired(dumps: Path, tmp_path: Path) -> None:
    source = dumps / "megatron_tp2pp1_L0" / "step0"
    for rank in range(3):
        shutil.copytree(source / "rank0", tmp_path / "three" / f"rank{rank}")
    merge = {"npu": {"rank_size": 3, "tp": 1, "pp": 1}, "bench": {"rank_size": 2, "tp": 1, "pp": 1}}
    given = {"npu_path": str(tmp_path / "three"), "bench_path": str(source)}
    done = run(tmp_path, **given, parallel_merge=merge)
    assert done.returncode == 1
    assert "3 replicas on the debug side and 2 on the reference side" in done.stderr
    assert is_one_sentence(done.stderr.strip())


def test_more_replicas_begin_with_the_first_of_the_other_side_again(
    dumps: Path, tmp_path: Path
) -> None:
    source = dumps / "megatron_tp1pp1dp2" / "step0"
    for rank in range(4):
        shutil.copytree(source / f"rank{rank % 2}", tmp_path / "four" / f"rank{rank}")
    merge = {"npu": {"rank_size": 4, "tp": 1, "pp": 1}, "bench": {"rank_size": 2, "tp": 1, "pp": 1}}
    given = {"npu_path": str(tmp_path / "four"), "bench_path": str(source)}
    done = run(tmp_path, **given, parallel_merge=merge)
    assert (done.returncode, done.stderr) == (0, "")
    with closing(check(tmp_path / "out" / "merged.vis.db")) as connection:
        rows = connection.execute(
            "SELECT rank, max(error), count(matched) FROM node_view WHERE side = 'npu'"
            " GROUP BY rank"
        ).fetchall()
        [(severity, message)] = worded(
            connection.execute(
                "SELECT severity, message FROM diagnostic WHERE code = 'unequal_replicas'"
            )
        )
    # Ranks 0 and 2 are rank 0 of the other side, ranks 1 and 3 are rank 1.
    assert [(rank, error) for rank, error, _ in rows] == [(rank, 0.0) for rank in range(4)]
    assert all(matched > 1300 for *_, matched in rows)
    assert severity == "info"
    assert "4 replicas in the debug run and 2 in the reference" in message


def test_ranks_of_different_tasks(dumps: Path, tmp_path: Path) -> None:
    for rank, task in enumerate(("tensor", "md5")):
        source = dumps / f"llama_{task}" / "step0" / "rank"
        shutil.copytree(source, tmp_path / "ranks" / f"rank{rank}")
    done = run(tmp_path, npu_path=str(tmp_path / "ranks"), parallel_merge={"npu": TP2})
    assert done.returncode == 1
    assert "rank1 is a dump of task md5 and" in done.stderr
    assert "rank0 one of task tensor; dump all ranks with the same task" in done.stderr
    assert is_one_sentence(done.stderr.strip())


def test_structure_dumps(dumps: Path, tmp_path: Path) -> None:
    for rank in range(2):
        source = dumps / "llama_structure" / "step0" / "rank"
        shutil.copytree(source, tmp_path / "ranks" / f"rank{rank}")
    given = {"npu_path": str(tmp_path / "ranks"), "bench_path": str(dumps / "llama_structure")}
    given["bench_path"] += "/step0"
    done = run(tmp_path, **given, parallel_merge={"npu": TP2, "bench": ONE})
    assert (done.returncode, done.stderr) == (0, "")
    with closing(check(tmp_path / "out" / "merged.vis.db")) as connection:
        [unmatched] = connection.execute("SELECT count(*) FROM node_view WHERE matched IS NULL")
    assert unmatched == (0,)
