"""``dump_enable`` of a configuration file, which may be changed while a training runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from msprobe_collector.config.settings import Config, read_file, switched_on
from msprobe_collector.errors import CollectorError

_log = logging.getLogger("msprobe_collector")


class Switch:
    """Whether to record, as ``key`` says in the file that the configuration came from.

    The file is looked at each time one asks, and read when it has changed. One that cannot be
    read, or lacks the key, leaves it as it was. What else has changed is for ``reread``.
    """

    def __init__(
        self,
        path: Path | None,
        is_on: bool,
        key: str = "dump_enable",
        reread: Callable[[], None] = lambda: None,
    ) -> None:
        self._path = path
        self._reread = reread
        self._key = key
        self._is_on = is_on
        self._seen = self._state()
        self._tell()

    def is_on(self) -> bool:
        """Whether to record now."""
        state = self._state()
        if self._path is None or state is None or state == self._seen:
            return self._is_on
        self._seen = state
        try:
            found = switched_on(read_file(self._path), self._key)
            self._reread()
        except CollectorError as error:
            _log.warning("%s %s stays %s.", error, self._key, str(self._is_on).lower())
            return self._is_on
        if found is not None and found != self._is_on:
            self._is_on = found
            self._tell()
        return self._is_on

    def _state(self) -> tuple[int, int] | None:
        try:
            found = None if self._path is None else self._path.stat()
        except OSError:
            return None
        return None if found is None else (found.st_mtime_ns, found.st_size)

    def _tell(self) -> None:
        where = "the configuration" if self._path is None else str(self._path)
        if self._is_on:
            _log.info("%s is true in %s: what comes next is recorded.", self._key, where)
        else:
            _log.info("%s is false in %s: nothing is recorded until it is true.", self._key, where)


def switch_of(config: Config, reread: Callable[[], None] = lambda: None) -> Switch | None:
    """The switch of a configuration that has one."""
    if config.dump_enable is None:
        return None
    return Switch(config.source, config.dump_enable, reread=reread)
