"""Whether this process is a program of ours, or somebody else's that calls us."""

from __future__ import annotations

import os

_programs: list[int] = []


def begin_program() -> None:
    """From now on nothing in this process is anybody's but ours, until it ends."""
    _programs.append(os.getpid())


def is_program() -> bool:
    """Whether this very process has begun as a program of ours."""
    return os.getpid() in _programs
