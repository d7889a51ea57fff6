"""Facts as sentences of a language.

A catalogue has a wording for each code, with places for the arguments: ``{name}`` as it is,
``{nodes:count}`` in a form, ``{nodes|node follows|nodes follow}`` one of two texts, the first for a
single one. An argument may be a fact itself, or a list. ``{@this_run}`` is the wording of another
code; that of a side is its name, where it has one. frontend_polymer/src/i18n/wording.ts is the same
for the viewer; tests/data/wordings.json holds both to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pkgutil import get_data

from msprobe_builder.facts.fact import Argument, Fact

LANGUAGES = ("en", "zh")
ENGLISH = LANGUAGES[0]
_SPOKEN = ContextVar("spoken", default=ENGLISH)
_CALLED: ContextVar[tuple[str, str]] = ContextVar("called", default=("", ""))
_SIDES = {"this_run": 0, "side.npu": 0, "the_reference": 1, "side.bench": 1}  # by their codes

# Forms of lists say what stands between two; ``and`` tells the last one from the others.
FORMS = (
    "count",
    "g2",
    "g3",
    "g4",
    "g6",
    "g9",
    "capital",
    "comma",
    "and",
    "ands",
    "also",
    "or",
    "plus",
    "semicolon",
    "sentences",
)
PLACE = re.compile(r"\{(\w+|@[\w.]+)(?::(\w+)|\|([^{}|]*)\|([^{}|]*))?\}")
_CHINESE = re.compile(r"[\u3400-\u9fff]")

Wordings = Mapping[str, str]


@lru_cache
def catalogue(language: str) -> Wordings:
    """The wordings of a language by their code: of what files hold, and of what is only printed."""
    found: dict[str, str] = {}
    for name in (language, f"printed.{language}"):
        found |= json.loads(get_data(__package__, f"catalogue/{name}.json") or b"{}")
    return found


def tell(said: Argument, language: str | None = None) -> str:
    """A fact, or several as sentences, one after the other, by default in the language spoken.

    An unknown code stands for itself.
    """
    return word(said, catalogue(language or _SPOKEN.get()))


def spoken() -> str:
    """The language that is spoken."""
    return _SPOKEN.get()


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Speak a language within the block."""
    before = _SPOKEN.set(language)
    try:
        yield
    finally:
        _SPOKEN.reset(before)


@contextmanager
def calling(names: tuple[str, str]) -> Iterator[None]:
    """Call both sides so within the block; one whose name is empty has the word for it."""
    before = _CALLED.set(names)
    try:
        yield
    finally:
        _CALLED.reset(before)


def called() -> tuple[str, str]:
    """What both sides are called; empty where nobody named them."""
    return _CALLED.get()


def word(said: Argument, wordings: Wordings) -> str:
    """The same by the given wordings."""
    return _shown(said, "sentences", wordings)


def _shown(value: Argument, form: str, wordings: Wordings) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, Fact):
        if name_of_side := _name_of(value):
            return name_of_side  # as the user wrote it, wherever it stands

        def filled(place: re.Match[str]) -> str:
            name, own_form, one, several = place.groups()
            if name.startswith("@"):
                argument: Argument = Fact(name[1:], {})
            elif name in value.arguments:
                argument = value.arguments[name]
            else:
                return ""
            if one is not None:
                return one if argument == 1 else several
            text = _shown(argument, own_form or "", wordings)
            is_name = isinstance(argument, Fact) and _name_of(argument)
            return _apart(text, place) if is_name else text

        text = PLACE.sub(filled, wordings.get(value.code, value.code))
    elif isinstance(value, Sequence):
        is_joint = form == "and" or f"list.{form}" in wordings
        shown = [_shown(one, "" if is_joint else form, wordings) for one in value]
        text = _listed(shown, form if is_joint else "comma", wordings)
    elif form == "count":
        text = f"{value:,}"
    else:
        text = f"{value:.{form[1:]}g}" if form.startswith("g") else str(value)
    return f"{text[:1].upper()}{text[1:]}" if form == "capital" else text


def _name_of(value: Fact) -> str:
    """What the user calls the side that the fact stands for; empty where it stands for none."""
    side = _SIDES.get(value.code)
    return "" if side is None else _CALLED.get()[side]


def _apart(text: str, place: re.Match[str]) -> str:
    """A name between Chinese characters, which a space parts from it."""
    before, behind = place.string[: place.start()][-1:], place.string[place.end() :][:1]
    front = " " if _CHINESE.match(before) and not _CHINESE.match(text) else ""
    back = " " if _CHINESE.match(behind) and not _CHINESE.match(text[-1:]) else ""
    return f"{front}{text}{back}"


def _listed(texts: Sequence[str], form: str, wordings: Wordings) -> str:
    if form == "and":
        head = _listed(texts[:-1], "comma", wordings)
        return _listed([head, *texts[-1:]] if head else texts, "ands", wordings)
    return wordings[f"list.{form}"].join(texts)
