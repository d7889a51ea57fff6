"""``dump_tensor_data``: the tensors themselves.

What lies in the host's memory is written at once into the store of the step. Anything else is
copied on its device and written in the background; the copies that wait are bounded in bytes:
whoever adds more waits for the disk instead of filling the memory.
"""

from __future__ import annotations

import queue
import threading
from pathlib import Path

import torch

from msprobe_builder.base.publish import replaced
from msprobe_collector.unseen import unseen
from msprobe_collector.write.host_bytes import host_bytes
from msprobe_collector.write.tensor_store import TensorStore

_WAITING_BYTES = 256 * 1024 * 1024


class TensorFiles:
    """Writes tensors into ``directory``, which may change from step to step.

    With ``one_file`` they lie behind each other, otherwise each is a ``.pt`` file of its own.
    """

    def __init__(self, one_file: bool = False) -> None:
        self.directory: Path | None = None
        self.saved_bytes = 0
        self.one_file = one_file
        self._store: TensorStore | None = None
        self._queue: queue.SimpleQueue[tuple[torch.Tensor, Path, TensorStore | None] | None]
        self._queue = queue.SimpleQueue()
        self._room = threading.Condition()
        self._waiting_bytes = 0
        self._waiting_files = 0
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None  # of the thread; it writes nothing after it

    def save(self, tensor: torch.Tensor, path: str) -> str:
        """Keep ``tensor`` as it is now; returns the name under which it is found.

        OSError when the disk takes no more, which shows some tensors later.
        """
        self._raise_failure()
        assert self.directory is not None, "open a step before saving tensors"
        name = _name_of(path)
        size = tensor.numel() * tensor.element_size()
        self.saved_bytes += size
        store = None
        if self.one_file:
            with self._room:
                if self._store is None:
                    self._store = TensorStore(self.directory)
                store = self._store
            if tensor.is_cpu:
                _store(store, name, tensor)
                return name
        copy = tensor.detach().clone(memory_format=torch.contiguous_format)
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
        self._queue.put((copy, self.directory / name, store))
        return name

    def save_again(self, path: str, name: str) -> str:
        """Another name for what was saved as ``name``: the same numbers, bit by bit."""
        assert self._store is not None, "save a tensor before naming it again"
        self._store.add_name(_name_of(path), name)
        return _name_of(path)

    def flush(self) -> None:
        """Let readers find what has been written."""
        if self._store is not None:
            self._store.flush()

    def drain(self) -> None:
        """Wait until every tensor is on disk; OSError when one is not."""
        with self._room:
            self._room.wait_for(lambda: not self._waiting_files)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def end_step(self) -> None:
        """Finish the store of the step."""
        if self._store is not None:
            try:
                self.drain()
                self._store.flush()
            finally:
                store, self._store = self._store, None
                store.close()

    def close(self) -> None:
        try:
            self.end_step()
            self.drain()
        finally:
            if self._thread is not None:
                self._queue.put(None)
                self._thread.join()
                self._thread = None

    def _write_all(self) -> None:
        while (job := self._queue.get()) is not None:
            copy, path, store = job
            size = copy.numel() * copy.element_size()
            try:
                if self._failure is None:
                    _write(copy.cpu(), path, store)
            except Exception as error:  # torch has its own for a full disk
                self._failure = OSError(0, str(error).partition("\n")[0], str(path))
            del copy, job
            with self._room:
                self._waiting_bytes -= size
                self._waiting_files -= 1
                self._room.notify_all()


def _write(tensor: torch.Tensor, path: Path, store: TensorStore | None) -> None:
    if store is not None:
        _store(store, path.name, tensor)
        return
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    with replaced(path) as stream:  # half of a file is worse than none
        torch.save(tensor, stream)
    path.chmod(0o640)


def _store(store: TensorStore, name: str, tensor: torch.Tensor) -> None:
    with unseen():
        plain, content = host_bytes(tensor)
    store.add(name, str(plain.dtype), plain.shape, content)


def _name_of(path: str) -> str:
    return f"{path}.pt".replace("/", "_").replace("\\", "_")
