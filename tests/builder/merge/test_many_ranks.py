"""A cluster of many ranks, linked from a small real one."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.builder.integrity import check

TP, PP, DP = 2, 12, 2
OPEN_FILES = 32


@pytest.mark.slow
def test_many_stages_and_replicas_with_few_open_files(dumps: Path, tmp_path: Path) -> None:
    source = dumps / "megatron_tp2pp2" / "step0"
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in range(TP * PP * DP):  # by default tp varies fastest, then dp, then pp
        stage, part = rank // (TP * DP), rank % TP
        (ranks / f"rank{rank}").symlink_to(source / f"rank{min(stage, 1) * 2 + part}")
    layout = {"rank_size": TP * PP * DP, "tp": TP, "pp": PP}
    config = {"npu_path": str(ranks), "parallel_merge": {"npu": layout}}
    (tmp_path / "compare.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "msprobe_builder", "-i", "compare.json", "-o", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES,) * 2),
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) < 10
    [database] = (tmp_path / "out").iterdir()
    with closing(check(database)) as connection:
        names = connection.execute(
            "SELECT name, rank, micro_step FROM node_view"
            " WHERE name GLOB '*TransformerLayer.forward.*' ORDER BY rank, seq"
        ).fetchall()
        origins = connection.execute("SELECT count(DISTINCT rank) FROM origin").fetchone()
    assert origins == (TP * PP * DP,)
    # Two layers of each stage, in order, in both micro-steps of both replicas.
    layers = [(rank, step, int(re.split(r"layers\.", name)[1].split(".")[0]))
              for name, rank, step in names]  # fmt: skip
    expected = [
        (rank, step, layer) for rank in (0, TP) for step in range(2) for layer in range(2 * PP)
    ]
    assert layers == expected
    assert set(Counter(layers).values()) == {1}


def test_progress_names_the_stage_that_is_read(dumps: Path, tmp_path: Path) -> None:
    layout = {"rank_size": 4, "tp": 2, "pp": 2}
    config = {
        "npu_path": str(dumps / "megatron_tp2pp2" / "step0"),
        "parallel_merge": {"npu": layout},
    }
    (tmp_path / "compare.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "msprobe_builder", "-i", "compare.json", "-o", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    stages = [line.partition("] ")[2] for line in done.stderr.splitlines()]
    assert stages == ["read debug stage 1 of 2", "read debug stage 2 of 2", "store", "gather"]
