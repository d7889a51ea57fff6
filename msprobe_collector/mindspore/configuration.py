"""``ConfigChecker`` of MindSpore: the same zip as of PyTorch, compared by the same command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mindspore
import numpy as np
from mindspore import nn
from mindspore.communication import GlobalComm, get_rank

from msprobe_collector.configuration.pack import Pack
from msprobe_collector.configuration.random_calls import RandomCalls
from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore.drawing import mindspore_drawing


class ConfigChecker:
    """Collects what is there now, and weights and inputs at the Cell's first forward calls."""

    _random: RandomCalls | None = None

    def __init__(
        self,
        model: nn.Cell | None = None,
        shell_path: Sequence[str | Path] | str | None = None,
        output_zip_path: str | Path = "./config_check_pack.zip",
        fmk: str = "mindspore",
        micro_steps: int = 2,
    ) -> None:
        """Collect; see docs/configuration.md. CollectorError when a setting is wrong."""
        _check_framework(fmk)
        given: Any = model
        if given is not None and not isinstance(given, nn.Cell):
            raise CollectorError("ConfigChecker() takes a mindspore.nn.Cell or None.")
        self._pack = Pack(shell_path, output_zip_path, micro_steps, statistics, _rank)
        self._pack.write()
        self._handle: Any = None
        if model is not None:
            self._handle = model.register_forward_pre_hook(self._before, with_kwargs=True)
        else:
            self._finish_random()

    @classmethod
    def apply_patches(cls, fmk: str = "mindspore") -> None:
        """Begin to count random calls; they are counted until the model's first forward call."""
        _check_framework(fmk)
        if ConfigChecker._random is None:
            ConfigChecker._random = RandomCalls(mindspore_drawing())
            ConfigChecker._random.install()

    def _before(self, cell: nn.Cell, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._finish_random()
        weights = [(name, one) for name, one in cell.parameters_and_names()]
        self._pack.add_call(weights, {"args": args, "kwargs": kwargs})
        if self._pack.is_full and self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _finish_random(self) -> None:
        calls, ConfigChecker._random = ConfigChecker._random, None
        if calls is not None:
            calls.remove()
            self._pack.more[f"random/rank{_rank()}.json"] = calls.found()
            self._pack.write()


def statistics(tensor: Any) -> dict[str, Any] | None:
    """Maximum, minimum, mean and L2 norm in float64, and the shape; None for what is no tensor."""
    if not isinstance(tensor, mindspore.Tensor):
        return None
    shape = list(tensor.shape)
    if not tensor.size or tensor.is_complex():
        return {**dict.fromkeys(("max", "min", "mean", "norm")), "shape": shape}
    plain = tensor.float() if tensor.is_floating_point() else tensor
    wide = np.asarray(plain.asnumpy()).astype(np.float64)
    norm = np.linalg.norm(wide)
    values = {"max": wide.max(), "min": wide.min(), "mean": wide.mean(), "norm": norm}
    return {**{key: float(one) for key, one in values.items()}, "shape": shape}


def _rank() -> int:
    return int(get_rank()) if GlobalComm.INITED else 0


def _check_framework(name: str) -> None:
    if name != "mindspore":
        raise CollectorError(f"fmk is {name!r}; this ConfigChecker collects mindspore.")
