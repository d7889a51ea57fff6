"""md5, tensor, structure, overflow_check and debug."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.cases import by_turns
from tests.collector.models import MODELS, Decoder, loss_of
from tests.collector.recording import record, saved_tensor, tensors, write_config

BATCH = torch.tensor([[1, 2, 3, 4]])


def crc(tensor: torch.Tensor) -> str:
    return f"{zlib.crc32(tensor.detach().contiguous().numpy().tobytes()):08x}"


def test_checksums_are_taken_before_later_changes(tmp_path: Path) -> None:
    x = torch.randn(5, 6)
    before = crc(x)
    doubled: list[str] = []

    def step() -> None:
        y = x * 2
        doubled.append(crc(y))
        x.zero_()
        y.fill_(1)

    dump = record(tmp_path, step, level="L1", statistics={"summary_mode": "md5"})
    entry = dump.data["Tensor.__mul__.0.forward"]
    assert entry["input_args"][0]["md5"] == before
    assert entry["output"][0]["md5"] == doubled[0]
    assert dump.data["Tensor.zero_.0.forward"]["output"][0]["md5"] == crc(torch.zeros(5, 6))


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool]
)
def test_checksums_are_those_of_the_bytes(dtype: torch.dtype, tmp_path: Path) -> None:
    values = torch.arange(6).reshape(2, 3).to(dtype)
    section = {"summary_mode": "md5"}
    dump = record(tmp_path, lambda: values.t().clone(), level="L1", statistics=section)
    flat = values.t().reshape(-1)
    number = zlib.crc32(bytes(flat.view(torch.uint8).tolist()))
    assert dump.data["Tensor.t.0.forward"]["output"][0]["md5"] == f"{number:08x}"


@pytest.mark.parametrize(("name", "layout"), by_turns(MODELS, ["one_file", "files"]))
def test_saved_tensors_are_what_the_statistics_say(name: str, layout: str, tmp_path: Path) -> None:
    build, data = MODELS[name]
    model = build()
    batch = data()
    dump = record(
        tmp_path,
        lambda: loss_of(model, batch).backward(),
        model,
        task="tensor",
        tensor={"layout": layout},
    )
    folder = Path(dump.header["dump_data_dir"])
    seen = set()
    for call, entry in dump.data.items():
        for where, item in tensors(entry):
            if item["type"] != "torch.Tensor":
                continue
            file = item["data_name"]
            assert file.startswith(call)
            seen.add(file)
            saved = saved_tensor(dump.directory, file)
            assert list(saved.shape) == item["shape"], where
            if saved.numel() and saved.dtype is not torch.bool:
                assert saved.double().max().item() == pytest.approx(item["Max"])
                assert saved.double().min().item() == pytest.approx(item["Min"])
    files = {path.name for path in folder.iterdir()}
    if layout == "one_file":
        assert files == {"tensors.bin", "index.json"}
        files = set(json.loads((folder / "index.json").read_text()))
    assert seen == files
    assert "Module.head.Linear.parameters_grad.weight.pt" in seen
    assert any(file.endswith(".kwargs.mask.pt") for file in seen) == (name in ("llama", "mixtral"))


def test_tensors_are_saved_before_later_changes(tmp_path: Path) -> None:
    x = torch.ones(3)

    def step() -> None:
        torch.neg(x)
        x.zero_()

    dump = record(tmp_path, step, level="L1", task="tensor")
    for name, numbers in {
        "Torch.neg.0.forward.input.0.pt": [1, 1, 1],
        "Tensor.zero_.0.forward.input.0.pt": [1, 1, 1],
        "Tensor.zero_.0.forward.output.0.pt": [0, 0, 0],
    }.items():
        assert saved_tensor(dump.directory, name).tolist() == numbers


def test_structure_has_the_hierarchy_of_a_full_dump(tmp_path: Path) -> None:
    model = Decoder()

    def step() -> None:
        loss_of(model, BATCH).backward()

    bare = record(tmp_path / "bare", step, model, task="structure")
    full = record(tmp_path / "full", step, model)
    assert list(bare.data) == list(full.data)
    for (where, outline), (_, item) in zip(tensors(bare.data), tensors(full.data), strict=True):
        wanted = {key: item[key] for key in ("type", "dtype", "shape", "requires_grad")}
        assert outline == wanted, where
    assert bare.header["task"] == "structure"
    assert bare.parents == full.parents
    assert list(bare.parents) == list(full.parents)
    assert set(bare.stacks) == set(full.stacks)


def overflowing(x: torch.Tensor) -> torch.Tensor:
    y = torch.exp(x * 1000)  # the origin
    z = torch.nan_to_num(y)  # cleans up
    (y - y).sum()  # carries on
    return torch.log(z - z)  # another origin


def test_overflow_check_finds_the_origins(tmp_path: Path) -> None:
    section = {"overflow_nums": -1}
    dump = record(
        tmp_path,
        lambda: overflowing(torch.ones(3)),
        task="overflow_check",
        level="L1",
        overflow_check=section,
    )
    assert dump.names() == ["Torch.exp.0.forward", "Torch.log.0.forward"]
    item = dump.data["Torch.exp.0.forward"]["output"][0]
    assert item["Max"] == float("inf")
    folder = dump.directory / "dump_tensor_data"
    assert {path.name for path in folder.iterdir()} == {
        "Torch.exp.0.forward.input.0.pt",
        "Torch.exp.0.forward.output.0.pt",
        "Torch.log.0.forward.input.0.pt",
        "Torch.log.0.forward.output.0.pt",
    }
    assert torch.load(folder / "Torch.exp.0.forward.input.0.pt").tolist() == [1000] * 3


def test_overflow_check_stops_after_its_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_config(tmp_path, task="overflow_check", level="L1")
    debugger = PrecisionDebugger(config_path=path)
    for _ in range(2):
        debugger.start()
        overflowing(torch.ones(3))
        debugger.stop()
        debugger.step()
    debugger.close()
    assert [path.name for path in (tmp_path / "dump").iterdir()] == ["step0"]
    text = (tmp_path / "dump" / "step0" / "rank" / "dump.json").read_text()
    assert list(json.loads(text)["data"]) == ["Torch.exp.0.forward"]
    assert any("overflow_nums = 1 reached" in message for message in caplog.messages)


def test_an_overflow_in_place_keeps_its_input(tmp_path: Path) -> None:
    x = torch.full((2,), 1e30)
    dump = record(tmp_path, lambda: x.mul_(1e30), task="overflow_check", level="L1")
    folder = dump.directory / "dump_tensor_data"
    saved = torch.load(folder / "Tensor.mul_.0.forward.input.0.pt")
    assert saved.tolist() == pytest.approx([1e30, 1e30])


def test_an_overflow_in_backward_is_found(tmp_path: Path) -> None:
    x = torch.full((2,), 1e-38, requires_grad=True)
    dump = record(
        tmp_path, lambda: (x.sqrt().sum() * 1e30).backward(), task="overflow_check", level="L1"
    )
    assert dump.names() == ["Tensor.sqrt.0.backward"]


@pytest.mark.parametrize("odd", [(), ("one",), ("two",), ("one", "two")])
def test_of_gradients_of_parameters_those_that_overflow_are_kept(
    tmp_path: Path, odd: tuple[str, ...]
) -> None:
    model = nn.ModuleDict({"one": nn.Linear(2, 1), "two": nn.Linear(2, 1)})
    x = torch.full((1, 2), 1e30)

    def step() -> None:
        for name, layer in model.items():
            (layer(x).sum() * (1e30 if name in odd else 1.0)).backward()

    dump = record(
        tmp_path,
        step,
        model,
        task="overflow_check",
        level="mix",
        overflow_check={"overflow_nums": -1},
    )
    kept = {name.split(".")[1] for name in dump.names() if name.endswith("parameters_grad")}
    assert kept == {*odd}


def test_save_records_values_and_gradients(tmp_path: Path) -> None:
    write_config(tmp_path, task="tensor", level="debug")
    PrecisionDebugger(config_path=tmp_path / "config.json")
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    PrecisionDebugger.save({"y": y, "more": [x, 4.5, "text"]}, "mine")
    PrecisionDebugger.save(y, "y")
    PrecisionDebugger.save(y.detach(), "y", save_backward=False)
    (y * y).sum().backward()
    PrecisionDebugger.step()
    PrecisionDebugger.save(7, "number")
    PrecisionDebugger.close()
    folder = tmp_path / "dump" / "step0" / "rank"
    assert sorted(path.name for path in folder.iterdir()) == ["debug.json", "dump_tensor_data"]
    content = json.loads((folder / "debug.json").read_text())
    data = content["data"]
    assert content["level"] == "debug"
    assert set(data) == {
        "mine.0.debug",
        "mine_grad.0.debug",
        "y.0.debug",
        "y_grad.0.debug",
        "y.1.debug",
    }
    assert data["mine.0.debug"]["more"][1:] == [
        {"type": "float", "value": 4.5},
        {"type": "str", "value": "text"},
    ]
    gradients = data["mine_grad.0.debug"]
    assert gradients["y"]["data_name"] == "mine_grad.0.debug.y.pt"
    assert gradients["more"][1:] == [None, None]
    saved = folder / "dump_tensor_data"
    assert torch.load(saved / "mine_grad.0.debug.y.pt").tolist() == [6, 12]  # 2 · y
    assert torch.load(saved / "mine_grad.0.debug.more.0.pt").tolist() == [18, 36]  # 18 · x
    assert torch.load(saved / "y_grad.0.debug.pt").tolist() == [6, 12]
    later = tmp_path / "dump" / "step1" / "rank" / "debug.json"
    assert json.loads(later.read_text())["data"]["number.0.debug"]["value"] == 7


def test_of_a_saved_value_the_first_gradient_of_each_tensor_is_kept(tmp_path: Path) -> None:
    write_config(tmp_path, task="statistics", level="debug")
    PrecisionDebugger(config_path=tmp_path / "config.json")
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    first, second = x * 3, y * 3
    PrecisionDebugger.save({"first": first, "second": [second]}, "both")
    (first * 5).sum().backward(retain_graph=True)
    (first * 7).sum().backward()
    (second * 9).sum().backward()
    PrecisionDebugger.step()
    PrecisionDebugger.close()
    path = tmp_path / "dump" / "step0" / "rank" / "debug.json"
    gradients = json.loads(path.read_text())["data"]["both_grad.0.debug"]
    assert (gradients["first"]["Max"], gradients["second"][0]["Max"]) == (5.0, 9.0)


def test_save_says_when_it_does_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    debugger.save(1, "x")
    assert "level debug only" in caplog.messages[0]
    debugger.close()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="debug")
    debugger.save(nn.Linear(1, 1), "layer")
    debugger.save({1: 2}, "table")
    assert "a value of type Linear" in caplog.messages[1]
    assert "the key 1" in caplog.messages[2]
