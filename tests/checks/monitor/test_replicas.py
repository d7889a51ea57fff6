"""Ranks of one training that train the same parameters: the one that parts from them is named."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder.command.main import main
from msprobe_builder.facts.wording import tell
from msprobe_checks.monitor.explain_replicas import replicas_fact
from msprobe_checks.monitor.replicas import compare_replicas
from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in, run_in_two
from tests.collector.versions import NEEDS_SHARDS


def train(rank: int, directory: Path, cause: str) -> None:
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    first, last = nn.Linear(4, 8), nn.Linear(8, 2)
    model = nn.Sequential(first, nn.Tanh(), last)
    if cause == "one weight from the start" and rank == 1:
        last.weight.data[0, 0] += 0.25
    if cause == "one weight by a little" and rank == 2:
        last.weight.data *= 1 + 2e-6
    wrapped = DistributedDataParallel(model, init_sync=False)
    debugger = PrecisionDebugger(None, "monitor", directory)
    debugger.monitor(wrapped)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(rank)  # each rank has data of its own
    for step in range(4):
        wrapped(torch.randn(3, 4, generator=generator)).square().sum().backward()
        assert first.weight.grad is not None
        if cause == "a flipped bit" and (step, rank) == (2, 2):
            first.weight.grad.view(torch.int32)[1, 1] ^= 1 << 28
        if cause == "no number" and (step, rank) == (1, 0):
            first.weight.grad[0, 0] = torch.nan
        if cause == "rate" and (step, rank) == (3, 1):
            optimizer.param_groups[0]["lr"] = 2e-2
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


CAUSES = {
    "none": "the replicas are alike in weights, gradients and learning rates (72 rows).",
    "a flipped bit": "part at step 2: the gradient before the update of 0.weight of rank 2 is not"
    " that of ranks 0 and 1, off by",
    "no number": "part at step 1: the gradient before the update of 0.weight of rank 0 is not that"
    " of ranks 1 and 2, NaN or infinity on some of them",
    "rate": "part at step 3: the learning rate of group0 of rank 1 is not that of ranks 0 and 2",
    "one weight by a little": "part at step 0: the weight of 2.weight of rank 2 is not that of"
    " ranks 0 and 1, off by",
    "one weight from the start": "part at step 0: the weight of 2.weight of rank 1 is not that of",
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_rank_that_is_not_like_the_others_is_named(
    tmp_path: Path, cause: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_in(3, train, tmp_path / "run", cause)
    assert main(["monitor", str(tmp_path / "run"), "-o", str(tmp_path / "found.json")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert CAUSES[cause] in said
    assert "3 ranks in 1 group alike along dp, at steps 0 to 3" in said
    found = json.loads((tmp_path / "found.json").read_text())
    assert CAUSES[cause] in found["verdict"]
    assert found["groups"] == [[0, 1, 2]]
    assert (found["parted"] is None) == (cause == "none")


def train_shards(_rank: int, directory: Path) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Linear(4, 8)
    fully_shard(model, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)))
    debugger = PrecisionDebugger(None, "monitor", directory)
    debugger.monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    PrecisionDebugger.close()


@NEEDS_SHARDS
def test_shards_are_no_replicas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_in_two(train_shards, tmp_path)
    place = json.loads((tmp_path / "monitor" / "rank1" / "place.json").read_text())
    assert place == {"coordinates": {"dp": 1}, "replicas": []}
    assert main(["monitor", str(tmp_path)]) == 2
    assert "holds no ranks that train the same parameters" in capsys.readouterr().err


def recorded(folder: Path, rank: int, place: str, norms: list[float]) -> None:
    """What a rank records of one weight, a step for each norm."""
    directory = folder / "monitor" / f"rank{rank}"
    directory.mkdir(parents=True)
    (directory / "place.json").write_text(place)
    with (directory / "values_step0.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow("step kind name norm mean max min zeros nans count".split())
        for step, norm in enumerate(norms):
            table.writerow([step, "weight", "w", norm, 0.0, 1.0, -1.0, 0, 0, 8])


def place(**coordinates: int) -> str:
    return json.dumps({"coordinates": coordinates, "replicas": ["dp"]})


def test_ranks_of_another_split_are_held_against_their_own(tmp_path: Path) -> None:
    """dp 2 × tp 2: parts of a weight are unlike, copies of a part are alike, but for one."""
    for rank in range(4):
        tp, dp = rank % 2, rank // 2
        norms = [1.0 + tp, 2.0 + tp, 3.0 + tp + (rank == 3)]
        recorded(tmp_path, rank, place(tp=tp, dp=dp), norms)
    found = compare_replicas(tmp_path)
    assert found.groups == ((0, 2), (1, 3))
    assert found.rows == 6
    assert found.parted is not None
    assert (found.parted.step, found.parted.ranks) == (2, (1, 3))  # nobody knows which of two
    assert "the weight of w is not the same on ranks 1 and 3, off by 0.2 of" in tell(
        replicas_fact(found)
    )


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"coordinates": 1, "replicas": []}', '{"coordinates": {"a": "x"}}']
)
def test_a_damaged_place_is_told(
    tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        recorded(tmp_path, rank, content, [1.0])
    assert main(["monitor", str(tmp_path)]) == 1
    assert "place.json is damaged" in capsys.readouterr().err
