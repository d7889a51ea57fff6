"""Counting calls that draw random numbers, or seed them, by the place that makes them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import functools
import random
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import rows

_PYTHON = "random randint uniform gauss choice choices sample shuffle randrange"
_NUMPY = "rand randn randint random uniform normal choice shuffle permutation"
_DEVICES = ("cuda", "npu", "xpu", "mps")
_SEEDS = "manual_seed manual_seed_all seed"
_DEEPEST = 12  # frames of a place
_MOST = 10_000  # places that are kept apart


class RandomCalls:
    """Follows drawing functions from ``install`` to ``remove``; names that other modules imported
    before are not followed.
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[tuple[str, ...]]] = {}
        self._replaced: list[tuple[Any, str, Any]] = []
        self._inside = threading.local()

    def install(self) -> None:
        """Begin, unless it has begun."""
        if self._replaced:
            return
        drawing = [row.name for row in rows() if row.kind is Kind.DRAW]
        here, in_place = " ".join(drawing), " ".join(f"{name}_" for name in drawing)
        owners: tuple[tuple[Any, str, str], ...] = (
            (torch, "torch", here),
            (torch.Tensor, "torch.Tensor", in_place),
            (torch.nn.functional, "torch.nn.functional", here),
            (random, "random", _PYTHON),
            (np.random, "numpy.random", _NUMPY),
        )
        devices = [(kind, getattr(torch, kind, None)) for kind in _DEVICES]
        seeded: tuple[tuple[Any, str], ...] = (
            (torch, "torch"),
            *((owner, f"torch.{kind}") for kind, owner in devices if owner is not None),
            (random, "random"),
            (np.random, "numpy.random"),
        )
        owners += tuple((owner, prefix, _SEEDS) for owner, prefix in seeded)
        for owner, prefix, names in owners:
            for name in names.split():
                original = getattr(owner, name, None)
                if original is not None:
                    self._replaced.append((owner, name, original))
                    setattr(owner, name, self._counted(f"{prefix}.{name}", original))

    def remove(self) -> None:
        """Put the functions back."""
        for owner, name, original in self._replaced:
            setattr(owner, name, original)
        self._replaced.clear()

    def found(self) -> dict[str, list[dict[str, Any]]]:
        """By function: each place with its frames, innermost first, and how often it drew."""
        return {
            name: [{"count": count, "stack": list(place)} for place, count in places.items()]
            for name, places in sorted(self._counts.items())
        }

    def _counted(self, name: str, original: Any) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "on", False):
                return original(*args, **kwargs)
            self._inside.on = True
            try:
                places = self._counts.setdefault(_with_seed(name, args, kwargs), Counter())
                place = _place(sys._getframe(1))
                if place in places or len(places) < _MOST:
                    places[place] += 1
                return original(*args, **kwargs)
            finally:
                self._inside.on = False

        return call


def _with_seed(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The name of a call, with the number that it seeds by."""
    if name.rpartition(".")[2] not in _SEEDS.split():
        return name
    seed = next(iter((*args, *kwargs.values())), None)
    return f"{name}({seed})" if isinstance(seed, (int, np.integer)) else name


def _place(frame: FrameType | None) -> tuple[str, ...]:
    """``file:line function`` of the callers; without the directory, which differs by machine."""
    lines: list[str] = []
    while frame is not None and len(lines) < _DEEPEST:
        code = frame.f_code
        lines.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return tuple(lines)
