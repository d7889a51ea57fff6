"""What a seed is, and the generators and variables that every framework shares."""

from __future__ import annotations

import os
import random
from typing import Any

from msprobe_collector.errors import CollectorError


def seed_process(seed: int, mode: bool) -> None:
    """Seed Python and NumPy, and say to what is loaded later whether it has to be deterministic.

    CollectorError when ``seed`` is no whole number below 2**32.
    """
    given: Any = seed
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 2**32:
        raise CollectorError(f"seed is {seed!r}; choose a whole number from 0 to 2**32 - 1.")
    os.environ["PYTHONHASHSEED"] = str(seed)
    os.environ["HCCL_DETERMINISTIC"] = str(mode).lower()
    random.seed(seed)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed)
