"""The recorded run that a training is watched by may hold anything: the training goes on."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.collector.recording import Dump, record
from tests.fuzz.changes import change_value

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    again(folder, statistics={"summary_mode": "sketch"})
    return folder / "dump"


def again(folder: Path, **config: object) -> Dump:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))

    def step() -> None:
        model(torch.ones(2, 3)).sum().backward()

    return record(folder, step, model, **config)


def values(seed: int) -> Damage:
    def damage(rank: Path) -> None:
        rng = random.Random(seed)  # noqa: S311
        for name in ("dump.json", "construct.json"):
            content = json.loads((rank / name).read_text())
            for _ in range(3):
                change_value(content, rng)
            (rank / name).write_text(json.dumps(content))

    return damage


def written(name: str, content: bytes) -> Damage:
    return lambda rank: (rank / name).write_bytes(content)


def piped(rank: Path) -> None:
    (rank / "dump.json").unlink()
    os.mkfifo(rank / "dump.json")


def cut(rank: Path) -> None:
    path = rank / "sketch.bin"
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    "damage",
    [
        *map(values, range(12)),
        written("dump.json", b""),
        written("dump.json", b'{"data": []}'),
        written("dump.json", b'{"data": {"Module.x.forward.0": 7}}'),
        written("dump.json", b"[" * 100_000),
        written("construct.json", b"[1]"),
        written("construct.json", b'{"a": ["b", 10]}'),
        written("sketch.bin", b"x" * 1000),
        piped,
        cut,
    ],
)
def test_the_training_goes_on_and_is_recorded(
    damage: Damage, reference: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(reference, tmp_path / "other"))
    damage(other / "step0" / "rank")
    config = {"statistics": {"summary_mode": "sketch"}, "watch": str(other)}
    found = again(tmp_path / "new", **config)
    plain = json.loads((reference / "step0" / "rank" / "dump.json").read_text())
    assert found.data == plain["data"]
