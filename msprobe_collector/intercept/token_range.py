"""``start(model, token_range=(a, b))``: record some of a model's calls, as in generating text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msprobe_collector.errors import CollectorError
from msprobe_collector.record.ledger import Ledger

if TYPE_CHECKING:  # MindSpore needs no torch
    from torch import nn
    from torch.utils.hooks import RemovableHandle


def checked_range(given: Any, model: Any) -> tuple[int, int] | None:
    """The first and last call to record, counted from 0."""
    if given is None:
        return None
    numbers = list(given) if isinstance(given, (list, tuple)) else []
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    if len(numbers) != 2 or not whole or not 0 <= numbers[0] <= numbers[1]:
        raise CollectorError(f"token_range is {given!r}; write two numbers, 0 <= first <= last.")
    if model is None:
        raise CollectorError("token_range counts the calls of a model: call start(model, …).")
    return numbers[0], numbers[1]


class TokenRange:
    """Counts the calls of the outermost modules and switches the recording on and off."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._handles: list[RemovableHandle] = []
        self._range = (0, 0)
        self._calls = 0

    def begin(self, bounds: tuple[int, int]) -> None:
        """Record nothing until :meth:`count` has come to the first call."""
        self._range = bounds
        self._calls = 0
        self._ledger.active = False

    def install(self, models: Sequence[nn.Module], bounds: tuple[int, int]) -> None:
        """Count the calls of the first model."""
        self.begin(bounds)
        self._handles = [model.register_forward_pre_hook(self.count) for model in models[:1]]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def count(self, *_arguments: Any) -> None:
        """A call begins."""
        first, last = self._range
        self._ledger.active = first <= self._calls <= last and not self._ledger.finished
        self._calls += 1
