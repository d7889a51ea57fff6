"""Counting calls that draw random numbers, or seed them, by the place that makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from msprobe_collector.drawing.follow import DrawnCall, Owner, follow, unfollow

_DEEPEST = 12  # frames of a place
_MOST = 10_000  # places that are kept apart


class RandomCalls:
    """Counts from ``install`` to ``remove``."""

    def __init__(self, framework: Iterable[Owner]) -> None:
        """``framework`` are its functions that draw."""
        self._framework = framework
        self._counts: dict[str, Counter[tuple[str, ...]]] = {}

    def install(self) -> None:
        """Begin."""
        follow(self._count, self._framework)

    def remove(self) -> None:
        """End."""
        unfollow(self._count)

    def found(self) -> dict[str, list[dict[str, Any]]]:
        """By function: each place with its frames, innermost first, and how often it drew."""
        return {
            name: [{"count": count, "stack": list(place)} for place, count in places.items()]
            for name, places in sorted(self._counts.items())
        }

    def _count(self, call: DrawnCall, make: Callable[[], Any]) -> Any:
        places = self._counts.setdefault(_with_seed(call), Counter())
        place = _place(call.frame)
        if place in places or len(places) < _MOST:
            places[place] += 1
        return make()


def _with_seed(call: DrawnCall) -> str:
    """The name of a call, with the number that it seeds by."""
    name = f"{call.owner}.{call.function}"
    if not call.is_seed:
        return name
    seed = next(iter((*call.args, *call.kwargs.values())), None)
    return f"{name}({seed})" if isinstance(seed, (int, np.integer)) else name


def _place(frame: FrameType | None) -> tuple[str, ...]:
    """``file:line function`` of the callers; without the directory, which differs by machine."""
    lines: list[str] = []
    while frame is not None and len(lines) < _DEEPEST:
        code = frame.f_code
        lines.append(f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return tuple(lines)
