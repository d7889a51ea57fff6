"""``dump_tensor_data``: tensors as NumPy files, or one behind the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.publish import replaced
from msprobe_collector.write.tensor_store import TensorStore


class ArrayFiles:
    """Writes arrays into ``directory``, which may change from step to step.

    With ``one_file`` they lie behind each other, otherwise each is an ``.npy`` file of its own.
    """

    def __init__(self, one_file: bool = False) -> None:
        self.directory: Path | None = None
        self.saved_bytes = 0
        self.one_file = one_file
        self._store: TensorStore | None = None

    def save(self, array: NDArray[Any], path: str, dtype: str) -> str:
        """Keep ``array``; returns the name under which it is found.

        ``dtype`` names its type in the store where NumPy has none and the array holds the bits.
        """
        assert self.directory is not None, "open a step before saving tensors"
        name = f"{path}.npy".replace("/", "_").replace("\\", "_")
        self.saved_bytes += array.nbytes
        if not self.one_file:
            self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            file = self.directory / name
            with replaced(file) as stream:
                np.save(stream, array, allow_pickle=False)
            file.chmod(0o640)
            return name
        if self._store is None:
            self._store = TensorStore(self.directory)
        self._store.add(name, dtype, array.shape, memoryview(array.tobytes()))
        return name

    def flush(self) -> None:
        """Let readers find what has been written."""
        if self._store is not None:
            self._store.flush()

    def drain(self) -> None:
        """Nothing waits: arrays are written at once."""

    def end_step(self) -> None:
        """Finish the store of the step."""
        if self._store is not None:
            store, self._store = self._store, None
            try:
                store.flush()
            finally:
                store.close()

    def close(self) -> None:
        self.end_step()
