"""Take over a Python function for a while, whichever way it was imported.

Replacing ``module.function`` misses everyone who wrote ``from module import function`` before.
Replacing the function's *code* reaches all of them, because they hold the same function object,
and putting the code back leaves no trace.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from msprobe_collector.record.stack import HIDDEN_NAME


def _entry_code(
    target: Callable[..., Any], original: types.CodeType, disguised: bool
) -> types.CodeType:
    def entry(*args: Any, **kwargs: Any) -> Any:
        call: Any = "replaced below"
        return call(*args, **kwargs)

    code = entry.__code__
    constants = tuple(target if item == "replaced below" else item for item in code.co_consts)
    code = code.replace(co_consts=constants, co_freevars=original.co_freevars)
    if not disguised:
        return code
    return code.replace(
        co_filename=original.co_filename,
        co_firstlineno=original.co_firstlineno,
        co_name=HIDDEN_NAME,
    )


class Redirect:
    """``function(…)`` becomes ``target(original, …)`` between install and remove.

    A ``disguised`` function still shows where it was written: compilers read its source.
    """

    def __init__(
        self, function: types.FunctionType, target: Callable[..., Any], disguised: bool = False
    ) -> None:
        self._function = function
        self._code = function.__code__
        original = types.FunctionType(
            self._code,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        original.__kwdefaults__ = function.__kwdefaults__

        def redirected(*args: Any, **kwargs: Any) -> Any:
            return target(original, *args, **kwargs)

        self._entry = _entry_code(redirected, self._code, disguised)

    def install(self) -> None:
        self._function.__code__ = self._entry

    def remove(self) -> None:
        # Someone who replaced the code after us keeps theirs.
        if self._function.__code__ is self._entry:
            self._function.__code__ = self._code
