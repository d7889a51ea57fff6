"""A workbook on a disk without room."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys

import pytest

from msprobe_builder.dump.task import Task
from msprobe_builder.tables import write
from msprobe_builder.tables.columns import columns_of


class Full(io.RawIOBase):
    """A file on a disk without room."""

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, _: int = 0) -> int:
        return offset

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library tries to end its archive once more when it is collected."""
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with (
        pytest.raises(OSError, match="No space left on device"),
        io.BufferedWriter(Full()) as stream,
    ):
        list(write._workbook(stream, columns_of(Task.STATISTICS)))
    gc.collect()
    assert not told
