"""The .vis.db files below the log directory, and the only way from a request to one of them.

A request names a file by its path below the log directory. The name is looked up among the files
that a walk has found; it is never turned into a path. So a link may lead out of the log directory
if it lies there itself, but ``..`` or an absolute path names nothing.

TensorBoard walks while it starts, so what reads files is imported when the first is asked for.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tb_graph_ascend.limits import FRESH_SECONDS, MAX_DIRECTORIES, MAX_ENTRIES
from tb_graph_ascend.problems import not_found

if TYPE_CHECKING:
    from msprobe_builder.database.file import DatabaseFile

SUFFIX = ".vis.db"
TREND_SUFFIX = ".trend.db"

_log = logging.getLogger(__name__)


class LogDirectory:
    """Finds files below one directory; remembers what it found for a moment.

    Names of files are their paths below it, with forward slashes.
    """

    def __init__(self, path: str | None, suffix: str = SUFFIX) -> None:
        # Path.expanduser raises for an unknown user; nothing may fail while TensorBoard starts.
        home = os.path.expanduser(path) if path else None  # noqa: PTH111
        self.path = Path(home).absolute() if home else None
        self._suffix = suffix
        self._found: dict[str, Path] = {}
        self._found_at = float("-inf")
        self._active = False
        self._active_at = float("-inf")

    def holds_files(self) -> bool:
        """Whether there is any file to show; cheap enough to be asked often."""
        if time.monotonic() - self._active_at > FRESH_SECONDS:
            self._active = next(self._walk(), None) is not None
            self._active_at = time.monotonic()
        return self._active

    def files(self) -> list[DatabaseFile]:
        """All files, found anew, numbers in their names in numeric order."""
        from msprobe_builder.database.file import read_file

        found = self._search()
        files = (read_file(name, found[name]) for name in sorted(found, key=_natural_order))
        return [file for file in files if file is not None]

    def file(self, name: str) -> DatabaseFile:
        """The file of this name as it is now."""
        from msprobe_builder.database.file import read_file

        found = self._found
        if name not in found and time.monotonic() - self._found_at > FRESH_SECONDS:
            found = self._search()
        path = found.get(name)
        file = read_file(name, path) if path is not None else None
        if file is None:
            raise not_found(
                "unknown_file",
                f"There is no file {name!r} below the log directory.",
                "Refresh the list of files and choose one of them.",
            )
        return file

    def look_again(self) -> None:
        """Have the next request walk anew: a file was just made."""
        self._found_at = float("-inf")

    def _search(self) -> dict[str, Path]:
        found = dict(self._walk())
        self._found, self._found_at = found, time.monotonic()
        return found

    def _walk(self) -> Iterator[tuple[str, Path]]:
        """Names and paths, breadth first, so that what lies near the top is found soon."""
        if self.path is None:
            return
        waiting = deque([("", self.path)])
        seen: set[tuple[int, int]] = set()
        entries = 0
        while waiting:
            prefix, directory = waiting.popleft()
            try:
                identity = directory.stat()
                if (identity.st_dev, identity.st_ino) in seen:
                    continue
                seen.add((identity.st_dev, identity.st_ino))
            except OSError:
                continue
            for entry in _listing(directory):
                entries += 1
                name = prefix + entry.name
                if entry.name.endswith(self._suffix) and _is_file(entry) and _is_text(name):
                    yield name, Path(entry.path)
                elif not entry.name.startswith(".") and _is_directory(entry):
                    waiting.append((name + "/", Path(entry.path)))
            if len(seen) >= MAX_DIRECTORIES or entries >= MAX_ENTRIES:
                _log.warning(
                    "Stopped looking for %s files in %s: too large.", self._suffix, self.path
                )
                return


def _listing(directory: Path) -> Iterator[os.DirEntry[str]]:
    """What a directory holds, up to where listing it fails: a network disk may go at any time."""
    try:
        with os.scandir(directory) as listing:
            yield from listing
    except OSError as error:
        _log.warning("Could not list all of %s: %s.", directory, error.strerror)


def _natural_order(name: str) -> list[str | int]:
    parts = re.split("([0-9]+)", name)
    return [int(part) if index % 2 else part.casefold() for index, part in enumerate(parts)]


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_text(name: str) -> bool:
    """Whether the name can be sent at all; a name that is not UTF-8 is passed over."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        _log.warning("Skipped %r: its name is not valid UTF-8. Rename it.", name)
        return False
    return True
