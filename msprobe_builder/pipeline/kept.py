"""The side that many replicas are compared with: merged once, then kept by who runs the jobs."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.side import Side

if TYPE_CHECKING:
    from concurrent.futures import Future


class Keep(NamedTuple):
    """Which side of a job others are compared with as well, and its name among all of them."""

    side: int
    name: str


@dataclass(frozen=True)
class Kept:
    """A side as it was read, with the texts and the findings of reading it."""

    side: Side
    texts: Texts
    found: list[Diagnostic]


class Keeper:
    """Keeps at most one side, so that a process holds no more than one model of each side.

    Threads of one process may share it: who asks for what another is reading waits for that.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._name: str | None = None
        self._kept: Future[Kept] | None = None

    def obtain(self, name: str, read: Callable[[], Kept]) -> tuple[Kept, bool]:
        """What was kept under that name, and true; else what ``read`` gives, kept from now on.

        The texts are a copy, which can grow with those of the other side. What ``read`` raises is
        raised in every thread that waits for it, and nothing is kept then.
        """
        from concurrent.futures import Future

        with self._lock:
            is_kept = self._kept is not None and self._name == name
            if self._kept is None or not is_kept:
                self._name, self._kept = name, Future()
            kept = self._kept
        if not is_kept:
            try:
                kept.set_result(read())
            except BaseException as error:
                with self._lock:
                    if self._kept is kept:
                        self._name = None
                kept.set_exception(error)
        found = kept.result()
        return Kept(found.side, copy(found.texts), list(found.found)), is_kept

    def forget(self) -> None:
        """Keep nothing any longer."""
        with self._lock:
            self._name = self._kept = None
