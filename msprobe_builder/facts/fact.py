"""A fact: a code and its arguments, of which a catalogue makes a sentence in each language.

Files and answers hold facts as JSON, a list of objects: ``[{"code": "from_step", "step": 3}]``.
What a file of an older version holds instead is a sentence; it stays one, in every language.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

Argument: TypeAlias = "str | int | float | Fact | Sequence[Argument]"

_DEEPEST = 24  # facts within facts of a file that is to be believed
_CODE = re.compile(r"[a-z][a-z0-9_.]{0,99}")


@dataclass(frozen=True)
class Fact:
    """Something that is said; ``arguments`` are named as in the wordings of its code."""

    code: str
    arguments: Mapping[str, Argument]

    def __hash__(self) -> int:
        return hash(self.code)

    def __getitem__(self, name: str) -> Argument:
        return self.arguments[name]


Facts: TypeAlias = "tuple[Fact, ...]"


def fact(code: str, /, **arguments: Argument | None) -> Fact:
    """A fact; an argument that is None is left out, and its place in the wording stays empty."""
    known = {name: value for name, value in arguments.items() if value is not None}
    return Fact(code, {name: _frozen(value) for name, value in known.items()})


def text_fact(text: str) -> Fact:
    """A text as it stands, as older files hold them: the same in every language."""
    return fact("text", text=text)


def has_code(facts: Iterable[Fact], *codes: str) -> bool:
    """Whether any of the facts has one of the codes."""
    return any(one.code in codes for one in facts)


def within(said: Argument) -> Iterator[Fact]:
    """All facts that something says, those within others too."""
    if isinstance(said, Fact):
        yield said
        for value in said.arguments.values():
            yield from within(value)
    elif isinstance(said, Sequence) and not isinstance(said, str):
        for one in said:
            yield from within(one)


def plain(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    """The facts as lists, objects, texts and finite numbers, to be written as JSON."""
    return [_plain(one) for one in facts]


def encode(facts: Fact | Iterable[Fact]) -> str:
    """The facts as JSON, as files and answers hold them."""
    several = [facts] if isinstance(facts, Fact) else facts
    return json.dumps(plain(several), ensure_ascii=False, separators=(",", ":"))


def is_encoded(stored: str) -> bool:
    """Whether a text looks like facts as JSON."""
    return stored.startswith('[{"code":')


def decode(stored: str) -> Facts:
    """What :func:`encode` was given; any other text is a single fact that says it."""
    if stored == "[]":
        return ()
    if is_encoded(stored):
        with suppress(ValueError, RecursionError):
            return from_plain(json.loads(stored)) or from_plain(stored)
    return from_plain(stored)


def from_plain(found: object) -> Facts:
    """What :func:`plain` was given; a text is a single fact that says it, all else is nothing."""
    if isinstance(found, str):
        return (text_fact(found),) if found else ()
    try:
        return tuple(_fact(one, _DEEPEST) for one in found)  # type: ignore[attr-defined]
    except (ValueError, TypeError):
        return ()


def _frozen(value: Argument) -> Argument:
    if isinstance(value, (str, Fact)) or not isinstance(value, Sequence):
        return value
    return tuple(map(_frozen, value))


def _plain(value: Argument) -> Any:
    if isinstance(value, Fact):
        return {"code": value.code} | {name: _plain(one) for name, one in value.arguments.items()}
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        return _plain(value.item())  # a number of numpy's
    return value if math.isfinite(value) else str(value)  # for which JSON has no number


def _fact(found: object, depth: int) -> Fact:
    if not isinstance(found, dict) or depth < 0:
        raise TypeError
    code, *_ = found.values()
    if next(iter(found)) != "code" or not isinstance(code, str) or not _CODE.fullmatch(code):
        raise ValueError
    return Fact(
        code, {name: _argument(one, depth) for name, one in found.items() if name != "code"}
    )


def _argument(found: object, depth: int) -> Argument:
    if isinstance(found, (str, int, float)):
        return found
    if isinstance(found, list) and depth:
        return tuple(_argument(one, depth - 1) for one in found)
    return _fact(found, depth - 1)
