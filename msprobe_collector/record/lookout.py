"""Writes down a step in which nothing happens any more: a call hangs, a process is killed.

Files are otherwise written where calls return. A call that takes long, a collective that never ends
for example, would keep all before it in memory, and nobody would know which call it was.
"""

from __future__ import annotations

import threading
from typing import Protocol

_LOOKS_EVERY = 0.3  # seconds; what stands still at two looks is written


class Watched(Protocol):
    """The state of a step that others change."""

    def position(self) -> object:
        """Changes with every call; None while nothing is recorded."""

    def write_open_calls(self) -> None:
        """Write all that is known, and the calls that have not returned."""


class Lookout:
    """A thread that looks at ``watched`` from time to time, from begin to end."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    def begin(self) -> None:
        """Look from here on; in a forked process as well, where no thread has come along."""
        if self._thread is None or not self._thread.is_alive():
            self._end = threading.Event()
            self._thread = threading.Thread(
                target=self._look, args=(self._end,), name="msprobe_collector lookout", daemon=True
            )
            self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._end.set()

    def _look(self, end: threading.Event) -> None:
        seen: object = None
        written: object = None
        while not end.wait(_LOOKS_EVERY):
            before, seen = seen, self._watched.position()
            if seen is not None and seen == before and seen != written:
                written = seen
                self._watched.write_open_calls()
