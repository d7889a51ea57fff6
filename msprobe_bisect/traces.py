"""At which step two trainings part, and in what, from the traces of both."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.files.regular import read_text
from msprobe_builder.sketch.definition import FLAT
from msprobe_builder.sketch.rounding import ROUNDING, share_of_rounding
from msprobe_operators.dump.run import find_dump

_MOST_NAMES = 3
_GRADIENTS = "gradients"
# What lines raise that hold something else than msprobe-run writes.
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)


class Part(str, Enum):
    """In what two trainings part first."""

    NOTHING = "nothing"
    DATA = "data"
    WEIGHTS = "weights"
    VALUES = "values"  # of outputs or gradients: calls have to be looked at
    SETTINGS = "settings"
    UPDATE = "update"  # gradients and settings agree, what the optimizer makes of them does not


@dataclass(frozen=True)
class Parting:
    """The first step at which they differ; ``is_sure`` when by more than rounding."""

    part: Part
    step: int = 0
    rank: int = 0
    what: Fact | None = None
    is_sure: bool = True
    remark: Fact | None = None  # on random numbers
    compared: int = 0  # steps, where nothing differs
    left_out: int = 0  # steps that one run alone has
    unshared_ranks: int = 0  # ranks that one run alone has
    is_of_gradients: bool = False  # as the optimizer is given them


def parting(npu: Path, bench: Path) -> Parting:
    """Compare the traces in two folders. BuildError if one is missing or they share no step."""
    found = []
    for rank, one, other in _pairs(npu, bench):
        try:
            found.append(_of_rank(rank, read_trace(one), read_trace(other)))
        except OSError as error:
            raise BuildError(f"Cannot read {error.filename}: {error.strerror}.") from error
        except _DAMAGE as error:
            raise BuildError(
                f"{one} or {other} is damaged ({type(error).__name__}); record both again."
            ) from error
    order = (Part.DATA, Part.WEIGHTS, Part.VALUES, Part.SETTINGS, Part.UPDATE)
    real = [one for one in found if one.part is not Part.NOTHING]
    # What only rounding may explain is the least reason to look at a step.
    least = min(found, key=lambda one: one.compared)
    first = min(
        real, key=lambda one: (not one.is_sure, one.step, order.index(one.part)), default=least
    )
    names = [{one.name for one in folder.glob("trace*.jsonl")} for folder in (npu, bench)]
    alone = len(names[0] ^ names[1])
    return replace(first, unshared_ranks=alone)


def gradients_agree(sides: Mapping[str, Path], step: int) -> bool:
    """Whether the gradients of parameters in two dumps have the same sizes but for rounding.

    BuildError where a dump is damaged; False where they hold none.
    """
    found: list[dict[str, tuple[float, str]]] = []
    for side in ("npu", "bench"):
        folder = min(sides[side].glob(f"step{step}/rank*"), default=sides[side])
        found.append(dict(_gradients_in(find_dump(folder))))
    ours, theirs = found
    shares = [
        abs(norm - theirs[name][0]) / theirs[name][0] / share_of_rounding(dtype)
        for name, (norm, dtype) in ours.items()
        if name in theirs and theirs[name][0]
    ]
    return bool(shares) and max(shares) <= 1.0


def _gradients_in(path: Path) -> Iterator[tuple[str, tuple[float, str]]]:
    for name, record in DumpReader(path):
        if ".parameters_grad" in name and isinstance(record, dict):
            for key, items in record.items():
                item: Any = items[0] if isinstance(items, list) and items else None
                if isinstance(item, dict) and isinstance(item.get("Norm"), float):
                    yield f"{name}.{key}", (item["Norm"], str(item.get("dtype")))


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Its lines, those of a killed run up to the last whole one. OSError, ValueError."""
    found = []
    for line in read_text(path).splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    if not found:
        raise BuildError(f"{path} holds no step; no optimizer has stepped, or the run was killed.")
    return found


def _pairs(npu: Path, bench: Path) -> Iterator[tuple[int, Path, Path]]:
    """The traces of each rank that both have."""
    sides = [{one.name: one for one in folder.glob("trace*.jsonl")} for folder in (npu, bench)]
    common = sorted(sides[0].keys() & sides[1].keys(), key=lambda name: (len(name), name))
    if not common:
        raise BuildError(f"{npu} and {bench} have no rank in common; record the same ranks.")
    for name in common:
        rank = re.sub(r"\D", "", name)
        yield int(rank or 0), sides[0][name], sides[1][name]


