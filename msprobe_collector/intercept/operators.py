"""Tell ``a + b`` from ``a.add(b)``.

Torch reports both as ``Tensor.add``; the established names keep them apart (``Tensor.__add__``,
``Tensor.__radd__`` for ``2 + a``). Python enters an operator through the special method of the
class, also from ``sum`` or ``operator.mul``, so these methods say their name before they go on.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from msprobe_collector.intercept.staged import leave_alone

# Those that torch reports under another name than their own.
_SPECIAL_METHODS = """
    __add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __matmul__
    __radd__ __rmul__ __rand__ __ror__ __rxor__
    __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__
    __lt__ __le__ __gt__ __ge__ __eq__ __ne__ __neg__ __invert__
""".split()


class _Entered(threading.local):
    operator: str | None = None


_entered = _Entered()


def take_operator() -> str | None:
    """The special method through which the call at hand was entered; None for any other call."""
    operator = _entered.operator
    _entered.operator = None
    return operator


def _announcing(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def special_method(*operands: Any) -> Any:
        _entered.operator = name
        try:
            return original(*operands)
        finally:
            _entered.operator = None

    leave_alone(special_method.__code__)
    method = functools.wraps(original)(special_method)
    method.__module__ = "torch._tensor"  # where those made in Python come from
    return method


class Operators:
    """Has the special methods of tensors say their names between install and remove."""

    def __init__(self) -> None:
        self._installed: dict[str, Any] = {}

    def install(self) -> None:
        for name, method in _methods().items():
            self._installed[name] = torch.Tensor.__dict__.get(name)
            setattr(torch.Tensor, name, method)

    def remove(self) -> None:
        for name, own in self._installed.items():
            if torch.Tensor.__dict__.get(name) is not _methods()[name]:
                continue  # someone replaced it after us and keeps theirs
            if own is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, own)
        self._installed = {}


@functools.cache
def _methods() -> dict[str, Callable[..., Any]]:
    return {name: _announcing(name, getattr(torch.Tensor, name)) for name in _SPECIAL_METHODS}
