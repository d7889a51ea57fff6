"""Make a run of MindSpore repeatable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore
from mindspore import mint, nn, ops

from msprobe_collector.config.seeding import seed_process
from msprobe_collector.intercept.redirect import Redirect

_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d")
_CELLS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")

_is_deterministic: list[bool] = []  # MindSpore lets it be said once


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False) -> None:
    """Seed every generator; ``mode`` also asks for deterministic kernels.

    With ``rm_dropout`` the dropout of ``nn``, ``ops`` and ``mint`` hands on what it is given, for
    the rest of the process. Raises CollectorError when ``seed`` is no whole number below 2**32.
    """
    seed_process(seed, mode)
    mindspore.set_seed(seed)
    mindspore.manual_seed(seed)
    if mode and not _is_deterministic:
        mindspore.set_deterministic(True)
        _is_deterministic.append(True)
    if rm_dropout:
        _remove_dropout()


def _remove_dropout() -> None:
    for module in (ops, mint.nn.functional):
        for name in _FUNCTIONS:
            function = getattr(module, name, None)
            if function is not None:
                Redirect(function, _handed_on).install()
    for module in (nn, mint.nn):
        for name in _CELLS:
            cell = getattr(module, name, None)
            if cell is not None:
                cell.construct = lambda _, x: x


def _handed_on(_original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return args[0] if args else kwargs["input"]
