"""What a filter left out of a dump is told from the dump itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.verdict.differences.left_out import LeftOut, left_out_of
from msprobe_builder.verdict.model.runs import runs_of
from tests.builder.verdict.columns import Run, compared, measured

API, MODULE = int(Kind.API), int(Kind.MODULE)
FORWARD, BACKWARD = int(Direction.FORWARD), int(Direction.BACKWARD)
NONE: frozenset[int] = frozenset()


def whole() -> Run:
    """Four layers of two calls, forward and back, with gradients of parameters."""
    rng = np.random.default_rng(0)
    run = Run()

    def one() -> Any:
        return measured(rng.normal(size=(3, 4)))

    x = one()
    for layer in range(4):
        module = f"Module.layers.{layer}.Layer.forward.0"
        y, z = one(), one()
        run.call(module, [x], [z], parameters={"weight": one()})
        run.call(f"Torch.tanh.{layer}.forward", [x], [y], within=module)
        run.call(f"Torch.exp.{layer}.forward", [y], [z], within=module)
        x = z
    g = one()
    for layer in range(4)[::-1]:
        h, k = one(), one()
        run.call(f"Torch.exp.{layer}.backward", [g], [h])
        run.call(f"Torch.tanh.{layer}.backward", [h], [k])
        run.call(f"Module.layers.{layer}.Layer.backward.0", [g], [k])
        run.data[f"Module.layers.{layer}.Layer.parameters_grad"] = {"weight": [one()]}
        run.within[f"Module.layers.{layer}.Layer.parameters_grad"] = None
        g = k
    return run


def without(chosen: Callable[[str], bool]) -> Run:
    """The same without some calls; what stood in them stands outside."""
    run = whole()
    kept = [name for name in run.data if not chosen(name)]
    parents = {name: run.within[name] for name in kept}
    return Run(
        {name: run.data[name] for name in kept},
        {name: above if above in kept else None for name, above in parents.items()},
    )


def stripped(*keys: str) -> Run:
    run = whole()
    for name, record in run.data.items():
        if "parameters_grad" not in name:
            run.data[name] = {key: value for key, value in record.items() if key not in keys}
    return run


def told(debug: Run, reference: Run) -> LeftOut:
    runs = runs_of(compared(debug, reference))
    return left_out_of(runs.npu, runs.bench)


def mirrored(one: LeftOut) -> LeftOut:
    return LeftOut(
        (one.skips[1], one.skips[0]),
        (one.kinds[1], one.kinds[0]),
        (one.ways[1], one.ways[0]),
        *(one.modules, one.inputs, one.outputs, one.forward, one.gradients),
    )


def test_nothing_is_left_out_of_whole_runs() -> None:
    found = told(whole(), whole())
    assert found == LeftOut()
    assert (found.calls, found.is_filtered) == (False, False)


LACKING: dict[str, tuple[Run, LeftOut]] = {
    "one of the calls": (
        without(lambda name: name.startswith("Torch.exp.1.")),
        LeftOut(skips=(True, False)),
    ),
    "the first of the calls": (
        without(lambda name: name.startswith("Torch.exp.0.")),
        LeftOut(skips=(True, False)),
    ),
    "the last of the calls, which nobody misses": (
        without(lambda name: name.startswith("Torch.exp.3.")),
        LeftOut(),
    ),
    "the forward half of the last": (
        without(lambda name: name == "Torch.exp.3.forward"),
        LeftOut(skips=(True, False)),
    ),
    "all of an operator, which is none that the recorder knows": (
        without(lambda name: name.startswith("Torch.exp.")),
        LeftOut(),
    ),
    "calls": (
        without(lambda name: name.startswith("Torch.")),
        LeftOut(kinds=(frozenset({API}), NONE)),
    ),
    "modules": (
        without(lambda name: name.startswith("Module.")),
        LeftOut(kinds=(frozenset({MODULE}), NONE)),
    ),
    "the way back": (
        without(lambda name: "backward" in name),
        LeftOut(ways=(frozenset({BACKWARD}), NONE), gradients=True),
    ),
    "the way back, of inference": (
        without(lambda name: "backward" in name or "parameters_grad" in name),
        LeftOut(ways=(frozenset({BACKWARD}), NONE)),
    ),
    "what is given": (stripped("input_args", "input_kwargs", "input"), LeftOut(inputs=True)),
    "what is put out": (stripped("output"), LeftOut(outputs=True)),
}


@pytest.mark.parametrize("name", LACKING)
def test_what_one_side_lacks_is_told_on_its_side(name: str) -> None:
    run, right = LACKING[name]
    found = told(run, whole())
    assert found == right
    assert told(whole(), run) == mirrored(right)
    is_calls = any(right.skips) or any(right.kinds)
    assert found.calls is is_calls
    is_filtered = is_calls or right.inputs or right.outputs or right.gradients
    assert found.is_filtered is is_filtered
