"""Dumps that leave something out: by a filter, by another level, or because the run ended."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_builder.database.read.verdict import Verdict
from tests.collector.recording import record
from tests.faults.judging import SIDE, verdict_on

WORDS = 32


class Block(nn.Module):
    """A layer whose share is multiplied by ``gain``, and its gradient by ``slope``."""

    def __init__(self, gain: float, slope: float) -> None:
        super().__init__()
        self.up = nn.Linear(SIDE, SIDE)
        self.gain, self.slope = gain, slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + Sloped.apply(self.up(x).tanh(), self.slope) * self.gain


class Sloped(torch.autograd.Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx, x, slope):  # type: ignore[no-untyped-def]
        ctx.slope = slope
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * ctx.slope, None


class Model(nn.Module):
    """Four layers; one may be wrong, forward or back."""

    def __init__(self, wrong: int | None = None, back: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embed = nn.Embedding(WORDS, SIDE)
        self.layers = nn.ModuleList(
            Block(1.5 if place == wrong else 1.0, 0.5 if place == back else 1.0)
            for place in range(4)
        )

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()


def recorded(
    folder: Path, model: Model, passes: int = 2, shift: int = 0, ends: bool = False, **config: Any
) -> Path:
    """The dump of a step of some passes; ``ends`` behind the last one forward."""
    torch.manual_seed(5)
    batches = [(torch.randint(0, WORDS, (4, 6)) + shift) % WORDS for _ in range(4)][:passes]

    def step() -> None:
        for number, words in enumerate(batches):
            loss = model(words)
            if not (ends and number == passes - 1):
                loss.backward()

    return record(folder, step, model, **config).directory


def verdict(folder: Path, npu: Path, bench: Path) -> Verdict:
    return verdict_on(npu, bench, folder / "out")


def both(folder: Path, model: Model, section: dict[str, Any], **more: Any) -> Verdict:
    """The verdict on a model beside the correct one, both recorded with the same filter."""
    npu = recorded(folder / "npu", model, statistics=section, **more)
    return verdict(folder, npu, recorded(folder / "bench", Model(), statistics=section))


def layers(*places: int) -> dict[str, Any]:
    return {"list": [f"layers.{place}." for place in places]}


def scope(first: int, last: int) -> dict[str, Any]:
    return {"scope": [f"Module.layers.{place}.Block.forward.0" for place in (first, last)]}


@pytest.mark.parametrize("section", [layers(2), layers(2, 3), scope(2, 3)], ids=str)
def test_what_ran_before_the_recorded_calls_is_not_called_data(
    tmp_path: Path, section: dict[str, Any]
) -> None:
    told = both(tmp_path, Model(wrong=0), section)
    first = told.suspects[0]
    assert (told.conclusion, first.cause) == ("fault", "unrecorded")
    assert first.node == "Module.layers.2.Block.forward.0"
    assert "what runs before" in told.sentence.lower()
    assert "other data was given" not in told.sentence
    assert told.next_dump is not None
    assert "list" not in told.next_dump["config"]["statistics"]


@pytest.mark.parametrize("section", [layers(2), layers(0, 2), scope(1, 3)], ids=str)
def test_a_fault_among_the_recorded_calls_is_named(tmp_path: Path, section: dict[str, Any]) -> None:
    first = both(tmp_path, Model(wrong=2), section).suspects[0]
    assert (first.node, first.strength) == ("Tensor.__mul__.5.forward", "strong")


def test_a_fault_between_recorded_layers_lies_before_the_second(tmp_path: Path) -> None:
    first = both(tmp_path, Model(wrong=1), layers(0, 3)).suspects[0]
    assert (first.node, first.cause) == ("Module.layers.3.Block.forward.0", "unrecorded")


def test_gradients_of_a_way_back_that_was_not_recorded_accuse_no_module(tmp_path: Path) -> None:
    told = both(tmp_path, Model(back=3), scope(1, 2))
    first = told.suspects[0]
    assert first.cause == "unrecorded"
    assert "the calls on the way back that made it were not recorded" in told.sentence


def test_a_gradient_that_was_not_recorded_was_given_by_no_data(tmp_path: Path) -> None:
    told = both(tmp_path, Model(back=3), layers(1))
    assert told.suspects[0].cause == "unrecorded"
    assert told.suspects[0].node == "Module.layers.1.Block.backward.0"


def test_of_outputs_alone_only_the_first_that_differs_is_a_suspect(tmp_path: Path) -> None:
    told = both(tmp_path, Model(wrong=2), {"data_mode": ["output"]})
    [first] = told.suspects
    assert (first.node, first.strength) == ("Tensor.__mul__.5.forward", "weak")
    assert "What it is given was not recorded" in told.sentence
    assert "inputs agree" not in told.sentence


def test_of_inputs_alone_nothing_comes_from_outside(tmp_path: Path) -> None:
    told = both(tmp_path, Model(wrong=2), {"data_mode": ["input"]})
    assert told.suspects[0].node == "Module.layers.2.Block.forward.0"
    assert {one.cause for one in told.suspects} <= {"between", "argument"}


def test_of_the_way_back_alone_nobody_is_accused_of_other_data(tmp_path: Path) -> None:
    told = both(tmp_path, Model(), {"data_mode": ["backward"]}, shift=1)
    assert told.conclusion == "undecided"
    assert "What its forward call is given was not recorded" in told.sentence


def test_of_the_way_back_outputs_alone_are_not_passed_over(tmp_path: Path) -> None:
    told = both(tmp_path, Model(back=2), {"data_mode": ["backward", "output"]})
    assert told.suspects
    assert "nothing is wrong with those" not in told.sentence


@pytest.mark.parametrize("side", ["npu", "bench"])
@pytest.mark.parametrize(
    "section", [layers(2), scope(1, 2), {"data_mode": ["forward"]}, {"list": ["linear"]}], ids=str
)
def test_calls_that_one_side_filters_are_not_missing(
    tmp_path: Path, section: dict[str, Any], side: str
) -> None:
    bench = recorded(tmp_path / "bench", Model(), statistics=section if side == "bench" else {})
    for name, model in (("right", Model()), ("wrong", Model(wrong=0))):
        npu = recorded(tmp_path / name, model, statistics=section if side == "npu" else {})
        told = verdict(tmp_path / name, npu, bench)
        assert not {"extra", "missing", "wiring"} & {one.cause for one in told.suspects}
        assert told.conclusion == "fault" or name == "right"
        if name == "right":
            assert not told.suspects
            assert "What a dump leaves out of the run was not judged." in told.sentence


def test_a_recorder_that_names_what_it_leaves_out_is_understood(tmp_path: Path) -> None:
    npu = recorded(tmp_path / "npu", Model(wrong=0), statistics=layers(2))
    bench = recorded(tmp_path / "bench", Model(), statistics=layers(2))
    whole = recorded(tmp_path / "whole", Model())
    for folder in (npu, bench):
        (folder / "construct.json").write_text((whole / "construct.json").read_text())
    assert verdict(tmp_path, npu, bench).suspects[0].cause == "unrecorded"


def test_modules_alone_of_one_side_are_judged_as_modules(tmp_path: Path) -> None:
    modules = recorded(tmp_path / "modules", Model(), level="L0")
    calls = recorded(tmp_path / "calls", Model())
    wrong = {
        "L0": recorded(tmp_path / "wrong_modules", Model(wrong=2), level="L0"),
        "mix": recorded(tmp_path / "wrong_calls", Model(wrong=2)),
    }
    for level, npu, bench in (("L0", modules, calls), ("mix", calls, modules)):
        right = verdict(tmp_path / f"right_{level}", npu, bench)
        assert (right.conclusion, right.suspects) == ("clean", ())
        first = verdict(tmp_path / f"wrong_{level}", wrong[level], bench).suspects[0]
        assert (first.node, first.strength) == ("Module.layers.2.Block.forward.0", "strong")


def test_a_run_that_ended_early_lacks_no_call(tmp_path: Path) -> None:
    npu = recorded(tmp_path / "npu", Model(), ends=True)
    told = verdict(tmp_path, npu, recorded(tmp_path / "bench", Model()))
    assert told.suspects == ()
    assert "This run ends before Module.layers.3.Block.backward.1 of the reference" in told.sentence


@pytest.mark.parametrize(("own", "theirs", "which"), [(1, 2, "This run"), (3, 2, "The reference")])
def test_a_micro_step_of_one_side_was_not_judged(
    tmp_path: Path, own: int, theirs: int, which: str
) -> None:
    npu = recorded(tmp_path / "npu", Model(), own)
    told = verdict(tmp_path, npu, recorded(tmp_path / "bench", Model(), theirs))
    assert told.suspects == ()
    assert f"{which} ends before Module.embed.Embedding.forward.{min(own, theirs)}" in told.sentence


def test_half_of_what_the_reference_does_is_not_enough(tmp_path: Path) -> None:
    npu = recorded(tmp_path / "npu", Model(), 1)
    told = verdict(tmp_path, npu, recorded(tmp_path / "bench", Model(), 4))
    assert told.conclusion == "undecided"


def test_dumps_that_hold_everything_leave_nothing_out(tmp_path: Path) -> None:
    npu, bench = (recorded(tmp_path / name, Model()) for name in ("npu", "bench"))
    told = verdict(tmp_path, npu, bench)
    assert told.conclusion == "clean"
    assert "not judged" not in told.sentence


class Halved(nn.Module):
    """Judges the first samples apart from the others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.see, self.tell = nn.Conv2d(3, SIDE, 3), nn.Linear(SIDE, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.see(x).relu().mean((2, 3))
        return self.tell(seen[:2]).square().mean() - self.tell(seen[2:]).square().mean()


class Weighed(Halved):
    """What each sample comes to is a number, of which the first counts more."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        each = self.tell(self.see(x).relu().mean((2, 3))).square().mean(1)
        return each[0] * 2.0 + each.sum()


@pytest.mark.parametrize("kind", [Halved, Weighed])
@pytest.mark.parametrize("summary", ["statistics", "md5"])
def test_samples_in_another_order_accuse_no_call_for_certain(
    tmp_path: Path, summary: str, kind: type[nn.Module]
) -> None:
    torch.manual_seed(3)
    samples = torch.randn(4, 3, 8, 8)
    folders = [
        record(
            tmp_path / name,
            partial(_train, model, samples[order]),
            model,
            statistics={"summary_mode": summary},
        ).directory
        for name, order, model in (
            ("npu", [2, 0, 3, 1], kind()),
            ("bench", [0, 1, 2, 3], kind()),
        )
    ]
    told = verdict(tmp_path, *folders)
    assert {one.strength for one in told.suspects} <= {"weak"}
    assert "So would samples that were given in another order." in told.sentence


def _train(model: nn.Module, samples: torch.Tensor) -> None:
    model(samples).backward()


class Skipping(Model):
    """One that leaves a call out."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self.skips = skips

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        for place, layer in enumerate(self.layers):
            x = layer(x)
            x = x if self.skips and place == 1 else x.mul(0.5)
        return x.square().mean()


@pytest.mark.parametrize("side", ["npu", "bench"])
@pytest.mark.parametrize("how", ["ends", "filtered"])
def test_a_call_is_missing_though_one_side_has_no_way_back(
    tmp_path: Path, how: str, side: str
) -> None:
    cut: dict[str, Any] = (
        {"ends": True} if how == "ends" else {"statistics": {"data_mode": ["forward"]}}
    )
    made = {
        one: recorded(tmp_path / one, Skipping(one == "npu"), 1, **(cut if one == side else {}))
        for one in ("npu", "bench")
    }
    first = verdict(tmp_path, made["npu"], made["bench"]).suspects[0]
    assert (first.node, first.cause, first.side) == ("Tensor.mul.1.forward", "missing", "bench")


class Stopping(Model):
    """One that ends behind its second layer."""

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.embed(words)
        for layer in self.layers[:2]:
            x = layer(x)
        return x


def test_a_run_that_ended_on_its_way_ahead_says_so(tmp_path: Path) -> None:
    npu = recorded(tmp_path / "npu", Stopping(), 1, ends=True)
    told = verdict(tmp_path, npu, recorded(tmp_path / "bench", Model(), 1))
    assert told.suspects == ()
    assert "This run ends before" in told.sentence
    assert "What a dump leaves out" not in told.sentence


class Measured(Block):
    """A layer that computes something of what it puts out that nobody uses."""

    def __init__(self, power: float) -> None:
        super().__init__(1.0, 1.0)
        self.power = power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = super().forward(x)
        made.detach().abs().pow(self.power).mul(2.0)
        return made


def measured(power: float, wrong: int | None = None) -> Model:
    model = Model(wrong)
    model.layers[0] = Measured(power)
    return model


def test_what_nobody_uses_does_not_hide_what_was_left_out(tmp_path: Path) -> None:
    chosen = layers(0, 3)
    npu = recorded(tmp_path / "npu", measured(2.0, wrong=2), statistics=chosen)
    told = verdict(tmp_path, npu, recorded(tmp_path / "bench", measured(3.0), statistics=chosen))
    assert "Module.layers.3.Block.forward.0" in {
        one.node for one in told.suspects if one.cause == "unrecorded"
    }


def test_a_long_number_in_a_name_ends_no_build(tmp_path: Path) -> None:
    for side in ("npu", "bench"):
        folder = recorded(tmp_path / side, Model(), level="L0")
        for file in folder.rglob("*.json"):
            file.write_text(file.read_text().replace("layers.2.", f"layers.{'7' * 4400}."))
    told = verdict(tmp_path, tmp_path / "npu" / "dump", tmp_path / "bench" / "dump")
    assert told.conclusion == "clean"
