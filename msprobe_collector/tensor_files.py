"""``dump_tensor_data/*.pt``: tensors are copied at once and written in the background.

The copies that wait are bounded in bytes: whoever adds more waits for the disk instead of
filling the memory.
"""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

import torch

_log = logging.getLogger("msprobe_collector")
_WAITING_BYTES = 256 * 1024 * 1024


class TensorFiles:
    """Writes tensors into ``directory``, which may change from step to step."""

    def __init__(self) -> None:
        self.directory: Path | None = None
        self._queue: queue.SimpleQueue[tuple[torch.Tensor, Path] | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._waiting_bytes = 0
        self._waiting_files = 0
        self._thread: threading.Thread | None = None

    def save(self, tensor: torch.Tensor, path: str) -> str:
        """Copy ``tensor`` now, write it soon; returns the name of the file."""
        assert self.directory is not None, "open a step before saving tensors"
        name = f"{path}.pt".replace("/", "_").replace("\\", "_")
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
        size = copy.numel() * copy.element_size()
        with self._room:
            self._room.wait_for(
                lambda: not self._waiting_bytes or self._waiting_bytes + size <= _WAITING_BYTES
            )
            self._waiting_bytes += size
            self._waiting_files += 1
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write_all, name="msprobe_collector tensors", daemon=True
            )
            self._thread.start()
        self._queue.put((copy, self.directory / name))
        return name

    def drain(self) -> None:
        """Wait until every tensor is on disk."""
        with self._room:
            self._room.wait_for(lambda: not self._waiting_files)

    def close(self) -> None:
        self.drain()
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _write_all(self) -> None:
        while (job := self._queue.get()) is not None:
            copy, path = job
            size = copy.numel() * copy.element_size()
            try:
                path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
                torch.save(copy.cpu(), path)
                path.chmod(0o640)
            except Exception as error:  # a full disk must not end the training
                _log.warning("%s cannot be written: %s.", path, error)
            del copy, job
            with self._room:
                self._waiting_bytes -= size
                self._waiting_files -= 1
                self._room.notify_all()
