"""Faults between two steps: what the optimizer does wrong, recorded or only seen in the weights.

``python -m tests.faults.optimizers FOLDER [WORD …]`` trains three steps, each with one fault of the
optimizer or none, with its calls recorded and without, and prints who is accused.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.architectures.decoders import Gpt2
from tests.faults.noise import RelativeNoise

STEPS = 3


@dataclass(frozen=True)
class Training:
    """How a model is trained; the default is right."""

    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW
    rate: float = 1e-2
    epsilon: float = 1e-8
    betas: tuple[float, float] = (0.9, 0.95)
    decay: float = 0.1
    clip: float | None = 0.5
    skipped: int | None = None  # a step without update
    keeps_gradients: bool = False
    dropout: float = 0.0
    random: int = 0  # seed of what is drawn
    weights: int = 3  # seed of those it begins with
    noise: float = 0.0  # of each kernel
    half: bool = False


FAULTS: dict[str, Training] = {
    "rate": Training(rate=2e-2),
    "epsilon": Training(epsilon=1e-3),
    "betas": Training(betas=(0.5, 0.95)),
    "decay": Training(decay=0.0),
    "clip": Training(clip=0.05),
    "no clip": Training(clip=None),
    "missing step": Training(skipped=0),
    "later missing step": Training(skipped=1),
    "gradients kept": Training(keeps_gradients=True),
    "other optimizer": Training(optimizer=torch.optim.Adam),
}

CONTROLS: dict[str, tuple[Training, Training]] = {
    "control": (Training(), Training()),
    "noise": (Training(noise=1e-6), Training()),
    "large noise": (Training(noise=1e-5), Training()),
    "bfloat16": (Training(half=True), Training()),
    "dropout": (Training(dropout=0.2), Training(dropout=0.2)),
    "other dropout": (Training(dropout=0.2, random=1), Training(dropout=0.2)),
}


def train(folder: Path, training: Training, *, recorded: bool) -> Path:
    """Record three steps; ``recorded`` says whether the optimizer is, too."""
    torch.manual_seed(training.weights)
    model = Gpt2()
    if training.half:
        model = model.to(torch.bfloat16)
    noise: Any = contextlib.nullcontext()
    if training.noise:
        noise = RelativeNoise(training.noise, seed=1)
    options: dict[str, Any] = {"eps": training.epsilon, "betas": training.betas}
    optimizer = training.optimizer(
        model.parameters(), lr=training.rate, weight_decay=training.decay, foreach=False, **options
    )
    debugger = PrecisionDebugger(config_path=write_config(folder, level="mix"))
    random = torch.Generator().manual_seed(11)
    torch.manual_seed(5 + training.random)
    for step in range(STEPS):
        words = torch.randint(0, 64, (2, 12), generator=random)
        labels = torch.randint(0, 64, (24,), generator=random)
        if not (training.keeps_gradients and step):
            optimizer.zero_grad()
        debugger.start(model)
        with noise:
            logits = model(words).flatten(0, 1)
            if training.dropout:
                logits = nn.functional.dropout(logits, training.dropout)
            nn.functional.cross_entropy(logits.float(), labels).backward()
        if not recorded:
            debugger.stop()
        if training.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        if training.skipped != step:
            optimizer.step()
        if recorded:
            debugger.stop()
        debugger.step()
    debugger.close()
    return folder / "dump"


def judged(npu: Path, bench: Path, output: Path) -> Verdict:
    """The verdict on two dumps."""
    result = build(BuildConfig(npu, bench), output, workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def main(folder: Path, words: list[str]) -> None:
    """Print who is accused of what."""
    pairs = {**CONTROLS, **{name: (wrong, Training()) for name, wrong in FAULTS.items()}}
    for recorded in (True, False):
        for name, (wrong, right) in pairs.items():
            title = f"{name} {'recorded' if recorded else 'unrecorded'}"
            if words and not any(word in title for word in words):
                continue
            npu = train(folder / title / "npu", wrong, recorded=recorded)
            bench = train(folder / title / "bench", right, recorded=recorded)
            verdict = judged(npu, bench, folder / "out")
            print(f"{title}: {verdict.conclusion}. {verdict.sentence}")
            for one in verdict.suspects[:5]:
                print(f"    {one.strength} step {one.step} {one.side} {one.node} {one.cause}")
            print("   ", [(place.step, place.conclusion) for place in verdict.places], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
