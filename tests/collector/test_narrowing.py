"""Keys that record less of a step: parts of tensors, calls by their weight, no places."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.errors import BuildError
from msprobe_collector import PrecisionDebugger
from msprobe_collector.config.narrowing import Slice, positions
from msprobe_collector.config.settings import parse_config
from msprobe_collector.errors import CollectorError
from tests.collector.recording import (
    Dump,
    read_dump,
    record,
    saved_tensor,
    tensors,
    write_config,
)

ROWS = torch.arange(24.0).reshape(6, 4)


def layer() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5))


def narrowed(path: Path, task: str, **section: Any) -> Dump:
    model = layer()
    return record(
        path, lambda: model(ROWS).square().mean().backward(), model, task=task, **{task: section}
    )


def whole_of(path: Path) -> dict[str, torch.Tensor]:
    """Each tensor that is recorded, by its place."""
    dump = narrowed(path / "whole", "tensor")
    return {
        f"{name}{place}": saved_tensor(dump.directory, item["data_name"])
        for name, entry in dump.data.items()
        for place, item in tensors(entry)
    }


@pytest.mark.parametrize(
    ("slices", "part"),
    [
        ([{"dim": 0, "begin": 1, "end": 3, "size": 6}], lambda one: one[1:3]),
        ([{"begin": 2}], lambda one: one[2:]),
        ([{"dim": 1, "end": -1}], lambda one: one[:, :-1]),
        (
            [{"dim": 0, "begin": 1}, {"dim": 1, "size": 5, "begin": 3, "end": 4}],
            lambda one: one[1:, 3:4] if one.shape[1:] == (5,) else one[1:],
        ),
        ([{"dim": 7, "begin": 1}], None),
        ([{"size": 99, "begin": 1}, {}], None),
    ],
)
def test_of_each_tensor_the_part_that_is_asked_for_is_recorded(
    slices: list[dict[str, int]],
    part: Callable[[torch.Tensor], torch.Tensor] | None,
    tmp_path: Path,
) -> None:
    whole = whole_of(tmp_path)
    dump = narrowed(tmp_path, "tensor", slice=slices)
    found = {
        f"{name}{place}": item
        for name, entry in dump.data.items()
        for place, item in tensors(entry)
    }
    assert found.keys() == whole.keys()
    size = slices[0].get("size")
    for place, item in found.items():
        expected = whole[place]
        applies = part is not None and expected.dim() > max(s.get("dim", 0) for s in slices[:1])
        if applies and size in (None, expected.shape[slices[0].get("dim", 0)]):
            assert part is not None
            expected = part(expected)
        saved = saved_tensor(dump.directory, item["data_name"])
        assert torch.equal(saved, expected), place
        assert item["shape"] == list(expected.shape)
        if expected.numel():
            assert item["Norm"] == pytest.approx(expected.float().norm().item(), rel=1e-6)


@given(
    st.lists(st.integers(0, 4), max_size=3),
    st.lists(
        st.builds(
            Slice,
            st.integers(0, 3),
            st.integers(-2, 3),
            st.none() | st.integers(-2, 5),
            st.none() | st.integers(0, 4),
        ),
        max_size=3,
    ),
)
def test_positions_are_those_of_the_last_slice_that_fits(
    shape: list[int], slices: list[Slice]
) -> None:
    taken = positions(shape, slices)
    fitting = {one.dim: one for one in slices if one.dim < len(shape)
               and (one.size is None or one.size == shape[one.dim])}  # fmt: skip
    assert (taken is None) == (not fitting)
    for dim, own in enumerate(taken or ()):
        one = fitting.get(dim, Slice())
        assert range(10)[own] == range(10)[one.begin : one.end]


def test_the_rows_of_a_request_are_recorded(tmp_path: Path) -> None:
    """And nothing of what an engine computes for others alone."""
    model, config = layer(), {"request_id": "b"}
    write_config(tmp_path, task="tensor", tensor=config)
    debugger = PrecisionDebugger(config_path=tmp_path / "config.json")
    batches: list[dict[str, int] | None] = [{"a": 1, "b": 2, "c": 3}, {"a": 6}, {"b": 6}, None]
    for scheduled in batches:
        debugger.start(model, scheduled_tokens=scheduled)
        model(ROWS)
        debugger.stop()
        debugger.step()
    with pytest.raises(CollectorError, match="give the number of tokens of each request"):
        debugger.start(model, scheduled_tokens={"b": 0})
    debugger.close()
    found = {}
    for step in sorted((tmp_path / "dump").iterdir()):
        dump = read_dump(step / "rank")
        [item] = [one for _, one in tensors(dump.data["Functional.linear.0.forward"]["output"])]
        found[step.name] = saved_tensor(dump.directory, item["data_name"])
    whole = model(ROWS)
    assert found.keys() == {"step0", "step2", "step3"}
    assert torch.equal(found["step0"], whole[1:3])
    assert torch.equal(found["step2"], whole)
    assert torch.equal(found["step3"], whole)


def work(model: nn.Module) -> None:
    x = torch.zeros(6, 4) + ROWS
    y = model(x.reshape(2, 12)[:, :4].float()).transpose(0, 1).softmax(0)
    torch.cat([y, y]).clamp(0, 1).sum().backward()


@pytest.mark.parametrize(
    ("risk", "kept"),
    [
        ("CORE", {"Functional.linear"}),
        ("FOCUS", {"Functional.linear", "Tensor.softmax", "Tensor.sum", "Tensor.clamp"}),
        ("ALL", {"Functional.linear", "Tensor.reshape", "Torch.zeros", "Torch.cat"}),
    ],
)
@pytest.mark.parametrize("level", ["mix", "L1"])
def test_calls_are_chosen_by_their_weight(
    risk: str, kept: set[str], level: str, tmp_path: Path
) -> None:
    model = layer()
    dump = record(tmp_path, lambda: work(model), model, level=level, risk_level=risk)
    calls = {name.rsplit(".", 2)[0] for name in dump.data if not name.startswith("Module")}
    assert kept <= calls
    low = {"Tensor.reshape", "Torch.zeros", "Torch.cat", "Tensor.transpose", "Tensor.float"}
    assert bool(calls & low) == (risk == "ALL")
    if risk == "CORE":
        assert calls == kept
    assert ("Module.0.Linear.forward.0" in dump.data) == (level == "mix")
    assert "Functional.linear.0.backward" in dump.data
    assert ("Tensor.softmax.0.backward" in dump.data) == (risk != "CORE")


def test_a_list_or_scope_is_stronger_than_the_weight(tmp_path: Path) -> None:
    model = layer()
    section = {"list": ["transpose"]}
    dump = record(tmp_path, lambda: work(model), model, risk_level="CORE", statistics=section)
    assert set(dump.data) == {"Tensor.transpose.0.forward", "Tensor.transpose.0.backward"}


@pytest.mark.parametrize("level", ["mix", "L1", "L0"])
def test_without_extra_info_numbers_alone_are_written(level: str, tmp_path: Path) -> None:
    dumps = []
    for name, more in (("with", {}), ("without", {"extra_info": False})):
        model = layer()
        write_config(tmp_path / name, level=level, **more)
        debugger = PrecisionDebugger(config_path=tmp_path / name / "config.json")
        debugger.start(model)
        work(model)
        debugger.stop()
        debugger.close()
        dumps.append(tmp_path / name / "dump")
    whole, bare = (one / "step0" / "rank" for one in dumps)
    assert {one.name for one in bare.iterdir()} == {"dump.json", "sketch.bin"}
    data = [json.loads((one / "dump.json").read_text())["data"] for one in (whole, bare)]
    assert data[0] == data[1]
    with pytest.raises(BuildError, match='without "extra_info": false'):
        build(BuildConfig(bare, whole, print_compare_log=False), tmp_path / "out", workers=1)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"statistics": {"slice": {"dim": 0}}}, "slice is {'dim': 0}; write a list"),
        ({"statistics": {"slice": [{"dim": -1}]}}, "write a list of objects"),
        ({"statistics": {"slice": [{"from": 1}]}}, "some of dim, begin, end, size"),
        ({"statistics": {"slice": [{"begin": True}]}}, "write a list of objects"),
        ({"statistics": {"request_id": 4}}, "request_id is 4; write the name"),
        ({"risk_level": "low"}, "risk_level is 'low'; choose one of CORE, FOCUS, ALL"),
        ({"extra_info": "no"}, "extra_info is 'no'; write true or false"),
    ],
)
def test_bad_values_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(CollectorError) as raised:
        parse_config({"dump_path": "x", **config})
    assert said in str(raised.value)


def test_the_file_is_followed_from_step_to_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Level and list, steps and slices; what cannot be followed is said."""
    model = layer()
    changes: list[dict[str, Any]] = [
        {"level": "L1", "step": [0, 1]},
        {"level": "L0", "step": [0, 1]},
        {"level": "mix", "statistics": {"list": ["softmax"]}},
        {"level": "mix", "statistics": {"slice": [{"end": 1}]}, "risk_level": "CORE"},
        {"level": "much"},
        {"level": "L1", "task": "tensor"},
    ]
    names, shapes = [], []
    debugger = None
    for number, change in enumerate(changes):
        write_config(tmp_path, dump_enable=True, remark=" " * number, **change)
        if debugger is None:
            debugger = PrecisionDebugger(config_path=tmp_path / "config.json")
        debugger.start(model)
        work(model)
        debugger.stop()
        debugger.step()
        dump = read_dump(tmp_path / "dump" / f"step{number}" / "rank")
        names.append({name.partition(".")[0] for name in dump.data})
        shapes.append({item["shape"][0] for _, item in tensors(dump.data) if item["shape"]})
    assert debugger is not None
    debugger.close()
    assert "Module" not in names[0]
    assert names[1] == {"Module"}
    assert set(dump_names(tmp_path, 2)) == {"Tensor.softmax.0.forward", "Tensor.softmax.0.backward"}
    assert names[3] == {"Module", "Functional"}
    assert shapes[3] == {1}
    assert names[4] == names[3]  # level much is nothing
    assert "Module" not in names[5]
    said = " ".join(caplog.messages)
    assert "level is 'much'" in said
    assert "others stay" in said


def dump_names(folder: Path, step: int) -> list[str]:
    return list(read_dump(folder / "dump" / f"step{step}" / "rank").data)
