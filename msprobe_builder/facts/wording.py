"""Facts as sentences of a language.

A catalogue has a wording for each code, with places for the arguments: ``{name}`` as it is,
``{nodes:count}`` in a form, ``{nodes|node follows|nodes follow}`` one of two texts, the first for a
single one. An argument may be a fact itself, or a list. frontend_polymer/src/i18n/wording.ts is the
same for the viewer; tests/data/wordings.json holds both to it.
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
PLACE = re.compile(r"\{(\w+)(?::(\w+)|\|([^{}|]*)\|([^{}|]*))?\}")

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


def word(said: Argument, wordings: Wordings) -> str:
    """The same by the given wordings."""
    return _shown(said, "sentences", wordings)


def _shown(value: Argument, form: str, wordings: Wordings) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, Fact):

        def filled(place: re.Match[str]) -> str:
            name, own_form, one, several = place.groups()
            if name not in value.arguments:
                return ""
            if one is not None:
                return one if value.arguments[name] == 1 else several
            return _shown(value.arguments[name], own_form or "", wordings)

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


def _listed(texts: Sequence[str], form: str, wordings: Wordings) -> str:
    if form == "and":
        head = _listed(texts[:-1], "comma", wordings)
        return _listed([head, *texts[-1:]] if head else texts, "ands", wordings)
    return wordings[f"list.{form}"].join(texts)
