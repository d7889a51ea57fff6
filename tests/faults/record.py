"""Run a case: two training steps of a small model, dumped, and the truth about them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from msprobe_builder.dump.names import Direction, format_name, parse_name
from tests.alignment.respell import (
    chained,
    is_layer,
    other_attributes,
    other_classes,
    recording,
    wrapped,
)
from tests.collector.recording import Dump, record
from tests.faults.architectures.catalogue import ARCHITECTURES
from tests.faults.case import (
    AUTOCAST,
    FP16,
    FP16_TWICE,
    HALF,
    HALF_TWICE,
    KERNELS,
    NOISE,
    ONE_BATCH,
    PURE,
    RECOMPUTED,
    REFERENCE_KERNELS,
    REFERENCE_RECOMPUTED,
    RESPELLED,
    TF32,
    TF32_CONVOLUTIONS,
    Case,
)
from tests.faults.noise import CONVOLUTIONS, PRODUCTS, ReducedProducts, RelativeNoise
from tests.faults.planting import culprit_lines, fault, planted

FOLDER = Path(__file__).parent
LEVEL = 1e-6
OTHER_KERNELS = 3e-8  # what another order of adding up makes of single precision
HALF_LEVEL = 1e-4  # moves about one element in ten to the next number of float16


def run(case: Case, folder: Path) -> set[str]:
    """Dump both runs below ``folder``; returns the names of the calls that are to blame."""
    with fault(case.fault, case.layer):
        npu = _record(case, folder / "npu", is_npu=True)
    bench = _record(case, folder / "bench", is_npu=False)
    truth = culprits(case, npu) | culprits(case, bench)
    if case.kind == RESPELLED:
        truth |= respell(npu, truth)
    if case.level != "L0" or case.fault is None:
        return truth
    # Of modules alone the one in which the call is made is to blame.
    found = set()
    with fault(case.fault, case.layer):
        whole = _record(replace(case, level="mix"), folder / "whole_npu", is_npu=True)
    for dump in (whole, _record(replace(case, level="mix"), folder / "whole", is_npu=False)):
        for name in culprits(case, dump):
            above = (one for one in _ancestry(name, dump) if one.startswith("Module."))
            found.add(next(above, None) or _next_module(name, dump))
            found |= _told_behind(name, dump)
    if case.direction == "backward":  # what a module gives back to its parameters as well
        stems = {parse_name(one).stem for one in found}
        found |= {
            one for one in [*npu.data, *bench.data] if one.partition(".parameters_grad")[0] in stems
        }
    return found


def _record(case: Case, folder: Path, *, is_npu: bool) -> Dump:
    model, step = prepared(case, is_npu=is_npu)
    summary = {"summary_mode": case.summary} if case.task == "statistics" else {}
    return record(folder, step, model, level=case.level, task=case.task, **{case.task: summary})


def prepared(case: Case, *, is_npu: bool) -> tuple[nn.Module, Callable[[], None]]:
    """The model of one side, and what trains it for a step."""
    make, kind = ARCHITECTURES[case.architecture]
    torch.manual_seed(case.seed)
    model = make(**dict(case.size), **_way(case, is_npu=is_npu))
    _spread(model)
    batches = [_batch(kind, case.seed + number) for number in range(case.micro_steps)]
    if is_npu and case.kind == ONE_BATCH:
        batches = [(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches]))]
    if planted("weight_changed", False, True):
        _change_weight(model)
    in_half = (HALF, HALF_TWICE) if is_npu else (PURE, HALF_TWICE)
    if case.kind in in_half:
        model = model.to(torch.bfloat16)
        batches = [(x.bfloat16() if x.is_floating_point() else x, y) for x, y in batches]
    noise: Any = contextlib.nullcontext()
    if is_npu and case.kind == NOISE:
        noise = RelativeNoise(LEVEL, case.seed)
    if is_npu and case.kind in (FP16_TWICE, HALF_TWICE):
        noise = RelativeNoise(LEVEL, case.seed, HALF_LEVEL)

    if is_npu and case.kind in (TF32, TF32_CONVOLUTIONS):
        reduced = PRODUCTS if case.kind == TF32 else CONVOLUTIONS
        noise = _both(RelativeNoise(OTHER_KERNELS, case.seed), ReducedProducts(reduced))

    mixed: Any = contextlib.nullcontext()
    if (is_npu and case.kind in (AUTOCAST, FP16, PURE)) or case.kind == FP16_TWICE:
        half = torch.float16 if case.kind in (FP16, FP16_TWICE) else torch.bfloat16
        mixed = torch.autocast("cpu", half)

    def step() -> None:
        with noise, mixed:
            for data, labels in batches:
                loss_of(model, data, labels, len(batches)).backward()
            if hasattr(model, "update"):
                cast(Any, model).update()

    return model, step


@contextlib.contextmanager
def _both(first: Any, second: Any) -> Iterator[None]:
    with first, second:
        yield


def _way(case: Case, *, is_npu: bool) -> dict[str, bool]:
    """How one side computes what the other computes, too."""
    if case.kind in (KERNELS, REFERENCE_KERNELS):
        return {"fused": is_npu == (case.kind == KERNELS)}
    if case.kind in (RECOMPUTED, REFERENCE_RECOMPUTED):
        return {"recompute": is_npu == (case.kind == RECOMPUTED)}
    return {}


def loss_of(
    model: nn.Module, data: torch.Tensor, labels: torch.Tensor, micro_steps: int = 2
) -> torch.Tensor:
    if planted("other_data", False, True):
        data = data.flip(-1) if data.is_floating_point() else (data + 1) % 64
    if hasattr(model, "loss"):
        return cast(Any, model).loss(data, labels)
    logits = model(data)
    logits = logits.reshape(-1, logits.shape[-1])
    if planted("other_labels", False, True):
        labels = labels.roll(1)  # culprit: other_labels
    if planted("gradient_scaled", False, True):
        logits = logits * 1.0
        logits = Doubled.apply(logits)  # culprit: gradient_scaled
    else:
        logits = logits * 1.0
        logits = Doubled.apply(logits)  # culprit: gradient_scaled
    reduction = planted("loss_summed", "mean", "sum")
    loss = F.cross_entropy(
        logits.float(), labels, reduction=reduction
    )  # culprit: loss_summed, other_labels
    return loss / planted("loss_not_averaged", micro_steps, 1)  # culprit: loss_not_averaged


class Doubled(torch.autograd.Function):
    """The identity; its gradient can be made wrong."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        factor = planted("gradient_scaled", 1.0, 0.5)
        return grad * factor  # culprit: gradient_scaled


