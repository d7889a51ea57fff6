"""The parameters of a request, checked."""

from __future__ import annotations

import re

from werkzeug.wrappers import Request

from msprobe_builder.database.read.search import EXECUTION, MAX_PAGE, ORDERS, Search
from tb_graph_ascend.limits import MAX_NUMBER
from tb_graph_ascend.problems import ProblemError, bad_request

SIDES = {"npu": 0, "bench": 1, "0": 0, "1": 1}
DIRECTIONS = {"forward": 1, "backward": 2}


def read_text(request: Request, name: str) -> str:
    """A parameter that must be there once."""
    values = request.args.getlist(name)
    if len(values) != 1 or not values[0]:
        fault = "is missing" if not values or not values[0] else "is given more than once"
        raise bad_request("bad_parameter", f"Parameter {name} {fault}.", f"Give {name} once.")
    return values[0]


def read_number(request: Request, name: str) -> int:
    """A parameter that is a whole number from 0 on."""
    value = read_text(request, name)
    if not re.fullmatch("[0-9]{1,10}", value) or int(value) > MAX_NUMBER:
        raise bad_request(
            "bad_parameter",
            f"Parameter {name} is {value[:80]!r}, not a whole number.",
            f"Give {name} as a number from 0 to {MAX_NUMBER}.",
        )
    return int(value)


def read_side(request: Request, name: str) -> int:
    """The side of a graph."""
    value = read_text(request, name)
    if value not in SIDES:
        raise bad_request(
            "bad_parameter", f"Parameter {name} is {value[:80]!r}.", f"Give {name} as npu or bench."
        )
    return SIDES[value]


def read_search(request: Request) -> Search:
    """What to look for; every parameter may be left out."""
    order = _optional(request, "order") or EXECUTION
    if order not in ORDERS:
        raise _bad("order", order, f"Give order as {' or '.join(ORDERS)}.")
    direction = _optional(request, "direction")
    if direction and direction not in DIRECTIONS:
        raise _bad("direction", direction, f"Give direction as {' or '.join(DIRECTIONS)}.")
    regex = _optional(request, "regex")
    if regex not in ("", "0", "1"):
        raise _bad("regex", regex, "Give regex as 0 or 1.")
    return Search(
        name=_optional(request, "name"),
        regex=regex == "1",
        operator=_optional(request, "operator"),
        dtype=_optional(request, "dtype"),
        input_dtype=_optional(request, "input_dtype"),
        output_dtype=_optional(request, "output_dtype"),
        shape=_optional(request, "shape"),
        below=_optional(request, "below"),
        direction=DIRECTIONS[direction] if direction else None,
        grades=_codes(request, "grade", 6),
        overflows=_codes(request, "overflow", 3),
        reasons=tuple(filter(None, _optional(request, "reason").split(","))),
        side=read_side(request, "side") if _optional(request, "side") else None,
        step=read_number(request, "step") if _optional(request, "step") else None,
        rank=read_number(request, "rank") if _optional(request, "rank") else None,
        order=order,
        offset=read_number(request, "cursor") if _optional(request, "cursor") else 0,
        limit=_limit(request),
    )


def _limit(request: Request) -> int:
    if not _optional(request, "limit"):
        return Search.limit
    limit = read_number(request, "limit")
    if not 0 < limit <= MAX_PAGE:
        raise _bad("limit", str(limit), f"Give limit as a number from 1 to {MAX_PAGE}.")
    return limit


def _codes(request: Request, name: str, highest: int) -> tuple[int, ...]:
    """Codes separated by commas."""
    value = _optional(request, name)
    codes = value.split(",") if value else []
    if not all(re.fullmatch("[0-9]", code) and int(code) <= highest for code in codes):
        raise _bad(name, value, f"Give numbers from 0 to {highest}, separated by commas.")
    return tuple(map(int, codes))


def _optional(request: Request, name: str) -> str:
    values = request.args.getlist(name)
    return read_text(request, name) if any(values) else ""


def _bad(name: str, value: str, remedy: str) -> ProblemError:
    return bad_request("bad_parameter", f"Parameter {name} is {value[:80]!r}.", remedy)
