"""``watch_ranks``: the first place where replicas are not alike is told while they train."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from msprobe_builder.facts.fact import Fact, fact, from_plain, plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.sketch.layout import NO_ROW
from msprobe_collector import PrecisionDebugger
from msprobe_collector.errors import CollectorError
from msprobe_collector.run.command import odd_ones
from msprobe_collector.watch.agreement import is_given_otherwise
from msprobe_collector.watch.journal import Entry
from msprobe_collector.watch.reference import Shown
from tests.collector.processes import run_in, run_in_two
from tests.collector.recording import read_dump, saved_tensor, tensors
from tests.collector.run.test_command import recorded


def _wrong_gelu(step: list[int], rank: int) -> torch.library.Library:
    def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:  # noqa: ARG001
        wrong = rank == 1 and step[0] == 1
        return 0.5 * x * (1 + torch.erf(x / (1.9 if wrong else 2.0) ** 0.5))

    library = torch.library.Library("aten", "IMPL")
    library.impl("gelu", gelu, "CPU")
    return library


def _train(rank: int, folder: str, planted: str) -> None:
    """Three steps; what is planted befalls one rank in step 1."""
    bad = rank == (0 if planted == "leader" else 1)
    step = [0]
    library = _wrong_gelu(step, rank) if planted == "kernel" else None
    torch.manual_seed(rank if planted == "strangers" else 1)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 8))
    known = planted not in ("strangers", "unknown")
    model: nn.Module = nn.parallel.DistributedDataParallel(net) if known else net
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    same = planted in ("kernel", "same data")
    data = torch.Generator().manual_seed(5 if same else rank)
    config = {"dump_path": f"{folder}/dump", "level": "mix", "watch_ranks": True}
    path = Path(folder) / f"config{rank}.json"
    path.write_text(json.dumps(config))
    debugger = PrecisionDebugger(path)
    for number in range(3):
        step[0] = number
        x = torch.randn(4, 8, generator=data)
        if planted != "plain" and not (planted == "gone" and rank == 0 and number):
            debugger.start(model)
        model(x).square().mean().backward()
        for one in model.parameters() if not known else ():
            dist.all_reduce(one.grad)
        if planted in ("gradient", "leader", "unknown") and bad and number == 1:
            last: Any = net[3]
            last.weight.grad[2] *= 1.5
        debugger.stop()
        if planted == "update" and bad and number == 1:
            optimizer.param_groups[0]["lr"] = 0.11
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()
    state = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
    (Path(folder) / f"state{rank}").write_bytes(state)
    watched: Any = debugger.watched
    found = {"facts": plain(watched.found), "compared": watched.compared, "of": watched.missing}
    (Path(folder) / f"found{rank}.json").write_text(json.dumps(found))
    debugger.close()
    del library


def found_by(folder: Path, rank: int) -> tuple[list[Fact], dict[str, Any]]:
    found = json.loads((folder / f"found{rank}.json").read_text())
    return list(from_plain(found["facts"])), found


@pytest.mark.parametrize("planted", ["", "same data"])
def test_replicas_that_are_alike_are_not_told(planted: str, tmp_path: Path) -> None:
    """Each has data and dropout of its own; or data alike, and dropout of its own."""
    run_in_two(_train, str(tmp_path), planted)
    told, found = found_by(tmp_path, 1)
    assert not told
    assert found["compared"] > 20
    assert not found["of"]
    assert not list(tmp_path.glob("dump_differs"))


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("gradient", "step1/rank1: the optimizer is given another gradient of 3.weight than on"),
        ("unknown", "step1/rank1: the optimizer is given another gradient of 3.weight than on"),
        ("update", "step2/rank1: parameter weight of Module.module.0.Linear.forward.0 is not"),
        ("kernel", "step1/rank1: Functional.gelu.0.forward is the first call that is not like"),
    ],
)
def test_the_first_that_differs_is_told_and_saved(planted: str, said: str, tmp_path: Path) -> None:
    run_in_two(_train, str(tmp_path), planted)
    assert not found_by(tmp_path, 0)[0]
    (told,), _ = found_by(tmp_path, 1)
    sentence = tell(told, ENGLISH)
    assert sentence.startswith(said)
    step = said.partition("/")[0]
    dump = read_dump(tmp_path / "dump_differs" / step / "rank1")
    if planted == "kernel":
        assert "given the same. File" in sentence
        record = dump.data["Functional.gelu.0.forward"]
        assert any(__file__ in line for line in dump.stacks["Functional.gelu.0.forward"])
        for _, item in tensors(record):
            tensor = saved_tensor(dump.directory, item["data_name"])
            assert tensor.norm().item() == pytest.approx(item["Norm"], rel=1e-6)


def test_ranks_that_hold_other_parameters_are_no_replicas(tmp_path: Path) -> None:
    run_in_two(_train, str(tmp_path), "strangers")
    told, found = found_by(tmp_path, 1)
    assert not told
    assert not found["compared"]


def test_the_first_rank_is_odd_where_all_others_agree(tmp_path: Path) -> None:
    run_in(3, _train, str(tmp_path), "leader")
    facts = [one for rank in (1, 2) for one in found_by(tmp_path, rank)[0]]
    assert [one["rank"] for one in facts] == [0, 0]
    assert list(odd_ones(facts)) == [fact("run.odd_one", rank=0)]
    assert not list(odd_ones(facts[:1]))


def _train_sharded(rank: int, folder: str) -> None:
    """Pairs along dp are replicas, those along tp are not."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(mesh.get_local_rank("tp"))
    model = nn.Linear(4, 4)
    if rank == 3:
        with torch.no_grad():
            model.weight[0, 0] += 1e-3
    config = {"dump_path": f"{folder}/dump", "level": "mix", "watch_ranks": True}
    path = Path(folder) / f"config{rank}.json"
    path.write_text(json.dumps(config))
    debugger = PrecisionDebugger(path)
    debugger.start(model)
    model(torch.ones(2, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    watched: Any = debugger.watched
    found = {"facts": plain(watched.found), "compared": watched.compared}
    (Path(folder) / f"found{rank}.json").write_text(json.dumps(found))
    debugger.close()


def test_replicas_are_those_that_differ_in_the_axis_of_data_alone(tmp_path: Path) -> None:
    run_in(4, _train_sharded, str(tmp_path))
    assert [len(found_by(tmp_path, rank)[0]) for rank in range(4)] == [0, 0, 0, 1]
    assert [bool(found_by(tmp_path, rank)[1]["compared"]) for rank in range(4)] == [0, 0, 1, 1]
    assert found_by(tmp_path, 3)[0][0]["rank"] == 1


def test_a_rank_that_writes_no_more_keeps_nobody(tmp_path: Path) -> None:
    run_in_two(_train, str(tmp_path), "gone")
    told, found = found_by(tmp_path, 1)
    assert not told
    assert found["compared"] > 5  # of the first step
    assert len(list(tmp_path.glob("dump/*/rank1"))) == 3


def test_parameters_are_those_of_a_training_that_is_not_watched(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("", "plain")]
    for folder, planted in zip(folders, ("", "plain"), strict=True):
        folder.mkdir(exist_ok=True)
        run_in_two(_train, str(folder), planted)
    one, other = ((folder / "state1").read_bytes() for folder in folders)
    assert one == other


def test_what_a_call_is_given_is_known_by_sketches_alone() -> None:
    """The same numbers in another order, or what nobody has written, may give anything."""
    item = {"dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Norm": 1.0}
    nothing = {**item, "Max": float("nan"), "Min": float("nan"), "Norm": float("nan")}

    def given(one: dict[str, Any], row: int) -> Entry:
        return Entry("call", 0, [Shown("input 0", False, one, row)])

    assert not is_given_otherwise(given(item, 3), given(item, 5))
    assert is_given_otherwise(given(item, 3), given(item, NO_ROW))
    assert is_given_otherwise(given(nothing, 3), given(nothing, 5))
    assert is_given_otherwise(given(item, 3), given({**item, "Norm": 1.1}, 5))


def test_what_does_not_go_with_it_is_said(tmp_path: Path) -> None:
    answer = recorded("--watch-ranks", "--estimate", "--", "true", folder=tmp_path)
    assert answer.returncode == 2
    assert "--watch-ranks goes without --watch, --estimate and --trace." in answer.stderr
    path = tmp_path / "config.json"
    for more, said in (
        ({"watch_ranks": True, "watch": "there"}, "watch_ranks does not work with watch"),
        ({"watch_ranks": True, "task": "tensor"}, "leave task tensor out"),
        ({"watch": "there", "task": "tensor"}, "watch saves the calls that differ itself"),
        ({"watch": "there", "statistics": {"tensor_list": ["relu"]}}, "leave tensor_list out"),
    ):
        path.write_text(json.dumps({"dump_path": "d", **more}))
        with pytest.raises(CollectorError, match=said):
            PrecisionDebugger(path)
