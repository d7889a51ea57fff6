"""What optimizers do between steps: told by sketches of weights, of trainings and drawn ones.

The trainings are recorded without the optimizer: ``stop()`` comes before its step.
"""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.sketch.definition import sketch_of
from msprobe_builder.verdict.steps.updates import Kept, compare_updates
from msprobe_collector import PrecisionDebugger

Float = NDArray[np.float64]
Optimizer = Callable[[nn.Module], torch.optim.Optimizer]

STEPS = 3


class Block(nn.Module):
    """Two layers beside a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.first, self.second = nn.Linear(24, 48), nn.Linear(48, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A residual block."""
        made: torch.Tensor = self.second(torch.tanh(self.first(self.norm(x))))
        return x + made


def blocks() -> nn.Module:
    """A small network of modules."""
    return nn.Sequential(nn.Linear(16, 24), Block(), Block(), nn.Linear(24, 8))


def recorded(
    folder: Path,
    optimizer: Optimizer,
    dtype: torch.dtype | None = None,
    *,
    made: Callable[[], nn.Module] = blocks,
    noise: float = 0.0,
) -> Path:
    """A training of a few steps; ``noise`` is added to the weights behind the first of them."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        net = made()
        batches = [(torch.randn(12, 16), torch.randn(12, 8)) for _ in range(STEPS)]
    chosen, drawn = optimizer(net), torch.Generator().manual_seed(7)
    debugger = PrecisionDebugger(dump_path=folder, task="statistics", level="mix")
    for x, y in batches:
        debugger.start(model=net)
        with torch.autocast("cpu", dtype) if dtype else nullcontext():
            loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        debugger.stop()
        chosen.step()
        chosen.zero_grad()
        with torch.no_grad():
            for one in net.parameters():
                one.mul_(1 + noise * torch.randn(one.shape, generator=drawn))
        noise = 0.0
        debugger.step()
    PrecisionDebugger.close()
    return folder


def verdict_of(
    folder: Path, debug: Optimizer, reference: Optimizer, dtype: torch.dtype | None = None
) -> Verdict:
    """The verdict on two trainings."""
    npu = recorded(folder / "npu", debug, dtype)
    built = build(BuildConfig(npu, recorded(folder / "bench", reference)), folder / "out")
    with opened(built.path) as connection:
        found = read_verdict(connection)
    assert found is not None
    return found


class Functional(nn.Module):
    """A program that keeps its weights by name, and gives them to calls itself."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"first": (24, 16), "second": (24, 24), "last": (8, 24)}
        drawn = {name: nn.Parameter(torch.randn(size) * 0.2) for name, size in sizes.items()}
        self.weights = nn.ParameterDict(drawn)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Three layers."""
        for name in ("first", "second"):
            x = torch.tanh(nn.functional.linear(x, self.weights[name]))
        return nn.functional.linear(x, self.weights["last"])


def sgd(**settings: Any) -> Optimizer:
    """Plain descent, with momentum if asked for."""
    return lambda net: torch.optim.SGD(net.parameters(), **{"lr": 0.05, **settings})


def adam(**settings: Any) -> Optimizer:
    """AdamW."""
    return lambda net: torch.optim.AdamW(net.parameters(), **{"lr": 1e-3, **settings})


def signs(net: nn.Module) -> torch.optim.Optimizer:
    """Every element moves by as much."""
    return torch.optim.Rprop(net.parameters(), lr=1e-4)


def groups(net: nn.Module) -> torch.optim.Optimizer:
    """The last layer learns at a rate of its own, which the run under debug has lost."""
    last = [one for name, one in net.named_parameters() if name.startswith("3.")]
    rest = [one for name, one in net.named_parameters() if not name.startswith("3.")]
    both: list[dict[str, Any]] = [{"params": rest}, {"params": last, "lr": 1e-2}]
    return torch.optim.AdamW(both, lr=1e-3)


OTHERS = {
    "rate": (sgd(lr=0.06), sgd(), "update.factor", ("factor", 1.2)),
    "rate of half": (adam(lr=5e-4), adam(), "update.factor", ("factor", 0.5)),
    "decay": (adam(weight_decay=1.0), adam(weight_decay=0.1), "update.decay", ("share", 0.09)),
    "no decay": (adam(weight_decay=0.0), adam(), "update.decay.less", ("share", 0.001)),
    "group": (adam(), groups, "update.factor", ("factor", 0.1)),
    "rule": (signs, sgd(), "update.other", ("weights", None)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_another_optimizer_is_told_by_what_it_does(tmp_path: Path, case: str) -> None:
    debug, reference, code, (name, size) = OTHERS[case]
    first = verdict_of(tmp_path, debug, reference).suspects[0]
    assert (first.cause, first.strength, first.step) == ("update", "strong", 1)
    [told] = [one for one in first.facts if one.code == code]
    assert size is None or told.arguments[name] == pytest.approx(size, rel=0.1)


@pytest.mark.parametrize("case", ["rate of half", "decay", "group"])
def test_so_it_is_under_half_precision(tmp_path: Path, case: str) -> None:
    debug, reference, code, _ = OTHERS[case]
    first = verdict_of(tmp_path, debug, reference, torch.bfloat16).suspects[0]
    assert (first.cause, first.strength, first.step) == ("update", "strong", 1)
    assert code in [one.code for one in first.facts]


@pytest.mark.parametrize("optimizer", [sgd(momentum=0.9), adam(), groups])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_noise_accuses_no_optimizer(
    tmp_path: Path, optimizer: Optimizer, dtype: torch.dtype | None
) -> None:
    found = verdict_of(tmp_path, optimizer, optimizer, dtype)
    assert not [one for one in found.suspects if one.strength == "strong"]
    assert not [one for one in found.suspects if one.cause in ("update", "weight", "weights")]


@pytest.mark.parametrize(("noise", "is_fault"), [(1e-6, False), (0.05, True)])
def test_weights_that_calls_are_given_carry_on_what_the_step_before_left(
    tmp_path: Path, noise: float, is_fault: bool
) -> None:
    npu = recorded(tmp_path / "npu", adam(), made=Functional, noise=noise)
    bench = recorded(tmp_path / "bench", adam(), made=Functional)
    built = build(BuildConfig(npu, bench), tmp_path / "out")
    with opened(built.path) as connection:
        found = read_verdict(connection)
    assert found is not None
    certain = [one.cause for one in found.suspects if one.strength == "strong"]
    assert bool(certain) is is_fault
    assert {*certain} <= {"update", "weight", "weights"}


COUNT, SHAPE = 12, (40, 24)


def kept(weights: list[tuple[Float, Float]]) -> Kept:
    """Weights of both runs as a step begins with them."""
    numbers = np.array([[sketch_of(one).numbers for one in both] for both in weights])
    return Kept(
        [f"layer{place}.weight" for place in range(len(weights))],
        np.arange(len(weights)) + 1,
        np.array([both[0].size for both in weights]),
        np.full(len(weights), 2.0**-24),
        numbers.transpose(1, 0, 2).astype(np.float64),
    )


def compared(
    change: Callable[[int, Float, Float], Float], noise: float, draw: np.random.Generator
) -> tuple[str, float, int] | None:
    """Of updates that the run under debug changes, beside noise of that size."""
    before, after = [], []
    for place in range(COUNT):
        weight = draw.normal(0, 0.02, SHAPE)
        update = draw.normal(0, 1e-4, SHAPE)
        own = change(place, update, weight) + noise * 1e-4 * draw.normal(0, 1, SHAPE)
        before.append((weight, weight))
        after.append((weight + own, weight + update))
    moved = compare_updates(kept(before), kept(after), noise).moved
    return None if moved is None else (moved.kind, moved.size, moved.weights)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.05])
def test_drawn_updates_are_told_apart(noise: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    assert compared(lambda _, update, __: update, noise, draw) is None
    factor = compared(lambda _, update, __: 1.4 * update, noise, draw)
    assert factor is not None
    assert (factor[0], factor[2]) == ("factor", COUNT)
    assert factor[1] == pytest.approx(1.4, rel=0.05)
    decay = compared(lambda _, update, weight: update - 2e-3 * weight, noise, draw)
    assert decay is not None
    assert (decay[0], decay[2]) == ("decay", COUNT)
    assert decay[1] == pytest.approx(2e-3, rel=0.1)


def test_one_weight_of_its_own_rate_is_told() -> None:
    draw = np.random.default_rng(5)
    alone = compared(lambda at, update, _: update * (0.1 if at == 4 else 1.0), 1e-6, draw)
    assert alone is not None
    assert (alone[0], alone[2]) == ("factor", 1)


def test_updates_in_no_direction_are_told_beside_noise_alone() -> None:
    draw = np.random.default_rng(6)

    def another(_: int, update: Float, __: Float) -> Float:
        return update + 0.5 * 1e-4 * draw.normal(0, 1, SHAPE)

    other = compared(another, 1e-6, draw)
    assert other is not None
    assert other[0] == "other"
    assert compared(another, 0.05, draw) is None


def test_what_rounding_hides_is_not_told() -> None:
    draw = np.random.default_rng(7)
    weight = [draw.normal(0, 1, SHAPE) for _ in range(COUNT)]
    moved = [(one * (1 + 2e-7), one * (1 + 1e-7)) for one in weight]
    found = compare_updates(kept([(one, one) for one in weight]), kept(moved), 1e-6)
    assert found.moved is None
    assert found.alike == 0


@pytest.mark.parametrize("is_off", [False, True])
def test_one_weight_that_moves_elsewhere_explains_nothing(is_off: bool) -> None:
    draw = np.random.default_rng(8)
    before, after = [], []
    for place in range(COUNT):
        weight, update = draw.normal(0, 0.02, SHAPE), draw.normal(0, 1e-4, SHAPE)
        own = update + (1e-4 * draw.normal(0, 1, SHAPE) if is_off and place == 3 else 0.0)
        before.append((weight, weight))
        after.append((weight + own, weight + update))
    found = compare_updates(kept(before), kept(after), 1e-6)
    assert found.moved is None
    assert found.alike == (0 if is_off else 1)


def test_without_a_verdict_no_weights_are_kept(tmp_path: Path) -> None:
    npu, bench = (recorded(tmp_path / side, sgd()) for side in ("npu", "bench"))
    for is_judged in (True, False):
        options = BuildOptions(verdict=is_judged)
        built = build(BuildConfig(npu, bench, options=options), tmp_path / f"{is_judged}")
        with opened(built.path) as connection:
            (count,) = connection.execute("SELECT count(*) FROM evidence").fetchone()
        assert bool(count) is is_judged


def test_weights_that_are_paired_otherwise_in_the_next_step_have_another_name(
    tmp_path: Path,
) -> None:
    """Two layers of one size, which trade their names in the debug run behind the first step."""

    def traded(folder: Path, *, trades: bool) -> Path:
        with torch.random.fork_rng():
            torch.manual_seed(5)
            net = nn.ModuleDict({name: nn.Linear(24, 24) for name in ("first", "second")})
            batches = [torch.randn(12, 24) for _ in range(2)]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        debugger = PrecisionDebugger(dump_path=folder, task="statistics", level="mix")
        order = ["first", "second"]
        for x in batches:
            debugger.start(model=net)
            y = x
            for name in order:
                y = torch.tanh(net[name](y))
            (y**2).mean().backward()
            debugger.stop()
            optimizer.step()
            optimizer.zero_grad()
            if trades:
                net["first"], net["second"] = net["second"], net["first"]
                order.reverse()
            debugger.step()
        PrecisionDebugger.close()
        return folder

    npu, bench = (traded(tmp_path / side, trades=side == "npu") for side in ("npu", "bench"))
    built = build(BuildConfig(npu, bench), tmp_path / "out")
    with opened(built.path) as connection:
        names = connection.execute(
            "SELECT DISTINCT step, value FROM evidence JOIN node USING (node_id)"
            " JOIN graph USING (graph_id) JOIN text ON text_id = maker_name_id"
            " WHERE value LIKE '%weight'"
        ).fetchall()
    first, second = "Module.first.weight", "Module.second.weight"
    right = {(0, first), (0, second), (1, f"{first} / {second}"), (1, f"{second} / {first}")}
    assert set(names) == right
