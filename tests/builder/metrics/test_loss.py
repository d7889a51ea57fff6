"""The loss of each step and rank, against what the dumps say themselves."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from statistics import mean

import pytest

from tests.builder.small_dumps import forward, tensor, write_dump
from tests.conftest import BuildDatabase

# The call that makes the loss; Megatron makes one for each token and takes their mean.
MAKERS = {
    "llama_statistics": "Functional.cross_entropy",
    "resnet_statistics": "Functional.cross_entropy",
    "ddp4_statistics": "Functional.cross_entropy",
    "megatron_tp1pp1": "Tensor.mean",
    "moe_tp1": "Tensor.mean",
}


def losses(database: Path) -> dict[tuple[int, int], object]:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT step, rank, loss FROM graph WHERE side = 0")
        return {(step, rank): loss for step, rank, loss in rows}


def number(name: str) -> int:
    return int(re.sub(r"\D", "", name) or 0)


@pytest.mark.parametrize("run", MAKERS)
def test_it_is_what_the_maker_put_out(run: str, dumps: Path, build_database: BuildDatabase) -> None:
    made = {}
    for path in (dumps / run).rglob("dump.json"):
        data = json.loads(path.read_text(encoding="utf-8"))["data"]
        step, rank = (number(part) for part in path.parts[-3:-1])
        made[step, rank] = mean(
            record["output"][0]["Mean"]
            for name, record in data.items()
            if name.startswith(MAKERS[run]) and name.endswith(".forward")
        )
    assert losses(build_database(dumps / run)) == pytest.approx(made)


@pytest.mark.parametrize(
    ("put_out", "stored"),
    [
        ([tensor(1.0, mean=1.0, shape=(1,))], 1.0),
        ([tensor(1.0, mean=float("nan"), shape=(1,))], "NaN"),
        ([], None),
    ],
    ids=["number", "nan", "nothing"],
)
def test_what_is_not_a_number_is_told_from_nothing(
    put_out: list[dict[str, object]],
    stored: object,
    tmp_path: Path,
    build_database: BuildDatabase,
) -> None:
    net, loss = "Module.net.Net.forward.0", "Functional.mse_loss.0.forward"
    data = {net: forward([tensor(3.0)], [tensor(2.0)]), loss: forward([tensor(2.0)], put_out)}
    write_dump(tmp_path / "run", data, {net: None, loss: None})
    assert list(losses(build_database(tmp_path / "run")).values()) == [stored]