def _of_rank(rank: int, ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Parting:
    remark = fact("bisect.drawn_otherwise") if _drawn_otherwise(ours[0], theirs[0]) else None
    unsure: Parting | None = None
    before: list[Any] = [ours[0].get("before", {}), theirs[0].get("before", {})]
    for one, other in zip(ours, theirs, strict=False):
        for found in _of_step(rank, one, other, before, remark):
            if found.is_sure:
                return found
            unsure = unsure or found
        before = [one["weights"], other["weights"]]
    shared = min(len(ours), len(theirs))
    alone = max(len(ours), len(theirs)) - shared
    return unsure or Parting(
        Part.NOTHING, rank=rank, remark=remark, compared=shared, left_out=alone
    )


def _of_step(
    rank: int, one: dict[str, Any], other: dict[str, Any], before: list[Any], remark: Fact | None
) -> Iterator[Parting]:
    step = int(one["step"])

    def at(part: Part, what: Fact, is_sure: bool = True, key: str = "") -> Parting:
        is_of_gradients = key == _GRADIENTS
        return Parting(part, step, rank, what, is_sure, remark, is_of_gradients=is_of_gradients)

    data = list(_of_calls(one["data"], other["data"]))
    if data:
        yield at(Part.DATA, data[0])
    if "before" in one:
        weights = [name for name, share in _apart(one["before"], other["before"]) if share > 0]
        if weights:
            yield at(Part.WEIGHTS, fact("bisect.tensors", names=_named(weights)))
    for key in ("outputs", _GRADIENTS):
        pairs = (
            zip_longest(one[key], other[key], fillvalue={})
            if isinstance(one[key], list)
            else [(one[key], other[key])]
        )
        for left, right in pairs:
            for is_sure, what in _by_size(key, left, right):
                yield at(Part.VALUES, what, is_sure, key)
    settings = list(_of_settings(one["settings"], other["settings"]))
    if settings:
        yield at(Part.SETTINGS, settings[0])
    if (updates := _updates(one, other, before)) is not None:
        yield at(Part.UPDATE, updates)


def _by_size(
    key: str, left: Mapping[str, Any], right: Mapping[str, Any]
) -> Iterator[tuple[bool, Fact]]:
    """Differences of tensors by more than rounding, and the largest that may be rounding."""
    apart = [(name, share) for name, share in _apart(left, right) if share > 0]
    sure = [name for name, share in apart if share > share_allowed(left.get(name), right.get(name))]
    if key == _GRADIENTS:
        shares = dict(apart)
        sure = [name for name in sure if not is_remainder(name, shares[name], right)]
    if sure:
        worst = max(share for name, share in apart if name in sure)
        code = "bisect.gradients" if key == _GRADIENTS else "bisect.outputs"
        yield True, fact(code, names=_named(sure), share=worst)
    elif apart:
        worst = max(share for _, share in apart)
        may_be = "bisect.gradients_rounded" if key == _GRADIENTS else "bisect.outputs_rounded"
        yield False, fact(may_be, share=worst)


def is_remainder(name: str, share: float, gradients: Mapping[str, Any]) -> bool:
    """Whether a gradient is off by no more than the rounding of the largest of its module.

    What is added up may cancel, as it does for the bias of keys: such a gradient is rounding alone.
    """
    module = name.rpartition(".")[0]
    sizes = {
        other: float(np.linalg.norm(_numbers(told))) / math.sqrt(max(1, math.prod(told["shape"])))
        for other, told in gradients.items()
        if other.rpartition(".")[0] == module and "sketch" in told
    }
    if name not in sizes or math.isinf(share):
        return False
    return share * sizes[name] <= share_allowed(gradients[name]) * max(sizes.values())


def _updates(one: dict[str, Any], other: dict[str, Any], before: list[Any]) -> Fact | None:
    """What the step has added to the parameters: a wrong update hardly changes their size."""
    names = []
    gradients = dict(_apart(one[_GRADIENTS], other[_GRADIENTS]))
    for name, after in one["weights"].items():
        there = other["weights"].get(name)
        both = [side.get(name) for side in before]
        if there is None or None in both or after["crc"] == there["crc"]:
            continue
        if gradients.get(name, 0.0) > share_allowed(after, there):
            continue  # of a gradient that is rounding alone, which an optimizer may scale up
        if _is_half(after) or _is_half(there):
            continue
        ours, theirs = (_update(*each) for each in ((after, both[0]), (there, both[1])))
        if _share(ours.numbers - theirs.numbers, theirs.numbers) > theirs.allowed:
            names.append(name)
    return fact("bisect.updates", names=_named(names)) if names else None


class Update(NamedTuple):
    """The sketch of what a step has added to a parameter."""

    numbers: npt.NDArray[np.float64]
    allowed: float  # share of its size by which another run's may be off


def _update(after: Mapping[str, Any], before: Mapping[str, Any]) -> Update:
    numbers = _numbers(after) - _numbers(before)
    # A sketch of float32 tells an update no better than the parameter's own rounding.
    own = _share(2.0**-21 * _numbers(after), numbers)
    return Update(numbers, 10 * ROUNDING[after["dtype"]] + own)


def _is_half(told: Mapping[str, Any]) -> bool:
    """Whether a change is as large as the rounding of the type."""
    return told["dtype"] not in ROUNDING


class Traced(NamedTuple):
    """A step in a trace."""

    own: dict[str, Any]  # its line
    before: Mapping[str, Any]  # parameters when it begins
    calls_before: int  # of the model

    def update_of(self, name: str) -> Update | None:
        """Of a parameter; None where it is not known, or as large as rounding."""
        after, before = self.own["weights"][name], self.before.get(name)
        if before is None or _is_half(after):
            return None
        return _update(after, before)


def traced(folder: Path, first: Parting) -> Traced:
    """The step at which two runs part, in the trace of one of them."""
    path = folder / f"trace{first.rank}.jsonl"
    lines = read_trace(path if path.exists() else folder / "trace.jsonl")
    place = next(number for number, line in enumerate(lines) if line["step"] == first.step)
    before = lines[place - 1]["weights"] if place else lines[place].get("before", {})
    calls = sum(len(line["data"]) for line in lines[:place])
    return Traced(lines[place], before, calls)


def _of_calls(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[Fact]:
    if len(ours) != len(theirs):
        yield fact("bisect.calls_of_model", debug=len(ours), reference=len(theirs))
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if list(one) != list(other):
            yield fact("bisect.tensors_given", call=number, debug=len(one), reference=len(other))
        for name in one.keys() & other.keys():
            same = all(one[name][key] == other[name][key] for key in ("shape", "crc"))
            if not same and one[name]["dtype"] == other[name]["dtype"]:
                yield fact("bisect.tensor_given", name=name, call=number)


def _shown(value: object) -> str:
    """A setting as people write it: 0.0009 that was multiplied together has more digits."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _of_settings(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> Iterator[Fact]:
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        for key in sorted(one.keys() & other.keys()):
            if one[key] != other[key]:
                debug, reference = _shown(one[key]), _shown(other[key])
                yield fact(
                    "bisect.setting", name=key, group=number, debug=debug, reference=reference
                )
    if len(ours) != len(theirs):
        yield fact("bisect.groups", debug=len(ours), reference=len(theirs))


def _apart(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """How far tensors are apart, as a share of their size; infinity where only one is there."""
    for name in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None or one["shape"] != other["shape"]:
            yield name, float("inf")
        elif one["crc"] == other["crc"] and one["dtype"] == other["dtype"]:
            yield name, 0.0
        elif "sketch" not in one or "sketch" not in other:
            yield name, float("inf")  # whole numbers
        else:
            yield name, _share(_numbers(one) - _numbers(other), _numbers(other))


def _numbers(told: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    found = np.frombuffer(base64.b64decode(told["sketch"]), "<f4")[:FLAT]
    if len(found) < FLAT:
        raise ValueError("a sketch is cut off")
    return found.astype(np.float64)


def _share(difference: npt.NDArray[np.float64], of: npt.NDArray[np.float64]) -> float:
    size = float(np.linalg.norm(of))
    error = float(np.linalg.norm(difference))
    if not error:
        return 0.0
    return error / size if size else float("inf")


def share_allowed(*told: Mapping[str, Any] | None) -> float:
    kinds = [one["dtype"] for one in told if one is not None]
    return max(map(share_of_rounding, kinds), default=0.0)


def _drawn_otherwise(one: dict[str, Any], other: dict[str, Any]) -> bool:
    # That of Python is nobody's business where the data are the same.
    common = (one["random"].keys() & other["random"].keys()) - {"python"}
    return any(one["random"][key] != other["random"][key] for key in common)


def _named(names: Iterable[str]) -> Fact | list[str]:
    known = list(names)
    more = len(known) - _MOST_NAMES
    if more <= 0:
        return known
    return fact("bisect.and_more", names=known[:_MOST_NAMES], more=more)
