"""``list``, ``scope``, ``data_mode`` and ``tensor_list``."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.collector.models import Decoder, loss_of
from tests.collector.recording import record

BATCH = torch.tensor([[1, 2, 3, 4]])


def step(model: nn.Module) -> None:
    loss_of(model, BATCH).backward()


def test_a_list_keeps_matching_names(tmp_path: Path) -> None:
    model = Decoder(layers=1)
    section = {"list": ["linear"], "data_mode": ["forward"]}
    dump = record(tmp_path, lambda: step(model), level="L1", statistics=section)
    assert dump.names() == [f"Functional.linear.{n}.forward" for n in range(6)]


def test_a_category_is_matched_in_any_case(tmp_path: Path) -> None:
    model = Decoder(layers=1)
    dump = record(tmp_path, lambda: step(model), level="L1", statistics={"list": ["functional"]})
    assert {name.split(".")[0] for name in dump.data} == {"Functional"}
    assert "Functional.linear.0.backward" in dump.data


def test_a_module_keeps_everything_inside_it(tmp_path: Path) -> None:
    model = Decoder(layers=2)
    section = {"list": ["layers.1.mlp.GatedMLP"]}
    dump = record(tmp_path, lambda: step(model), model, statistics=section)
    modules = [name for name in dump.names("Module.") if ".forward." in name]
    stem = "Module.layers.1.mlp"
    assert modules == [
        f"{stem}.gate.Linear.forward.0",
        f"{stem}.up.Linear.forward.0",
        f"{stem}.down.Linear.forward.0",
        f"{stem}.GatedMLP.forward.0",
    ]
    apis = [name for name in dump.data if name.endswith(".forward")]
    assert [name.split(".")[1] for name in apis] == [
        "linear",
        "silu",
        "linear",
        "__mul__",
        "linear",
    ]
    assert f"{stem}.up.Linear.backward.0" in dump.data
    assert f"{stem}.gate.Linear.parameters_grad" in dump.data
    for name in apis:  # the chain up to the root is complete
        while (parent := dump.parents[name]) is not None:
            name = parent


def test_a_scope_is_a_range_in_execution_order(tmp_path: Path) -> None:
    section = {"scope": ["Torch.cos.0.forward", "Torch.exp.0.forward"]}

    def calls() -> None:
        x = torch.ones(2)
        torch.sin(x)
        torch.cos(x)
        torch.tan(x)
        torch.exp(x)
        torch.log(x)

    dump = record(tmp_path, calls, level="L1", statistics=section)
    assert dump.names() == ["Torch.cos.0.forward", "Torch.tan.0.forward", "Torch.exp.0.forward"]


def test_a_scope_may_reach_into_backward(tmp_path: Path) -> None:
    model = Decoder(layers=1)
    section = {"scope": ["Module.head.Linear.forward.0", "Module.head.Linear.backward.0"]}
    dump = record(tmp_path, lambda: step(model), model, level="L0", statistics=section)
    assert dump.names() == [
        "Module.head.Linear.forward.0",
        "Module.head.Linear.backward.0",
        "Module.head.Linear.parameters_grad",
    ]


@pytest.mark.parametrize(
    ("mode", "forward", "backward"),
    [
        (["forward"], {"input_args", "input_kwargs", "output", "is_recompute"}, None),
        (["backward"], None, {"input", "output", "input_gradients"}),
        (["input"], {"input_args", "input_kwargs", "is_recompute"}, {"input"}),
        (["forward", "output"], {"output", "is_recompute"}, None),
    ],
)
def test_data_modes(
    mode: list[str], forward: set[str] | None, backward: set[str] | None, tmp_path: Path
) -> None:
    model = Decoder(layers=1)
    dump = record(tmp_path, lambda: step(model), level="L1", statistics={"data_mode": mode})
    for name, wanted in (("forward", forward), ("backward", backward)):
        entry = dump.data.get(f"Functional.linear.0.{name}")
        assert (None if entry is None else set(entry)) == wanted


def test_tensor_list_saves_some_calls_of_a_statistics_dump(tmp_path: Path) -> None:
    model = Decoder(layers=1)
    section = {"tensor_list": ["silu"]}
    dump = record(tmp_path, lambda: step(model), level="L1", statistics=section)
    saved = {path.name for path in (dump.directory / "dump_tensor_data").iterdir()}
    assert saved == {
        "Functional.silu.0.forward.input.0.pt",
        "Functional.silu.0.forward.output.0.pt",
        "Functional.silu.0.backward.input.0.pt",
        "Functional.silu.0.backward.output.0.pt",
    }


def test_filters_that_hit_nothing_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "dump" / "step0" / "rank").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        record(tmp_path, lambda: torch.ones(2).sum(), level="L1", statistics={"list": ["lnear"]})
    assert any("Nothing was recorded" in text for text in caplog.messages)
    assert sum("No call matched 'lnear'" in text for text in caplog.messages) == 1


@pytest.mark.parametrize(
    "section",
    [
        {"list": ["Functional.linear.0"]},
        {"list": ["head"], "data_mode": ["forward"]},
        {"list": ["nothing"]},
        {"scope": ["Functional.linear.1.forward", "Functional.linear.2.forward"]},
        *({"data_mode": [mode]} for mode in ("input", "output", "forward", "backward")),
    ],
)
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_no_tensor_is_saved_of_what_is_not_recorded(
    level: str, section: dict[str, list[str]], tmp_path: Path
) -> None:
    """A whole step may not fit on the disk: that is what the filters are for."""
    if level == "L0" and "scope" in section:
        section = {"scope": ["Module.layers.0.mlp.GatedMLP.forward.0"] * 2}
    model = Decoder(layers=1)
    with suppress(FileNotFoundError):  # of a dump in which nothing is
        record(tmp_path, lambda: step(model), model, task="tensor", level=level, tensor=section)
    folder = tmp_path / "dump" / "step0" / "rank"
    texts = [file.read_text() for file in folder.glob("dump.json")]
    named = {name for text in texts for name in re.findall(r'"data_name": "([^"]+)"', text)}
    indexes = [json.loads(file.read_text()) for file in folder.glob("*/index.json")]
    unnamed = {name for index in indexes for name in index} - named
    # What is around the end of the scope had its gradient before.
    assert {name for name in unnamed if "scope" not in section or "Module" not in name} == set()
    assert len(unnamed) < 5


def test_a_scope_reaches_from_the_forward_pass_to_backward_calls_of_before(tmp_path: Path) -> None:
    scope = ["Functional.linear.4.forward", "Functional.linear.0.backward"]
    whole = record(tmp_path / "whole", lambda: step(Decoder(layers=1)), level="L1")
    part = record(
        tmp_path / "part", lambda: step(Decoder(layers=1)), level="L1", statistics={"scope": scope}
    )
    names = list(whole.data)
    assert list(part.data) == names[names.index(scope[0]) : names.index(scope[1]) + 1]


@pytest.mark.parametrize(
    "section",
    [
        {"list": ["layers.1.mlp.GatedMLP"]},
        {"list": ["Functional.linear.3.backward"]},
        {"scope": ["Module.layers.0.mlp.GatedMLP.forward.0"] * 2},
        {"scope": ["Functional.linear.1.forward", "Functional.linear.2.backward"]},
        # What is around the first call has its gradient before the scope begins.
        {"scope": ["Functional.linear.9.backward", "Functional.linear.2.backward"]},
        {"scope": ["Module.layers.1.mlp.GatedMLP.backward.0"] * 2},
    ],
)
def test_filters_change_nothing_in_what_they_keep(
    tmp_path: Path, section: dict[str, list[str]]
) -> None:

    def recorded(name: str, section: dict[str, list[str]]) -> dict[str, Any]:
        torch.manual_seed(0)
        model = Decoder(layers=2)
        return record(tmp_path / name, lambda: step(model), model, statistics=section).data

    whole, part = recorded("whole", {}), recorded("part", section)
    kept = [name for name in part if ".parameters_grad" not in name]
    assert 0 < len(kept) < len(whole)
    for name in kept:
        own = part[name]
        if own.get("input_args") == []:  # the scope began inside of it, when they were past
            own |= {key: whole[name][key] for key in ("input_args", "input_kwargs")}
        assert own == whole[name]
