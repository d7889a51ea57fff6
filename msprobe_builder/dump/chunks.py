"""Joins the forward passes of a prompt that a server took in chunks into the one of all words.

A chunk's tensors are a part of those that one pass has, along the words: extremes, means and norms
of parts give those of the whole. What grows from pass to pass, such as a cache, is whole in the
last one. What no numbers of parts tell has none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.names import Direction, Kind, parse_name

_MODULE = (Kind.MODULE, Direction.FORWARD)
_NUMBERS = ("Max", "Min", "Mean", "Norm")
Key = tuple[Any, ...]  # of a call in its pass: that of its parent, its name, which of that name


@dataclass(frozen=True)
class Joined:
    """A dump of one pass, with what became of those that it was made of."""

    data: dict[str, Any]
    parent: dict[str, str | None]
    words: tuple[int, ...]  # of each pass
    left_out: int  # calls that some passes alone have


def join_chunks(data: Mapping[str, Any], parent: Mapping[str, str | None], path: Path) -> Joined:
    """The passes of the model that is called several times, as one.

    ``parent`` is who called whom in order of execution. BuildError if no model is called twice, or
    nothing tells how many words it is given.
    """
    calls = _calls_of_passes(parent, path)
    firsts = [next((data[name] for name in one.values() if name in data), None) for one in calls]
    words = tuple(_words_of(first, path) for first in firsts)
    common = [key for key in calls[0] if all(key in one for one in calls[1:])]
    joined: dict[str, Any] = {}
    kept: dict[str, str | None] = {}
    for key in common:
        names = [one[key] for one in calls]
        kept[names[0]] = calls[0].get(key[0])
        if all(name in data for name in names):
            joined[names[0]] = _joined([data[name] for name in names], words)
    most = max(len(one) for one in calls)
    return Joined(joined, kept, words, most - len(common))


def _calls_of_passes(parent: Mapping[str, str | None], path: Path) -> list[dict[Key, str]]:
    """Names of the calls of each pass by their keys, in order of execution."""
    begins = _first_module(parent, path)
    passes: list[dict[Key, str]] = []
    key_of: dict[str, Key] = {}
    for name, above in parent.items():
        parsed = parse_name(name)
        if parsed.direction is not Direction.FORWARD:
            continue
        if above is None and parsed.stem == begins:
            passes.append({})
        if not passes or (above is not None and above not in key_of):
            continue  # what is called before the model
        number = 0
        while (key := (key_of[above] if above else (), parsed.stem, number)) in passes[-1]:
            number += 1
        passes[-1][key], key_of[name] = name, key
    return passes


def _first_module(parent: Mapping[str, str | None], path: Path) -> str:
    """The module with which each pass begins: the first of those that are called least often."""
    tops = [parse_name(name) for name, above in parent.items() if above is None]
    calls = Counter(one.stem for one in tops if (one.kind, one.direction) == _MODULE)
    least = min(calls.values(), default=0)
    if least < 2:
        raise BuildError(
            f"{path} holds no model that is called more than once in the step; "
            "record all chunks of the prompt between start() and stop()."
        )
    return next(stem for stem, count in calls.items() if count == least)


def _words_of(record: Any, path: Path) -> int:
    """How many words a pass was given: the length of its first tensor along them."""
    for item in _tensors(record):
        shape = item["shape"]
        if all(shape) and shape:
            return int(max(shape) if "int" in str(item.get("dtype")) else shape[-2 % len(shape)])
    raise BuildError(f"{path}: the model was given no tensor; nothing tells how long a chunk is.")


def _tensors(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if _is_tensor(value):
            yield value
        else:
            for one in value.values():
                yield from _tensors(one)
    elif isinstance(value, list):
        for one in value:
            yield from _tensors(one)


def _is_tensor(value: Any) -> bool:
    if not isinstance(value, dict) or "dtype" not in value:
        return False
    shape = value.get("shape")
    return isinstance(shape, list) and all(type(one) is int and one >= 0 for one in shape)


def _joined(values: Sequence[Any], words: Sequence[int]) -> Any:
    """What stands at one place of the records of all passes, as one pass would have it."""
    last = values[-1]
    if all(one == last for one in values):
        return last
    if all(_is_tensor(one) and len(one["shape"]) == len(last["shape"]) for one in values):
        return _joined_tensor(values, words)
    if all(isinstance(one, dict) and one.keys() == last.keys() for one in values):
        return {key: _joined([one[key] for one in values], words) for key in last}
    if all(isinstance(one, list) and len(one) == len(last) for one in values):
        return [_joined(parts, words) for parts in zip(*values, strict=True)]
    return sum(words) if list(values) == list(words) else last


def _joined_tensor(items: Sequence[dict[str, Any]], words: Sequence[int]) -> dict[str, Any]:
    lengths = list(zip(*(one["shape"] for one in items), strict=True))
    so_far = tuple(accumulate(words))
    of_words = [place for place, length in enumerate(lengths) if length == tuple(words)]
    growing = [place for place, length in enumerate(lengths) if length == so_far]
    if not of_words:
        return items[-1]  # it is whole in the last pass, or of the last word
    # Of several lengths that are alike the words are those before the features.
    along = next((one for one in reversed(of_words) if one < len(lengths) - 1), of_words[0])
    shape = [sum(words) if place == along else length[-1] for place, length in enumerate(lengths)]
    found = {key: value for key, value in items[0].items() if key not in ("md5", "data_name")}
    numbers = [[one.get(name) for name in _NUMBERS] for one in items]
    are_known = not growing and all(_is_number(one) for part in numbers for one in part)
    whole = _of_parts(numbers, words) if are_known else (None,) * len(_NUMBERS)
    return found | {"shape": shape} | dict(zip(_NUMBERS, whole, strict=True))


def _of_parts(
    numbers: Sequence[Sequence[Any]], words: Sequence[int]
) -> tuple[float, float, float, float]:
    highest, lowest, means, norms = zip(*numbers, strict=True)
    mean = math.fsum(one * count for one, count in zip(means, words, strict=True)) / sum(words)
    return max(highest), min(lowest), mean, math.hypot(*norms)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
