"""``dump_tensor_data/tensors.bin``: all tensors of a step and rank, one behind the other.

``index.json`` tells for each name where its bytes begin and what they are. A training step has
thousands of tensors; a file for each of them takes longer than the numbers do.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import threading
from pathlib import Path

import torch

from msprobe_collector.unseen import unseen
from msprobe_collector.write.step_files import AppendedObject

DATA, INDEX = "tensors.bin", "index.json"
_ALIGNMENT = 64  # bytes, so that any type can be mapped


def host_bytes(tensor: torch.Tensor) -> tuple[torch.Tensor, memoryview]:
    """The bytes of a plain tensor in the host's memory, row by row, and the tensor they are of.

    They are good while that tensor lives. Call inside :func:`unseen`.
    """
    plain = tensor
    if plain.is_conj() or plain.is_neg() or not plain.is_contiguous():
        plain = plain.detach().resolve_conj().resolve_neg().contiguous()
    size = plain.numel() * plain.itemsize
    if not size:
        return plain, memoryview(b"")
    # Through the address: NumPy lacks some types and takes several calls.
    content = (ctypes.c_ubyte * size).from_address(plain.data_ptr())
    return plain, memoryview(content).cast("B")


class TensorStore:
    """The tensors of one step; entries of the index wait for :meth:`flush`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
        self._data = os.open(directory / DATA, flags, 0o640)
        self._index = AppendedObject(directory / INDEX, "{", "\n}")
        self._entries: dict[str, str] = {}
        self._waiting: list[str] = []
        self._end = 0
        self._lock = threading.Lock()

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Write a tensor of the host's memory; OSError when the disk takes no more."""
        with unseen():
            plain, content = host_bytes(tensor)
        size = len(content)
        with self._lock:
            offset = self._end
            self._end = offset + -(-size // _ALIGNMENT) * _ALIGNMENT
            shape = list(plain.shape)
            entry = f'{{"offset": {offset}, "dtype": "{plain.dtype}", "shape": {shape}}}'
            self._entries[name] = entry
            self._waiting.append(f" {json.dumps(name)}: {entry}")
        while content:
            written = os.pwrite(self._data, content, offset)
            offset += written
            content = content[written:]

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
