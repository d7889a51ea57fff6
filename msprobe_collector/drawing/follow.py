"""Functions that draw random numbers or seed them, taken over while somebody follows."""

from __future__ import annotations

import functools
import random
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

SEEDS = ("manual_seed", "manual_seed_all", "seed", "set_seed")
_STATES = {"getstate", "setstate", "get_state", "set_state", *SEEDS}

Owner = tuple[Any, str, Iterable[str]]  # who has functions, its name and theirs


class DrawnCall(NamedTuple):
    """One call from outside; what it draws inside is part of it."""

    owner: str  # torch, torch.Tensor, torch.nn.functional, random, numpy.random, torch.cuda …
    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    frame: FrameType  # of the caller

    @property
    def is_seed(self) -> bool:
        return self.function in SEEDS


# Makes the call, by the function that it is given, and returns its result.
Follower = Callable[[DrawnCall, Callable[[], Any]], Any]

_followers: list[Follower] = []
_replaced: list[tuple[Any, str, Any]] = []
_inside = threading.local()


def follow(follower: Follower, framework: Iterable[Owner]) -> None:
    """Have calls made by ``follower``, those of Python and numpy too.

    Names that other modules imported before are not seen.
    """
    if not _followers:
        for owner, prefix, names in (*framework, *_plain()):
            for name in names:
                original = getattr(owner, name, None)
                if original is not None:
                    own = vars(owner).get(name) if isinstance(owner, type) else original
                    _replaced.append((owner, name, own))
                    setattr(owner, name, _followed(prefix, name, original))
    _followers.append(follower)


def unfollow(follower: Follower) -> None:
    """End what :func:`follow` began."""
    _followers.remove(follower)
    if not _followers:
        for owner, name, own in reversed(_replaced):
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
        _replaced.clear()


def _plain() -> list[Owner]:
    return [
        (random, "random", _methods_of(random, random._inst)),
        (np.random, "numpy.random", _methods_of(np.random, np.random.mtrand._rand)),
        (random, "random", SEEDS),
        (np.random, "numpy.random", SEEDS),
    ]


def _methods_of(module: Any, generator: Any) -> list[str]:
    """Functions that are methods of the module's own generator, but for those of its state."""
    names = set(dir(module)) - _STATES
    return sorted(one for one in names if getattr(getattr(module, one), "__self__", 0) is generator)


def _followed(owner: str, name: str, original: Any) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if getattr(_inside, "on", False):
            return original(*args, **kwargs)
        _inside.on = True
        try:
            made = DrawnCall(owner, name, args, kwargs, sys._getframe(1))
            make: Callable[[], Any] = partial(original, *args, **kwargs)
            for follower in _followers:
                make = partial(follower, made, make)
            return make()
        finally:
            _inside.on = False

    return call
