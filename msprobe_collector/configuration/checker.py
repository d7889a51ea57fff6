"""``ConfigChecker``: environment, packages, options, weights and data of a training, in one zip."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import io
import logging
import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe_builder.configuration.secrets import allowed_variables, without_secrets
from msprobe_checks.configuration.collect import (
    installed_packages,
    options_in,
    write_pack,
)
from msprobe_collector.configuration.random_calls import RandomCalls
from msprobe_collector.errors import CollectorError
from msprobe_collector.process import process_rank
from msprobe_collector.signals import pass_on_if_of_signal

_log = logging.getLogger("msprobe_collector")
_DEEPEST = 10  # lists and mappings inside each other
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
        if isinstance(micro_steps, bool) or not 1 <= micro_steps <= 1000:
            raise CollectorError(f"micro_steps is {micro_steps!r}; give a number from 1 to 1000.")
        given: Any = model
        if given is not None and not isinstance(given, nn.Module):
            raise CollectorError("ConfigChecker() takes a torch.nn.Module or None.")
        paths = [shell_path] if isinstance(shell_path, str) else list(shell_path or ())
        self._options = {Path(path).name: options_in(Path(path)) for path in paths}
        self._output = Path(output_zip_path)
        self._left = micro_steps
        self._done = 0
        self._more: dict[str, object] = {}
        self._handle: Any = None
        dynamic = _megatron_options()
        if dynamic:
            self._more["hyperparameters/hyperparameters_dynamic.json"] = {"megatron": dynamic}
        self._write()
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
            ConfigChecker._random = RandomCalls()
            ConfigChecker._random.install()

    def _before_forward(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        try:
            self._finish_random()
            place = f"step{self._done}/rank{process_rank() or 0}"
            weights = {name: statistics(one) for name, one in module.named_parameters()}
            self._more[f"weights/{place}/weight.json"] = weights
            content = {"args": described(args), "kwargs": described(kwargs)}
            self._more[f"dataset/{place}/dataset.json"] = content
            self._write()
        except Exception as error:  # the training goes on
            pass_on_if_of_signal(error)
            _log.warning("The configuration is not collected any more: %s", error)
            self._left = 0
        self._done += 1
        if self._done >= self._left and self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _finish_random(self) -> None:
        calls = ConfigChecker._random
        if calls is not None:
            calls.remove()
            ConfigChecker._random = None
            self._more[f"random/rank{process_rank() or 0}.json"] = calls.found()
            self._write()

    def _write(self) -> None:
        rank = process_rank() or 0
        name = self._output.name if rank == 0 else f"{self._output.stem}.rank{rank}.zip"
        path = self._output.with_name(name)
        stream = io.BytesIO()
        variables = allowed_variables(os.environ)
        write_pack(stream, variables, installed_packages(), self._options, self._more.items())
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
        temporary.write_bytes(stream.getvalue())
        temporary.replace(path)


def statistics(tensor: torch.Tensor) -> dict[str, Any]:
    """Maximum, minimum, mean and L2 norm in float64, and the shape, of what this rank holds."""
    to_local = getattr(tensor, "to_local", None)
    with torch.no_grad():
        local = tensor.detach() if to_local is None else to_local().detach()
        if local.numel() == 0 or local.is_meta or local.is_complex():
            return {**dict.fromkeys(("max", "min", "mean", "norm")), "shape": list(tensor.shape)}
        wide = local.double()
        found = torch.stack([wide.max(), wide.min(), wide.mean(), torch.linalg.vector_norm(wide)])
    values = dict(zip(("max", "min", "mean", "norm"), found.tolist(), strict=True))
    return {**values, "shape": list(tensor.shape)}


def described(value: Any, depth: int = 0) -> Any:
    """Tensors by their statistics in the lists and mappings they came in; other values as text."""
    if isinstance(value, torch.Tensor):
        return statistics(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {str(key): described(one, depth + 1) for key, one in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        return [described(one, depth + 1) for one in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return type(value).__name__


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
