"""Calls of Cells: ``Cell.__call__`` is taken over, no Cell carries a hook."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mindspore import nn

from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.intercept.token_range import TokenRange
from msprobe_collector.record.module_calls import close_module, enter_module, leave_module
from msprobe_collector.record.session import Session


class Cells:
    """Follows the Cells of the given models between install and remove."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._places: dict[int, tuple[Any, str, str]] = {}  # the Cell, its path and its stem
        self._redirects: dict[types.FunctionType, Redirect] = {}

    def install(self, models: Sequence[tuple[str, Any]]) -> None:
        for prefix, model in models:
            for path, cell in named_cells(prefix, model):
                stem = f"{path}.{type(cell).__name__}"
                self._places.setdefault(id(cell), (cell, path, stem))
                if self._session.collects_gradients:
                    self._session.parameters.watch(stem, cell)
                for kind in type(cell).__mro__:
                    self._take_over(kind.__dict__.get("__call__"))

    def remove(self) -> None:
        for redirect in self._redirects.values():
            redirect.remove()
        self._places = {}

    def _take_over(self, call: Any) -> None:
        if isinstance(call, types.FunctionType):
            if call not in self._redirects:
                self._redirects[call] = Redirect(call, self._call, True)
            self._redirects[call].install()

    def _call(self, original: Callable[..., Any], cell: Any, *args: Any, **kwargs: Any) -> Any:
        session = self._session
        place = self._places.get(id(cell)) if session.active else None
        threads = session.threads
        inside = bool(threads.modules) and threads.modules[-1].owner is cell  # super().__call__
        if place is None or place[0] is not cell or inside:
            return original(cell, *args, **kwargs)
        hidden, threads.hides_calls = threads.hides_calls, False
        seen, threads.sees_calls = threads.sees_calls, True
        _, path, stem = place
        try:
            with session.framework.unseen():
                enter_module(session, stem, path, cell, args, kwargs, sys._getframe(3))
        except Exception as error:
            session.report(stem, error)
        result = None
        try:
            result = original(cell, *args, **kwargs)
            return result
        finally:
            with session.framework.unseen():
                opened = close_module(session, cell)
                parameters = session.framework.own_parameters(cell)
                leave_module(session, opened, result, parameters)
            threads.hides_calls, threads.sees_calls = hidden, seen


class CountedCalls:
    """Tells a :class:`TokenRange` of each call of a model, between install and remove."""

    def __init__(self, tokens: TokenRange) -> None:
        self._tokens = tokens
        self._model: Any = None
        self._redirect: Redirect | None = None

    def install(self, model: Any, bounds: tuple[int, int]) -> None:
        self._tokens.begin(bounds)
        self._model = model
        calls = (kind.__dict__.get("__call__") for kind in type(model).__mro__)
        call = next(call for call in calls if isinstance(call, types.FunctionType))
        self._redirect = Redirect(call, self._call, True)
        self._redirect.install()

    def remove(self) -> None:
        if self._redirect is not None:
            self._redirect.remove()
        self._model = self._redirect = None

    def _call(self, original: Callable[..., Any], cell: Any, *args: Any, **kwargs: Any) -> Any:
        if cell is self._model:
            self._tokens.count()
        return original(cell, *args, **kwargs)


def named_cells(prefix: str, model: Any) -> Iterator[tuple[str, Any]]:
    """Every Cell with its path; a model without parts stands for itself."""
    found = False
    for name, cell in model.cells_and_names():
        if cell is not model and not _is_machinery(cell):
            found = True
            yield f"{prefix}.{name}", cell
    if not found:
        yield prefix, model


def _is_machinery(cell: Any) -> bool:
    """Cells that hold others, or that MindSpore puts around those it recomputes."""
    kind = type(cell)
    is_private = kind.__name__.startswith("_") and kind.__module__.startswith("mindspore.")
    return is_private or isinstance(cell, (nn.CellList, nn.CellDict))
