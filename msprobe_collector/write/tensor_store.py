"""``dump_tensor_data/tensors.bin``: all tensors of a step and rank, one behind the other.

``index.json`` tells for each name where its bytes begin and what they are. A training step has
thousands of tensors; a file for each of them takes longer than the numbers do.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from msprobe_collector.write.step_files import AppendedObject

DATA, INDEX = "tensors.bin", "index.json"
_ALIGNMENT = 64  # bytes, so that any type can be mapped


class TensorStore:
    """The tensors of one step; entries of the index wait for :meth:`flush`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self._path = directory / DATA
        self._data = os.open(self._path, flags, 0o640)
        self._index = AppendedObject(directory / INDEX, "{", "\n}")
        self._entries: dict[str, str] = {}
        self._waiting: list[str] = []
        self._end = 0
        self._lock = threading.Lock()

    def add(self, name: str, dtype: str, shape: Sequence[int], content: memoryview) -> None:
        """Write the bytes of a tensor, row by row.

        OSError when the disk takes no more; the index then does not know the tensor.
        """
        size = len(content)
        with self._lock:
            offset = self._end
            self._end = offset + -(-size // _ALIGNMENT) * _ALIGNMENT
        written = 0
        try:
            while written < size:
                written += os.pwrite(self._data, content[written:], offset + written)
        except OSError as error:
            error.filename = str(self._path)
            raise
        entry = f'{{"offset": {offset}, "dtype": "{dtype}", "shape": {list(shape)}}}'
        with self._lock:
            self._entries[name] = entry
            self._waiting.append(f" {json.dumps(name)}: {entry}")

    def add_name(self, name: str, known: str) -> None:
        """Call the tensor that is ``known`` by another name, too."""
        with self._lock:
            self._waiting.append(f" {json.dumps(name)}: {self._entries[known]}")

    def flush(self) -> None:
        """Make what was written findable."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._index.append(waiting)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._data)
        self._index.close()
