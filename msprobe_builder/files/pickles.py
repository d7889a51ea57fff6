"""Pickles from outside: how much they make of themselves is told before they are loaded.

Loading runs in C and cannot be stopped. Tuples that are named many times inside each other have so
many parts, each time that one becomes a key of a mapping, that no time is enough for them.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from typing import IO, Any, NamedTuple

from msprobe_builder.base.limits import DEEPEST_VALUE, LARGEST_KEY, MOST_OPCODES

_SUMMED = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "FROZENSET"}
_KEPT = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_TAKEN = {"GET", "BINGET", "LONG_BINGET"}
_FILLED = {"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"}
_ONE = None  # a value that counts as one


class _Size(NamedTuple):
    """Parts of a value that cannot change, counted each time that one is named."""

    parts: int
    depth: int


def load_records(content: bytes, known: Callable[[str, str], Any]) -> Any:
    """What a pickle of plain records holds.

    ``known`` gives what a module and a name stand for, None for what the file may not name.
    Anything may be raised for a file that is damaged, or asks for more.
    """
    check_pickle(content)
    return _Unpickler(io.BytesIO(content), known).load()


class _Unpickler(pickle.Unpickler):
    """Makes what is known and nothing else."""

    def __init__(self, stream: IO[bytes], known: Callable[[str, str], Any]) -> None:
        super().__init__(stream)
        self._known = known

    def find_class(self, module: str, name: str) -> Any:
        found = self._known(module, name)
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return found


def check_pickle(stream: IO[bytes] | bytes) -> None:
    """Read one pickle without making anything of it; ValueError when it is too much, or damaged."""
    try:
        _follow(stream)
    except PickleError:
        raise
    except Exception as error:  # a damaged one may raise anything
        raise PickleError("it is cut off or damaged") from error


class PickleError(ValueError):
    """Why a pickle is not loaded."""


def _follow(stream: IO[bytes] | bytes) -> None:
    stack: list[_Size | None] = []
    marks: list[int] = []
    memo: dict[int, _Size | None] = {}
    for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if count > MOST_OPCODES:
            raise PickleError(f"it describes more than {MOST_OPCODES:,} values")
        name = opcode.name
        if name in _KEPT:
            place = argument if isinstance(argument, int) else len(memo)
            memo[place] = stack[-1] if stack else _ONE
        elif name in _TAKEN:
            stack.append(memo.get(int(argument or 0)))
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "DUP":
            stack.append(stack[-1] if stack else _ONE)
        else:
            needs = opcode.stack_before
            if pickletools.markobject in needs:
                if not marks:
                    raise PickleError("it is damaged")
                at = marks.pop() - needs.index(pickletools.markobject)
            else:
                at = len(stack) - len(needs)
            if at < 0:
                raise PickleError("it is damaged")
            taken = stack[at:]
            del stack[at:]
            if name in _SUMMED:
                stack.append(_summed(taken))
            elif name in _FILLED:
                stack.append(taken[0] if taken else _ONE)
            else:
                stack += [_ONE] * len(opcode.stack_after)


def _summed(values: list[_Size | None]) -> _Size:
    known = [one for one in values if one is not None]
    size = _Size(
        1 + len(values) - len(known) + sum(one.parts for one in known),
        1 + max((one.depth for one in known), default=0),
    )
    if size.parts > LARGEST_KEY or size.depth > DEEPEST_VALUE:
        raise PickleError("it holds tuples inside each other without end")
    return size
