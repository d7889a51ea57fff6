"""Make a run repeatable."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from msprobe_collector.config.seeding import seed_process
from msprobe_collector.drawing.reproducibility import same_state
from msprobe_collector.intercept.redirect import Redirect


def seed_all(
    seed: int = 1234, mode: bool = False, rm_dropout: bool = False, is_enhanced: bool = False
) -> None:
    """Seed every generator; ``mode`` also asks for deterministic kernels.

    ``rm_dropout`` sets the probability of every dropout module that is built afterwards, and of
    every call of ``nn.functional.dropout*``, to zero for the rest of the process. With
    ``is_enhanced`` every call from then on draws as the first one would: what one run draws more
    changes nothing else. Raises CollectorError when ``seed`` is no whole number below 2**32.
    """
    seed_process(seed, mode)
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode)
    if mode:
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    if rm_dropout:
        _remove_dropout()
    if is_enhanced:
        same_state()


def set_reproducibility(
    seed: int = 1234, is_deterministic: bool = False, is_enhanced: bool = False
) -> None:
    """:func:`seed_all` by the name and arguments that other recorders have for it."""
    seed_all(seed, is_deterministic, is_enhanced=is_enhanced)


def _remove_dropout() -> None:
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
        Redirect(getattr(torch.nn.functional, name), _without_dropout).install()


def _without_dropout(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if len(args) > 1:
        return original(args[0], 0.0, *args[2:], **kwargs)
    return original(*args, **{**kwargs, "p": 0.0})
