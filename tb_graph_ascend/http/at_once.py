"""Answers that several ask for at the same time are made once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future


class AtOnce:
    """Keeps what is being made, and nothing once it is there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[str, Future[bytes]] = {}

    def make(self, key: str, make: Callable[[], bytes]) -> bytes:
        """What ``make`` gives, or gave another thread that began with this key before.

        Whoever waits gets the same exception, too.
        """
        mine: Future[bytes] = Future()
        with self._lock:
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
            mine.set_result(answer)
            return answer
        finally:
            # Else an exception would hold itself, by this frame, and with it the open file.
            del mine, found
