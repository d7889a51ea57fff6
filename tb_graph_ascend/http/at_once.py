"""Answers that several ask for are made once: all at the same time, large ones also later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from tb_graph_ascend.http.responses import Body
from tb_graph_ascend.limits import KEPT_BYTES, KEPT_FROM


class AtOnce:
    """Keeps what is being made, and of large answers those asked for last."""

    def __init__(self, room: int = KEPT_BYTES) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[Body]] = {}
        self._room = room
        self._kept: dict[str, Body] = {}  # who was asked for last at the end

    def make(self, key: str, make: Callable[[], Body]) -> Body:
        """What ``make`` gives, or gave another thread that began with this key before.

        Whoever waits gets the same exception, too.
        """
        mine: Future[Body] = Future()
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept
                return kept
            found = self._under_way.setdefault(key, mine)
        try:
            if found is not mine:
                return found.result()
            try:
                answer = make()
            except BaseException as error:
                mine.set_exception(error)
                raise
            finally:
                with self._lock:
                    del self._under_way[key]
            self._keep(key, answer)
            mine.set_result(answer)
            return answer
        finally:
            # Else an exception would hold itself, by this frame, and with it the open file.
            del mine, found

    def _keep(self, key: str, answer: Body) -> None:
        """Small ones are made again in no time; all others together never exceed the room."""
        if not KEPT_FROM <= len(answer.content) <= self._room:
            return
        with self._lock:
            self._kept[key] = answer
            used = sum(len(one.content) for one in self._kept.values())
            while used > self._room:
                oldest = next(iter(self._kept))
                used -= len(self._kept.pop(oldest).content)
