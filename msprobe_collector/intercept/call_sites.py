"""The arguments of a Python function as its caller wrote them.

``nn.functional`` hands its calls on with all defaults filled in and many arguments turned into
keywords. The call instruction of the caller tells how many were positional and which were named.
"""

from __future__ import annotations

import dis
import inspect
from bisect import bisect_right
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import torch

_HAND_ON = torch.overrides.handle_torch_function.__code__
# ``F.max_pool2d`` and its like choose between two functions and hand all arguments on.
_CHOOSE = torch.nn.functional.max_pool2d.__code__
_PLAIN_CALLS = frozenset({"CALL", "CALL_FUNCTION", "CALL_METHOD"})
_KEYWORD_CALLS = frozenset({"CALL_KW", "CALL_FUNCTION_KW"})


class Shape(NamedTuple):
    """How many arguments a call instruction passes, and the names of the last of them."""

    arguments: int
    keywords: tuple[str, ...]


# By identity, because hashing a code object reads all of it; the code is kept so that it lives.
_calls: dict[int, tuple[CodeType, list[int], list[Shape | None]]] = {}


def as_written(
    frame: FrameType, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Positional and named arguments of the call that ``frame`` hands on, None if unknown."""
    callee = frame.f_back
    if frame.f_code is not _HAND_ON or not isinstance(function, FunctionType) or callee is None:
        return None
    code = callee.f_code
    caller = callee.f_back
    if function.__code__ is _CHOOSE and caller is not None and caller.f_code is _CHOOSE:
        caller = caller.f_back
    elif code is not function.__code__:
        return None
    if caller is None or code.co_flags & inspect.CO_VARARGS:
        return None
    shape = _shape_at(caller)
    if shape is None:  # such as a mode that hands it on, a default device for one
        program = _before_modes(caller, code)
        shape = None if program is None else _shape_at(program)
    if shape is None:
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    positional = shape.arguments - len(shape.keywords) + (names[:1] == ("self",))
    wanted = (*names[:positional], *shape.keywords)
    if positional > code.co_argcount or any(name not in given for name in wanted):
        return None
    return (
        tuple(given[name] for name in names[:positional]),
        {name: given[name] for name in shape.keywords},
    )


_FRAMES = 12  # of modes, three each


def _before_modes(frame: FrameType, code: CodeType) -> FrameType | None:
    """The frame that called the function of ``code`` before modes handed the call on to it."""
    found: FrameType | None = None
    above: FrameType | None = frame
    for _ in range(_FRAMES):
        if above is None or above.f_back is None:
            break
        if above.f_code is _HAND_ON and above.f_back.f_code is code:
            found = above = above.f_back.f_back
        else:
            above = above.f_back
    return found


def _shape_at(frame: FrameType) -> Shape | None:
    """The call at which ``frame`` stands; its position may point behind the instruction."""
    code = frame.f_code
    found = _calls.get(id(code))
    if found is None:
        shapes = _shapes_of(code)
        found = _calls[id(code)] = (code, list(shapes), list(shapes.values()))
    _, offsets, shapes_in_order = found
    index = bisect_right(offsets, frame.f_lasti) - 1
    return shapes_in_order[index] if index >= 0 else None


def _shapes_of(code: CodeType) -> dict[int, Shape | None]:
    shapes: dict[int, Shape | None] = {}
    keywords: tuple[str, ...] = ()
    constant: Any = None
    for instruction in dis.get_instructions(code):
        kind = instruction.opname
        if kind == "KW_NAMES":  # Python 3.11 and 3.12
            keywords = code.co_consts[instruction.arg or 0]
        elif kind == "LOAD_CONST":
            constant = instruction.argval
        elif kind in _PLAIN_CALLS:
            shapes[instruction.offset] = Shape(instruction.arg or 0, keywords)
            keywords = ()
        elif kind in _KEYWORD_CALLS:
            shapes[instruction.offset] = Shape(instruction.arg or 0, constant)
        else:  # f(*args), an operator: nothing to be learned
            shapes[instruction.offset] = None
    return shapes
