"""The parameters of a request, checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from werkzeug.wrappers import Request

from msprobe_builder.base.codes import Source, words
from msprobe_builder.database.read.search import (
    EXECUTION,
    MAX_PAGE,
    ORDERS,
    TEXT_CONDITIONS,
    Search,
)
from msprobe_builder.facts.wording import ENGLISH, LANGUAGES
from tb_graph_ascend.limits import MAX_NUMBER
from tb_graph_ascend.problems import ProblemError, bad_request

SIDES = {"npu": 0, "bench": 1, "0": 0, "1": 1}
DIRECTIONS = {"forward": 1, "backward": 2}

Query = TypeVar("Query", bound=Message)


def read_text(request: Request, name: str) -> str:
    """A parameter that must be there once."""
    values = request.args.getlist(name)
    if len(values) != 1 or not values[0]:
        fault = "is missing" if not values or not values[0] else "is given more than once"
        raise bad_request("bad_parameter", f"Parameter {name} {fault}.", f"Give {name} once.")
    return values[0]


def read_number(request: Request, name: str, low: int = 0, high: int = MAX_NUMBER) -> int:
    """A parameter that is a whole number within bounds."""
    value = read_text(request, name)
    if not re.fullmatch("[0-9]{1,10}", value) or not low <= int(value) <= high:
        raise _bad(name, value, f"Give {name} as a whole number from {low} to {high}.")
    return int(value)


def read_side(request: Request, name: str) -> int:
    """The side of a graph."""
    value = read_text(request, name)
    if value not in SIDES:
        raise bad_request(
            "bad_parameter", f"Parameter {name} is {value[:80]!r}.", f"Give {name} as npu or bench."
        )
    return SIDES[value]


def read_query(request: Request, of: type[Query]) -> Query:
    """All parameters that a message of the contract lists, each as its type asks for."""
    asked = of()
    for field in of.DESCRIPTOR.fields:
        setattr(asked, field.name, _READERS[field.type](request, field.name))
    return asked


def read_choice(request: Request, name: str, choices: tuple[str, ...], otherwise: str) -> str:
    """A parameter that is one of some words, ``otherwise`` when it is left out."""
    value = read_optional(request, name) or otherwise
    if value not in choices:
        raise _bad(name, value, f"Leave it out or give one of: {', '.join(choices)}.")
    return value


def read_language(request: Request) -> str:
    """The language of a file to download, English when it is left out."""
    return read_choice(request, "language", LANGUAGES, ENGLISH)


def read_search(request: Request, offset: int | None = None, limit: int | None = None) -> Search:
    """What to look for; every parameter may be left out.

    ``offset`` and ``limit`` stand in for those of the request.
    """
    order = read_optional(request, "order") or EXECUTION
    if order not in ORDERS:
        raise _bad("order", order, f"Give order as {' or '.join(ORDERS)}.")
    direction = read_optional(request, "direction")
    if direction and direction not in DIRECTIONS:
        raise _bad("direction", direction, f"Give direction as {' or '.join(DIRECTIONS)}.")
    regex = read_optional(request, "regex")
    if regex not in ("", "0", "1"):
        raise _bad("regex", regex, "Give regex as 0 or 1.")
    return Search(
        name=read_optional(request, "name"),
        regex=regex == "1",
        texts={name: read_optional(request, name) for name in TEXT_CONDITIONS},
        direction=DIRECTIONS[direction] if direction else None,
        grades=_codes(request, "grade", 6),
        overflows=_codes(request, "overflow", 3),
        reasons=tuple(filter(None, read_optional(request, "reason").split(","))),
        sources=_sources(request),
        side=read_side(request, "side") if read_optional(request, "side") else None,
        step=read_number(request, "step") if read_optional(request, "step") else None,
        rank=read_number(request, "rank") if read_optional(request, "rank") else None,
        order=order,
        offset=_offset(request) if offset is None else offset,
        limit=_limit(request) if limit is None else limit,
    )


def _offset(request: Request) -> int:
    return read_number(request, "cursor") if read_optional(request, "cursor") else 0


def _limit(request: Request) -> int:
    if not read_optional(request, "limit"):
        return Search.limit
    return read_number(request, "limit", 1, MAX_PAGE)


def _sources(request: Request) -> tuple[int, ...]:
    """Codes of words separated by commas: which rule or person matched a node."""
    value = read_optional(request, "source")
    known = words(Source)
    found = value.split(",") if value else []
    if not set(found) <= set(known):
        raise _bad("source", value, f"Give words of {', '.join(known)}, separated by commas.")
    return tuple(map(known.index, found))


def _codes(request: Request, name: str, highest: int) -> tuple[int, ...]:
    """Codes separated by commas."""
    value = read_optional(request, name)
    codes = value.split(",") if value else []
    if not all(re.fullmatch("[0-9]", code) and int(code) <= highest for code in codes):
        raise _bad(name, value, f"Give numbers from 0 to {highest}, separated by commas.")
    return tuple(map(int, codes))


def read_optional(request: Request, name: str) -> str:
    values = request.args.getlist(name)
    return read_text(request, name) if any(values) else ""


def _bad(name: str, value: str, remedy: str) -> ProblemError:
    return bad_request("bad_parameter", f"Parameter {name} is {value[:80]!r}.", remedy)


_READERS: dict[int, Callable[[Request, str], int | str]] = {
    FieldDescriptor.TYPE_STRING: read_text,
    FieldDescriptor.TYPE_UINT32: read_number,
    FieldDescriptor.TYPE_ENUM: read_side,  # the only one that questions have
}
