"""Take over a Python function for a while, whichever way it was imported.

Replacing ``module.function`` misses everyone who wrote ``from module import function`` before.
Replacing the function's *code* reaches all of them, because they hold the same function object,
and putting the code back leaves no trace.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from itertools import count
from typing import Any

from msprobe_collector.record.stack import HIDDEN_NAME

# What redirected functions call, by a number in their code: compilers that read code know constants
# of plain types alone.
TARGETS: dict[int, Callable[..., Any]] = {}
_numbers = count()


_ANY_NUMBER = -1  # in the text, until a function has its own

# A function's cells must be those of its code, or what compilers make of it does not run.
_ENTRY = """
def around({cells}):
    def entry(*args, **kwargs):
        if 0:
            {reads}
        from msprobe_collector.intercept.redirect import TARGETS
        return TARGETS[{number}](*args, **kwargs)
    return entry
"""


@functools.cache
def _compiled(cells: tuple[str, ...]) -> types.CodeType:
    names = ", ".join(cells)
    source = _ENTRY.format(cells=names, reads=names or "pass", number=_ANY_NUMBER)
    made: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), made)  # noqa: S102  our own text
    code: types.CodeType = made["around"](*cells).__code__
    return code


def _entry_code(number: int, original: types.CodeType, disguised: bool) -> types.CodeType:
    code = _compiled(original.co_freevars)
    constants = (number if part == _ANY_NUMBER else part for part in code.co_consts)
    code = code.replace(co_consts=tuple(constants))
    if not disguised:
        return code
    return code.replace(
        co_filename=original.co_filename,
        co_firstlineno=original.co_firstlineno,
        co_name=HIDDEN_NAME,
    )


class Redirect:
    """``function(…)`` becomes ``target(original, …)`` between install and remove.

    A ``disguised`` function still shows where it was written: compilers read its source. While
    ``is_compiling`` says so, the original alone is called.
    """

    def __init__(
        self,
        function: types.FunctionType,
        target: Callable[..., Any],
        disguised: bool = False,
        is_compiling: Callable[[], bool] = bool,
    ) -> None:
        self._function = function
        self._target = target
        self._disguised = disguised
        self._is_compiling = is_compiling
        self._number = next(_numbers)  # once: what is behind it stays for calls on their way
        self._take_over(function.__code__)

    def _take_over(self, code: types.CodeType) -> None:
        function, target, is_compiling = self._function, self._target, self._is_compiling
        original = types.FunctionType(
            code,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        original.__kwdefaults__ = function.__kwdefaults__

        def redirected(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            return target(original, *args, **kwargs)

        self._code, self._original, self._redirected = code, original, redirected
        self._entry = _entry_code(self._number, code, self._disguised)

    def install(self) -> None:
        code = self._function.__code__
        if code is not self._code and code is not self._entry:
            self._take_over(code)  # someone replaced it since the last time
        TARGETS[self._number] = self._redirected
        self._function.__code__ = self._entry

    def remove(self) -> None:
        # Someone who replaced the code after us keeps theirs.
        if self._function.__code__ is self._entry:
            self._function.__code__ = self._code
        # Calls of other threads may be on their way into it.
        TARGETS[self._number] = self._original
