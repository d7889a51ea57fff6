"""The builder takes recorded makers where a dump has them, also where statistics mislead."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.producers import producers
from msprobe_builder.pipeline.compare import read_rank
from tests.collector.recording import record


def made_by(directory: Path) -> dict[str, str]:
    """By name of a tensor that a call is given that of the one it came from."""
    texts = Texts()
    side, _ = read_rank(directory, texts)
    tree, table = side.tree, side.table

    def name(row: Any) -> str:
        return f"{tree.names[table.node[row]]} {texts.values[table.name_id[row]]}"

    found = producers(tree, tree.calls, table)
    return {name(row): name(one) for row, one in enumerate(found) if one >= 0}


def recorded(path: Path, **section: Any) -> dict[str, str]:
    x = torch.tensor([1.0, 2.0, 4.0])
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Identity())

    def step() -> None:
        flipped, rolled = x.neg().flip(0), x.neg().roll(1)  # with the same statistics
        net(flipped).sin()
        rolled.cos()

    return made_by(record(path, step, net, **section).directory)


def test_equal_statistics_do_not_mislead_where_makers_are_recorded(tmp_path: Path) -> None:
    inferred = recorded(tmp_path / "without", statistics={"flow": False})
    truly = recorded(tmp_path / "with")
    linear = "Module.0.Linear.forward.0 input.0"
    assert inferred[linear] == "Tensor.roll.0.forward output.0"
    assert truly[linear] == "Tensor.flip.0.forward output.0"
    assert truly["Tensor.cos.0.forward input.0"] == "Tensor.roll.0.forward output.0"
    # What a module is given is handed on to the calls inside, as before.
    assert truly["Functional.linear.0.forward input.0"] == linear
    put_out = "Module.0.Linear.forward.0 output.0"
    assert truly[put_out] == "Functional.linear.0.forward output.0"
    # A module that puts out what it was given has not made it.
    source = truly["Tensor.sin.0.forward input.0"]
    assert source != "Module.1.Identity.forward.0 output.0"
    while source in truly:
        source = truly[source]
    assert source == "Functional.linear.0.forward output.0"
