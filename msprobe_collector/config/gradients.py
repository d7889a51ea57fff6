"""The keys below ``grad_probe`` in config.json."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from msprobe_collector.errors import CollectorError

_log = logging.getLogger("msprobe_collector")

LEVELS = ("L0", "L1", "L2")
SIGN_FORMATS = ("bool", "bits")
_KEYS = {"grad_level", "param_list", "bounds", "sign_format", "sketch"}


@dataclass(frozen=True)
class GradientSettings:
    """What is recorded of each gradient; ``docs/gradients.md`` says what each key means."""

    level: str = "L1"
    names: tuple[str, ...] = ()
    bounds: tuple[float, ...] = (-1, 0, 1)
    sign_format: str = "bool"
    sketch: int = 0  # numbers per parameter; 0 writes none

    @property
    def with_signs(self) -> bool:
        return self.level != "L0"


def parse_gradients(section: Mapping[str, Any]) -> GradientSettings:
    """Check the section; CollectorError names key and remedy."""
    for key in sorted(section.keys() - _KEYS):
        _log.warning("The configuration key grad_probe.%s is unknown and has no effect.", key)
    level = section.get("grad_level", "L1")
    if level not in LEVELS:
        raise CollectorError(f"grad_level is {level!r}; choose one of {', '.join(LEVELS)}.")
    names = section.get("param_list", [])
    if not isinstance(names, (list, tuple)) or not all(isinstance(one, str) for one in names):
        raise CollectorError(f"param_list is {names!r}; write a list of parameter names.")
    sign_format = section.get("sign_format", "bool")
    if sign_format not in SIGN_FORMATS:
        raise CollectorError(
            f"sign_format is {sign_format!r}; choose one of {', '.join(SIGN_FORMATS)}."
        )
    return GradientSettings(
        level, tuple(names), _bounds(section), sign_format, _sketch(section.get("sketch", 0))
    )


def _bounds(section: Mapping[str, Any]) -> tuple[float, ...]:
    value = section.get("bounds", [-1, 0, 1])
    is_list = isinstance(value, (list, tuple)) and all(
        isinstance(one, (int, float)) and not isinstance(one, bool) and abs(one) < 2**63
        for one in value
    )
    if not is_list:
        raise CollectorError(f"bounds is {value!r}; write a list of numbers of 64-bit integers.")
    if any(low >= high for low, high in pairwise(value)):
        raise CollectorError(f"bounds is {value!r}; the numbers must rise.")
    return tuple(value)


def _sketch(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1 << 20:
        raise CollectorError(f"sketch is {value!r}; write how many numbers, such as 1024, or 0.")
    return value
