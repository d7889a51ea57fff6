"""What to record next to narrow a fault down: a configuration of the collector, and its size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

_RECORD = 320  # bytes of a tensor's entry in dump.json
_CALL = 2000  # bytes of a call besides: its arguments, its place and its stack
_INSIDE = 12  # calls inside a module for each tensor at its edge, when they were not recorded
_ONE_INSIDE = 2  # the same of a module that calls no other one, and seldom more than one function
_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1}

SHOWN = 3  # suspects around which is recorded


@dataclass(frozen=True)
class TensorKind:
    """How many tensors of a shape and dtype, as Python prints both, a module holds.

    ``encloses``: they are those of the module itself, or of one inside that calls others.
    """

    shape: str
    dtype: str
    count: int
    encloses: bool


@dataclass(frozen=True)
class Surroundings:
    """Where a suspect lies, and the innermost module around it; empty where there is none.

    ``calls`` and ``tensors`` are those of all calls of the module and of what they call inside.
    """

    step: int
    rank: int
    level: str
    module: str
    calls: int
    tensors: tuple[TensorKind, ...]


def next_dump(suspects: Sequence[Surroundings]) -> str | None:
    """JSON with a configuration for the collector and the bytes that it will write.

    The modules around the suspects are recorded with all their tensors; where the dump holds
    modules alone the calls inside come first, with statistics, and all calls when the best suspect
    is in none. None without suspects.
    """
    if not suspects:
        return None
    found: dict[str, Surroundings] = {}
    level = next((one.level for one in suspects if one.level), "")
    modules_only = level == "L0"
    is_outside = modules_only and not suspects[0].module
    for one in () if is_outside else suspects:
        if one.module:
            found.setdefault(f"{one.module}.", one)
    task = "statistics" if modules_only else "tensor"
    details: dict[str, object] = {"list": sorted(found)} if found else {}
    config = {
        "task": task,
        "level": "mix",
        "dump_path": "./next_dump",
        "step": sorted({one.step for one in suspects}),
        "rank": sorted({one.rank for one in suspects}),
        task: details,
    }
    inner = [one for one in found if not any(_is_inside(one, other) for other in found)]
    known = [found[one] for one in inner] or [one for one in suspects[:1] if one.calls]
    size = sum(_size(one, modules_only) for one in known)
    return json.dumps({"config": config, "expected_bytes": size if known else None})


def _is_inside(name: str, other: str) -> bool:
    """Whether a module is called inside of another one of the list, which takes it along."""
    path, above = (one.rstrip(".").rpartition(".")[0] for one in (name, other))
    return path.startswith(f"{above}.")


def _size(module: Surroundings, modules_only: bool) -> int:
    """Bytes of all calls of a module and of what is called inside."""
    total = module.calls * _CALL
    for kind in module.tensors:
        numel = 1
        for part in kind.shape.strip("[]()").split(","):
            numel *= int(part) if part.strip().isdecimal() else 1
        width = next((size for bits, size in _BYTES.items() if bits in kind.dtype), 4)
        inside = _INSIDE if kind.encloses else _ONE_INSIDE
        own = _RECORD * inside if modules_only else _RECORD + numel * width
        total += own * kind.count
    return total
