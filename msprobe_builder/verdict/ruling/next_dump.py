"""What to record next to narrow a fault down: a configuration of the collector, and its size."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from msprobe_builder.facts.fact import Facts, fact, plain

_RECORD = 250  # bytes of a tensor's entry in dump.json
_SAVED = 250  # bytes more for a saved tensor: its name there and its entry in the index
_CALL = 350  # bytes of a call besides: its arguments, its place, its name in every file
_INSIDE = 1.1  # calls inside a module for each tensor at its edge, when they were not recorded
_TENSORS = 2.5  # tensors of such a call
_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1}

_NUMBERED = re.compile(r"\w+\.((.*\.)?\d+\.)?")  # the word Module, and up to the last number

SHOWN = 3  # suspects around which is recorded


@dataclass(frozen=True)
class TensorKind:
    """How many tensors of a shape and dtype, as Python prints both, a module holds.

    ``distinct`` of them have other numbers than all others.
    """

    shape: str
    dtype: str
    count: int
    distinct: int


@dataclass(frozen=True)
class Surroundings:
    """Where a suspect lies, and the innermost module around it.

    ``ranks`` hold it in the run under debug, of a merged run all that do; ``is_of_some`` when
    others do not. ``names`` are the module's on both sides, its own first, and outside of all
    modules those of the call that both runs make; without such a call there are none, and what is
    counted are all calls of the step. ``calls``, the bytes of their ``stacks`` and ``tensors`` are
    those of all calls of the module and of what they call inside, on one rank.
    """

    step: int
    ranks: tuple[int, ...]
    level: str
    names: tuple[str, ...]
    is_of_some: bool
    calls: int
    stacks: int
    tensors: tuple[TensorKind, ...]


def next_dump(suspects: Sequence[Surroundings]) -> str | None:
    """JSON with a configuration for the collector and the bytes that it will write.

    The modules around the suspects are recorded with all their tensors; where the dump holds
    modules alone the calls inside come first, with statistics. All calls are recorded when the
    best suspect is in no module and no call of both runs. None without suspects.
    """
    if not suspects:
        return None
    found: dict[str, Surroundings] = {}
    level = next((one.level for one in suspects if one.level), "")
    modules_only = level == "L0"
    is_outside = not suspects[0].names
    for one in () if is_outside else suspects:
        if one.names:
            found.setdefault(f"{one.names[0]}.", one)
    listed = {listed_name(name, one.is_of_some) for one in found.values() for name in one.names}
    ranks = sorted({rank for one in suspects for rank in one.ranks})
    steps = sorted({one.step for one in suspects})
    inner = [one for one in found if not any(_is_inside(one, other) for other in found)]
    known = [found[one] for one in inner] or [one for one in suspects[:1] if one.calls]
    size = sum(_size(one, modules_only) for one in known) * len(steps) * len(ranks)
    task = "statistics" if modules_only else "tensor"
    return _proposal(task, steps, ranks, sorted(listed), size if known else None, ())


def earlier_dump(whole: Surroundings, steps: Sequence[int], remark: Facts) -> str:
    """The same of all calls of other ``steps``, with statistics; ``whole`` counts those of one."""
    calls = _size(whole, modules_only=True) if whole.level == "L0" else _statistics_size(whole)
    size = calls * len(steps) * len(whole.ranks) if whole.calls else None
    return _proposal("statistics", steps, whole.ranks, [], size, remark)


def all_tensors(whole: Surroundings) -> str:
    """All tensors of a step, so that each call can be run again by itself."""
    known = whole.calls and whole.level != "L0"  # of which nobody knows what modules call inside
    size = _size(whole, modules_only=False) * len(whole.ranks) if known else None
    return _proposal("tensor", [whole.step], whole.ranks, [], size, (EACH_AGAIN,))


def steps_before(step: int, recorded: Sequence[int]) -> tuple[list[int], Facts] | None:
    """Which steps to record where most weights of ``step`` differ, and what to say of that.

    ``recorded`` are steps whose ends agree as far as anybody knows. None before the first step.
    """
    last = max((one for one in recorded if one < step), default=None)
    if last == step - 1:
        return [last, step], (IN_BETWEEN,)  # what the weights became tells that the update was felt
    if last is not None:
        between = step - last
        steps = sorted({last + between * part // 4 for part in (1, 2, 3)} - {last})
        return steps, (BISECTING, IN_BETWEEN)
    if step <= 0:
        return None
    return sorted({0, step // 2, step - 1}), (BISECTING, IN_BETWEEN)


IN_BETWEEN = fact("next_dump.in_between")
EACH_AGAIN = fact("next_dump.each_again")
BISECTING = fact("next_dump.bisecting")


def _proposal(
    task: str,
    steps: Sequence[int],
    ranks: Sequence[int],
    listed: Sequence[str],
    size: int | None,
    remark: Facts,
) -> str:
    config = {
        "task": task,
        "level": "mix",
        "dump_path": "./next_dump",
        "step": list(steps),
        "rank": list(ranks),
        task: {"list": list(listed)} if listed else {},
    }
    return json.dumps({"config": config, "expected_bytes": size, "remark": plain(remark)})


def listed_name(name: str, is_of_some: bool) -> str:
    """What takes a module into the list: its name, or what stands behind the last number in it.

    Modules that only some ranks hold, layers of a stage and experts, are numbered from 0 there.
    """
    return f".{_NUMBERED.sub('', name, count=1)}." if is_of_some else f"{name}."


def _is_inside(name: str, other: str) -> bool:
    """Whether a module is called inside of another one of the list, which takes it along."""
    path, above = (one.rstrip(".").rpartition(".")[0] for one in (name, other))
    return path.startswith(f"{above}.")


def _statistics_size(module: Surroundings) -> int:
    """Bytes of all calls where their statistics alone are recorded."""
    tensors = sum(kind.count for kind in module.tensors)
    return module.calls * _CALL + module.stacks + _RECORD * tensors


def _size(module: Surroundings, modules_only: bool) -> int:
    """Bytes of all calls of a module and of what is called inside."""
    if modules_only:
        edge = sum(kind.count for kind in module.tensors)
        calls = max(module.calls, _INSIDE * edge)
        return round(calls * (_CALL + _TENSORS * _RECORD)) + module.stacks
    total = module.calls * _CALL + module.stacks
    for kind in module.tensors:
        numel = 1
        for part in kind.shape.strip("[]()").split(","):
            numel *= int(part) if part.strip().isdecimal() else 1
        width = next((size for bits, size in _BYTES.items() if bits in kind.dtype), 4)
        # What a call puts out is what the next one is given, and one file holds it once.
        total += (_RECORD + _SAVED) * kind.count + numel * width * kind.distinct
    return total
