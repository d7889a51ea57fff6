"""The parameters of a request, checked."""

from __future__ import annotations

import re

from werkzeug.wrappers import Request

from tb_graph_ascend.problems import bad_request

SIDES = {"npu": 0, "bench": 1, "0": 0, "1": 1}
MAX_NUMBER = 2**32 - 1


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