def _spread(model: nn.Module) -> None:
    """Weights as of a model that has trained a while: nothing is constant."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            with torch.no_grad():
                parameter.add_(0.05 * torch.randn_like(parameter))


def _change_weight(model: nn.Module) -> None:
    matrices = [one for one in model.parameters() if one.dim() > 1]
    with torch.no_grad():
        matrices[len(matrices) // 2].mul_(1.05)


def _batch(kind: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(1000 + seed)
    if kind == "words":
        data = torch.randint(0, 64, (2, 12), generator=random)
        return data, torch.randint(0, 64, (24,), generator=random)
    if kind == "bags":
        data = torch.randint(0, 64, (2, 12), generator=random)
        return data, torch.randint(0, 16, (4,), generator=random)
    data = torch.randn(4, 3, 16, 16, generator=random)
    return data, torch.randint(0, 16, (4,), generator=random)


def respell(dump: Dump, truth: set[str]) -> set[str]:
    """Rename the modules of a dump and wrap its layers; the new names of the culprits."""
    around = wrapped(is_layer, "inner", "Sharded")
    after = chained(other_classes, other_attributes, around)(recording(dump.directory))
    now: dict[str, str] = {first: name for name, first in after.origin.items() if first}
    stacks: dict[str, Any] = json.loads((dump.directory / "stack.json").read_text())
    stacks = {
        key: [[now.get(n, n) for n in names], lines] for key, (names, lines) in stacks.items()
    }
    written = {
        "dump.json": {**after.head, "data": after.data},
        "construct.json": after.parent,
        "stack.json": stacks,
    }
    for file, content in written.items():
        (dump.directory / file).write_text(json.dumps(content))
    return {now[one] for one in truth if one in now}


def culprits(case: Case, dump: Dump) -> set[str]:
    """Names of the calls of a dump that the planted fault makes wrong."""
    if case.is_control or case.fault is None:
        return set()
    lines = culprit_lines(FOLDER / "architectures", case.fault) | culprit_lines(FOLDER, case.fault)
    found = set()
    for name, stack in dump.stacks.items():
        frame = next((one for one in stack if "tests/faults/" in one), "")
        if any(f"/{file}, line {line}," in frame for file, line in lines):
            path = " ".join(_ancestry(name, dump))
            if case.layer is None or _is_of_layer(case, path):
                found.add(name)
    if case.direction == "backward":
        found |= {
            format_name(parse_name(one)._replace(direction=Direction.BACKWARD)) for one in found
        }
    if case.fault == "weight_changed":
        found |= _with_weight(case, dump)
    if case.fault == "other_data":
        found |= _first_calls(dump)
    return found


def _next_module(name: str, dump: Dump) -> str:
    """What is wrong outside of all modules shows at the module that is called next."""
    names = list(dump.parents)
    after = names[names.index(name) :] if name in names else []
    return next((one for one in after if one.startswith("Module.")), name)


OUTSIDE = "told behind "  # such a module may be named if it is said that the fault is before it


def _told_behind(name: str, dump: Dump) -> set[str]:
    """Modules that follow a call outside of all modules, and may be given what is wrong."""
    if any(one.startswith("Module.") for one in _ancestry(name, dump)):
        return set()
    names = list(dump.parents)
    after = names[names.index(name) :] if name in names else []
    return {f"{OUTSIDE}{one}" for one in after if one.startswith("Module.")}


_UNET = ("down.0", "down.1", "middle", "up.0", "up.1")


def _is_of_layer(case: Case, path: str) -> bool:
    """Whether a call is made in the layer of the fault; calls of the model itself always are."""
    if case.architecture == "unet":
        return f"Module.{_UNET[case.layer or 0]}." in path or "Module." not in path
    return re.search(rf"\.(?:layers|blocks|h|encoder|decoder)\.{case.layer}\.", path) is not None


def _with_weight(case: Case, dump: Dump) -> set[str]:
    """Calls that are given the weight that was changed."""
    make, _ = ARCHITECTURES[case.architecture]
    torch.manual_seed(case.seed)
    model = make(**dict(case.size))
    names = [name for name, one in model.named_parameters() if one.dim() > 1]
    module, _, _ = names[len(names) // 2].rpartition(".")
    return {
        name
        for name in dump.data
        if any(one.startswith(f"Module.{module}.") for one in _ancestry(name, dump))
    }


def _first_calls(dump: Dump) -> set[str]:
    """The first call of each pass and what encloses it."""
    found = set()
    for name in dump.data:
        if name.endswith("forward") or ".forward." in name:
            found.add(name)
            found.update(_ancestry(name, dump))
            if len(found) > 3:
                break
    return found


def _ancestry(name: str | None, dump: Dump) -> list[str]:
    found = []
    while name:
        found.append(name)
        name = dump.parents.get(name)
    return found
