"""``ConfigChecker``: environment, packages, options, weights and data of a training, in one zip."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe_builder.configuration.secrets import without_secrets
from msprobe_collector.configuration.pack import Pack
from msprobe_collector.configuration.random_calls import RandomCalls
from msprobe_collector.drawing.pytorch import torch_drawing
from msprobe_collector.errors import CollectorError
from msprobe_collector.process import process_rank

_FRAMEWORKS = ("pytorch",)


class ConfigChecker:
    """Collects what is there now, and weights and inputs at the model's first forward calls.

    After ``micro_steps`` forward calls nothing stays installed. Each rank writes a file of its own,
    ``….rank1.zip`` beside the one that was named; with one rank there is one file.
    """

    _random: RandomCalls | None = None

    def __init__(
        self,
        model: nn.Module | None = None,
        shell_path: Sequence[str | Path] | str | None = None,
        output_zip_path: str | Path = "./config_check_pack.zip",
        fmk: str = "pytorch",
        micro_steps: int = 2,
    ) -> None:
        """Collect; see docs/configuration.md. CollectorError when a setting is wrong."""
        _check_framework(fmk)
        given: Any = model
        if given is not None and not isinstance(given, nn.Module):
            raise CollectorError("ConfigChecker() takes a torch.nn.Module or None.")
        self._pack = Pack(shell_path, output_zip_path, micro_steps, statistics, _rank)
        self._handle: Any = None
        dynamic = _megatron_options()
        if dynamic:
            self._pack.more["hyperparameters/hyperparameters_dynamic.json"] = {"megatron": dynamic}
        self._pack.write()
        if model is not None:
            self._model = weakref.ref(model)
            self._handle = model.register_forward_pre_hook(self._before_forward, with_kwargs=True)
        else:
            self._finish_random()

    @classmethod
    def apply_patches(cls, fmk: str = "pytorch") -> None:
        """Begin to count random calls; they are counted until the model's first forward call."""
        _check_framework(fmk)
        if ConfigChecker._random is None:
            ConfigChecker._random = RandomCalls(torch_drawing())
            ConfigChecker._random.install()

    def _before_forward(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._finish_random()
        self._pack.add_call(module.named_parameters(), {"args": args, "kwargs": kwargs})
        if self._pack.is_full and self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _finish_random(self) -> None:
        calls = ConfigChecker._random
        if calls is not None:
            calls.remove()
            ConfigChecker._random = None
            self._pack.more[f"random/rank{_rank()}.json"] = calls.found()
            self._pack.write()


def statistics(tensor: Any) -> dict[str, Any] | None:
    """Maximum, minimum, mean and L2 norm in float64, and the shape, of what this rank holds.

    None for what is no tensor.
    """
    if not isinstance(tensor, torch.Tensor):
        return None
    to_local = getattr(tensor, "to_local", None)
    with torch.no_grad():
        local = tensor.detach() if to_local is None else to_local().detach()
        if local.numel() == 0 or local.is_meta or local.is_complex():
            return {**dict.fromkeys(("max", "min", "mean", "norm")), "shape": list(tensor.shape)}
        wide = local.double()
        found = torch.stack([wide.max(), wide.min(), wide.mean(), torch.linalg.vector_norm(wide)])
    values = dict(zip(("max", "min", "mean", "norm"), found.tolist(), strict=True))
    return {**values, "shape": list(tensor.shape)}


def _rank() -> int:
    return process_rank() or 0


def _megatron_options() -> dict[str, object]:
    """The arguments of Megatron, if it has been imported and started."""
    module = sys.modules.get("megatron.training.global_vars")
    if module is None:
        return {}
    try:
        return without_secrets({
            name.replace("_", "-"): value if isinstance(value, (int, float, str)) else str(value)
            for name, value in vars(module.get_args()).items()
        })  # fmt: skip
    except Exception:  # not started yet
        return {}


def _check_framework(name: str) -> None:
    if name not in _FRAMEWORKS:
        raise CollectorError(f"fmk is {name!r}; only {', '.join(_FRAMEWORKS)} is collected here.")
