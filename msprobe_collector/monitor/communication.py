"""What ranks give and get in the communication of a training, by the line that calls it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from msprobe_builder.link.signatures import FUNCTIONS
from msprobe_collector.intercept.redirect import Redirect
from msprobe_collector.monitor.exchanged import Part, exchanged
from msprobe_collector.record.plain_values import group_ranks
from msprobe_collector.unseen import unseen

Place = Any  # that is kept for the numbers of a tensor, None for none


class Taking(Protocol):
    """What is done with what calls give and get."""

    def reserve(self, name: str, pair: str) -> Place:
        """Keep a place among what goes between two ranks, in the order of the calls."""

    def release(self, place: Place) -> None:
        """Nothing comes for a place that was kept."""

    def take(self, name: str, tensor: torch.Tensor, place: Place) -> None:
        """Measure a tensor of the call ``name``, also for a place that was kept."""


class _FromAnyone(NamedTuple):
    """A place for each rank of a group, of which one may have sent it, and what it is then."""

    place: str
    ranks: Sequence[int]
    pairs: Sequence[str | None]
    kept: Sequence[Place]


_Parts = Sequence[tuple[torch.Tensor, Place]]
_LIBRARY = ("/torch/", "/site-packages/", "/dist-packages/", "/msprobe_collector/")
_DEEPEST = 40  # frames that are looked through for the caller's own


class Communication:
    """Follows the functions of ``torch.distributed`` from :meth:`install` to :meth:`remove`.

    ``taking`` is given what a call begins with and what it leaves, called
    ``all_reduce train.py:61 given`` and ``… got``; what is waited for is taken then. What goes
    from one rank to another has a name besides, see ``exchanged.py``. Within a function no other
    one is seen.
    """

    def __init__(
        self, taking: Taking, fail: Callable[[Exception], None], is_open: Callable[[], bool]
    ) -> None:
        self._taking, self._fail, self._is_open = taking, fail, is_open
        self._redirects: list[Redirect] = []
        self._waiting: list[tuple[list[Any], str, _Parts]] = []
        self.lines: dict[str, tuple[tuple[int, ...], str]] = {}  # ranks and operation of each place
        self._wait: Any = None
        self._thread = threading.local()

    def install(self) -> None:
        """Begin, unless it has begun."""
        if self._redirects or not dist.is_available():
            return
        found = {name: getattr(dist, name, None) for name in FUNCTIONS}
        self._redirects = [
            Redirect(function, self._seen(name), is_compiling=torch.compiler.is_compiling)
            for name, function in found.items()
            if isinstance(function, types.FunctionType)
        ]
        for redirect in self._redirects:
            redirect.install()
        self._wait = dist.Work.wait
        dist.Work.wait = self._waited(self._wait)  # type: ignore[method-assign]

    def remove(self) -> None:
        """Leave nothing installed."""
        for redirect in self._redirects:
            redirect.remove()
        self._redirects = []
        self._waiting = []
        if self._wait is not None:
            dist.Work.wait = self._wait  # type: ignore[method-assign]
            self._wait = None

    def _seen(self, name: str) -> Callable[..., Any]:
        function = FUNCTIONS[name]

        def seen(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if getattr(self._thread, "is_inside", False) or not self._is_open():
                return original(*args, **kwargs)
            self._thread.is_inside = True
            try:
                bound = {**dict(zip(function.parameters, args, strict=False)), **kwargs}
                place = f"{name} {_caller(sys._getframe(2))}"
                given, got = self._seen_at(name, place, bound)
                self._measure(f"{place} given", given)
                result = original(*args, **kwargs)
                works = [one for one in tree_leaves(result) if isinstance(one, dist.Work)]
                if works:
                    self._waiting.append((works, f"{place} got", got))
                else:
                    self._measure(f"{place} got", self._settled(got, result))
                return result
            finally:
                self._thread.is_inside = False

        return seen

    def _seen_at(self, name: str, place: str, bound: dict[str, Any]) -> tuple[_Parts, _Parts]:
        """What a call gives and gets, with the places that are kept for it."""
        try:
            self._note(place, bound)
            given, got = exchanged(name, place, FUNCTIONS[name], bound)
            ranks = group_ranks(bound.get("group"))
            given_parts = self._reserved(place, "given", given, ranks)
            return given_parts, self._reserved(place, "got", got, ranks)
        except Exception as error:
            self._fail(error)
            return (), ()

    def _reserved(
        self, place: str, way: str, parts: Sequence[Part], ranks: Sequence[int]
    ) -> _Parts:
        found: list[tuple[torch.Tensor, Place]] = []
        for tensor, pair, anyone in parts:
            if not tensor.is_floating_point():
                continue
            if anyone:
                name = f"{place} {way}"
                each = [one and self._taking.reserve(name, one) for one in anyone]
                found.append((tensor, _FromAnyone(place, ranks, anyone, each)))
                continue
            kept = self._taking.reserve(f"{place} {way}", pair) if pair else None
            found.append((tensor, kept))
            if kept is not None and not pair.startswith(place):
                self._note_pair(pair, place)
        return found

    def _settled(self, parts: _Parts, source: Any) -> _Parts:
        """With the place of whoever has sent what came from anyone, where that is known."""
        found: list[tuple[torch.Tensor, Place]] = []
        for tensor, kept in parts:
            if not isinstance(kept, _FromAnyone):
                found.append((tensor, kept))
                continue
            at = kept.ranks.index(source) if source in kept.ranks else -1
            pair = kept.pairs[at] if at >= 0 else None
            found.append((tensor, None if pair is None else kept.kept[at]))
            if pair is None:
                continue  # the places stay empty, so that nothing is said of them
            for n, one in enumerate(kept.kept):
                if n != at and one is not None:
                    self._taking.release(one)
            if kept.kept[at] is not None:
                self._note_pair(pair, kept.place)
        return found

    def _note_pair(self, pair: str, place: str) -> None:
        """The lines by which something goes to another rank, or comes from it."""
        _, known = self.lines.get(pair, ((), ""))
        if place not in known.split(", "):
            own, other = dist.get_rank(), int(pair.rpartition(" ")[2])
            self.lines[pair] = (own, other), f"{known}, {place}" if known else place

    def _note(self, place: str, bound: dict[str, Any]) -> None:
        """Which ranks communicate by a line, and how a reduction adds up."""
        ranks = tuple(group_ranks(bound.get("group")))
        operation = str(bound.get("op", dist.ReduceOp.SUM)).rpartition(".")[2]
        found = self.lines.setdefault(place, (ranks, operation))
        if found != (ranks, operation):
            self.lines[place] = ((), "")  # it serves several groups

    def _waited(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(work, *args, **kwargs)
            for entry in [one for one in self._waiting if work in one[0]]:
                works, name, got = entry
                works.remove(work)
                if not works:
                    self._waiting.remove(entry)
                    # Which of several that wait for one rank gets what is up to the backend.
                    self._measure(name, self._settled(got, None))
            return result

        return wait

    def _measure(self, name: str, parts: _Parts) -> None:
        try:
            with torch.no_grad(), unseen():
                for tensor, place in parts:
                    self._taking.take(name, tensor, place)
        except Exception as error:
            self._fail(error)


def _caller(frame: FrameType | None) -> str:
    """File and line of the program's own code, or of whatever called."""
    own = frame
    for _ in range(_DEEPEST):
        if own is None:
            break
        if not any(part in own.f_code.co_filename for part in _LIBRARY):
            return f"{Path(own.f_code.co_filename).name}:{own.f_lineno}"
        own = own.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
