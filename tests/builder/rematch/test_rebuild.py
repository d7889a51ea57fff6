"""Any sequence of changes by hand leaves what a build given those matches would have written."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe_builder.match.match_file import ChosenPair
from msprobe_builder.rematch.edits import MATCH, UNMATCH, Edits, redo, undo
from msprobe_builder.rematch.graphs import GraphPair, read_pairs
from msprobe_builder.rematch.imports import import_pairs
from msprobe_builder.rematch.operations import Operation, carry_out
from msprobe_builder.rematch.refresh import refresh
from tests.builder.rematch.rebuild import check_sound, content, matched, rebuild
from tests.builder.sketch.sketched_dumps import write_dump as write_sketched
from tests.builder.small_dumps import forward, number, tensor, write_dump
from tests.conftest import BuildDatabase

CASES = {
    "statistics": ("llama_statistics_wrong_attention_scale", "llama_statistics"),
    "md5": ("llama_md5_wrong_attention_scale", "llama_md5"),
    "tensor": ("llama_tensor_wrong_attention_scale", "llama_tensor"),
    "structure": ("llama_structure", "llama_structure"),
    "another_model": ("resnet_statistics", "vit_statistics"),
}


@contextmanager
def edited(database: Path) -> Iterator[Edits]:
    """Changes in one transaction, and all that follows from them."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        edits = Edits(connection, "me", "because")
        yield edits
        npu, bench = ({getattr(one, side) for one in edits.changes} for side in ("npu", "bench"))
        refresh(connection, read_pairs(connection), npu, bench)
        connection.execute("COMMIT")


def only_pair(edits: Edits) -> GraphPair:
    [pair] = read_pairs(edits.connection)
    return pair


def act(database: Path, rng: random.Random, action: str) -> None:
    """Do something that a user could do next."""
    with edited(database) as edits:
        pair = only_pair(edits)
        if action in ("undo", "redo"):
            {"undo": undo, "redo": redo}[action](edits)
        elif action == "import":
            names = edits.connection.execute(
                "SELECT side, name FROM node_view WHERE parent IS NOT NULL"
            ).fetchall()
            npu = [name for side, name in names if side == "npu"]
            bench = [name for side, name in names if side == "bench"]
            chosen = [ChosenPair(rng.choice(npu), rng.choice(bench)) for _ in range(5)]
            chosen += [ChosenPair(rng.choice(bench), rng.choice(npu))]
            import_pairs(edits, [pair], chosen, replace=rng.random() < 0.5)
        else:
            operations = []
            for _ in range(rng.randint(1, 3)):
                i = rng.randrange(pair.npu.first + 1, pair.npu.last + 1)
                j = min(pair.bench.first + i - pair.npu.first, pair.bench.last)
                if rng.random() < 0.5:
                    j = rng.randrange(pair.bench.first + 1, pair.bench.last + 1)
                options = [rng.random() < 0.5 for _ in range(3)]
                operations.append(Operation(action, i, j, *options))
            carry_out(edits, pair, operations)


def write_odd_dump(directory: Path, rng: random.Random) -> Path:
    """Calls between modules, calls without record or without parameters, numbers, NaN."""
    names = [f"Torch.op{place % 3}.{place}.forward" for place in range(12)]
    modules = ["Module.a.Linear.forward.0", "Module.b.Linear.forward.0"]
    construct: dict[str, str | None] = dict.fromkeys(names[:4])
    construct |= {modules[0]: None, **dict.fromkeys(names[4:6], modules[0])}
    construct |= {**dict.fromkeys(names[6:9]), modules[1]: None, names[9]: modules[1]}
    construct |= dict.fromkeys(names[10:])
    values = [0.0, 1.0, 1.5, float("nan"), float("inf"), None]
    data = {
        name: forward(
            [tensor(rng.choice(values)), number(rng.choice([1, 2.5, "x"])), None],
            [tensor(rng.choice(values), high=rng.choice(values), shape=(2, rng.randint(1, 2)))],
        )
        for name in construct
    }
    for name in (names[1], names[7], modules[1]):
        del data[name]
    data[names[2]] = forward([], [])
    return write_dump(directory, data, construct)


def sides_of(case: str, dumps: Path, folder: Path) -> tuple[Path, Path]:
    if case == "odd":
        rng = random.Random(5)  # noqa: S311
        return write_odd_dump(folder / "npu", rng), write_odd_dump(folder / "bench", rng)
    if case == "sketched":
        drawn = np.random.default_rng(5).standard_normal((12, 32, 8)).astype(np.float32)
        sides = (drawn, np.where(np.arange(12)[:, None, None] % 3, drawn, drawn[:, ::-1]))
        npu, bench = (
            write_sketched(folder / name, {f"call{one}": array for one, array in enumerate(side)})
            for name, side in zip(("npu", "bench"), sides, strict=True)
        )
        return npu, bench
    npu, bench = (next((dumps / name).rglob("dump.json")).parent for name in CASES[case])
    return npu, bench


@pytest.mark.parametrize(
    "case",
    [
        *(one for one in CASES if one != "tensor"),
        pytest.param("tensor", marks=pytest.mark.slow),
        "odd",
        "sketched",
    ],
)
def test_any_sequence_equals_a_build_with_those_matches(
    case: str, dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    npu, bench = sides_of(case, dumps, tmp_path)
    original = build_database(npu, bench)
    actions = st.lists(
        st.sampled_from([MATCH, MATCH, UNMATCH, UNMATCH, "undo", "redo", "import"]), max_size=8
    )

    @settings(
        max_examples={"tensor": 2, "odd": 25, "sketched": 10}.get(case, 5),
        suppress_health_check=list(HealthCheck),
    )
    @given(actions, st.integers(0, 2**32))
    def check(actions: list[str], seed: int) -> None:
        database = Path(shutil.copy(original, tmp_path / "edited.vis.db"))
        rng = random.Random(seed)  # noqa: S311
        for action in actions:
            act(database, rng, action)
        check_sound(database)
        target = tmp_path / "rebuilt.vis.db"
        target.unlink(missing_ok=True)
        rebuild(npu, bench, matched(database), target)
        assert content(database) == content(target)

    check()
