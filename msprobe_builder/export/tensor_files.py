"""The tensors of a merged model as files, one at a time."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from msprobe_builder.graph.assembly import Assembly, TensorFile
from msprobe_builder.metrics.joined import in_each_order, open_assembly, whole
from msprobe_builder.metrics.tensor_file import (
    TensorFileError,
    is_stored,
    open_tensor,
    path_of,
    require_torch,
)

_SAFE = re.compile(r"[\w.\-\[\]=,+@]{1,200}", re.ASCII)


class TensorFiles:
    """Writes tensors of which every element is known into ``directory``.

    ``failed`` lists those whose parts cannot be read.
    """

    def __init__(self, assemblies: dict[int, Assembly], directory: Path, dump: Path) -> None:
        self._assemblies, self._directory, self._dump = assemblies, directory, dump
        self._names: set[str] = set()
        self.failed: list[str] = []
        directory.mkdir()

    def write(self, row: int, name: str) -> str | None:
        """Write the tensor of a row; the name of its file, None where there is none."""
        assembly = self._assemblies.get(row)
        if assembly is None:
            return None
        orders = in_each_order(assembly)
        if len(orders) > 1:
            return None  # in which order the elements are is not known
        first = _first_file(assembly)
        suffix = Path(first.name).suffix
        if suffix == ".pt":
            require_torch(self._dump)
        is_safe = _SAFE.fullmatch(name) and name.lower() not in self._names
        stem = name if is_safe else f"tensor.{row}"
        self._names.add(stem.lower())
        target = self._directory / f"{stem}{suffix}"
        try:
            self._write(orders[0], first, target)
        except TensorFileError:
            self.failed.append(name)
            return None
        return target.name

    def _write(self, assembly: Assembly, first: TensorFile, target: Path) -> None:
        leading = open_tensor(*first)
        if assembly.dimension is None and isinstance(assembly.parts[0], TensorFile):
            if is_stored(*first):
                _save(leading.content, leading.content, target)
            else:
                shutil.copyfile(path_of(*first), target)
            return
        _save(whole(open_assembly(assembly)), leading.content, target)


def _first_file(assembly: Assembly) -> TensorFile:
    part = assembly.parts[0]
    return part if isinstance(part, TensorFile) else _first_file(part)


def _save(content: Any, like: Any, target: Path) -> None:
    """Save what was joined with the type of elements that its parts have."""
    with target.open("wb") as file:
        if target.suffix == ".npy":
            np.save(file, np.ascontiguousarray(content, dtype=like.dtype))
            return
        import torch

        if isinstance(like, np.ndarray):
            like = torch.from_numpy(np.empty(0, like.dtype))
        if isinstance(content, np.ndarray):
            content = np.array(content)  # torch has no tensors that cannot be written to
        tensor = torch.as_tensor(content).to(like.dtype)
        try:
            torch.save(tensor.clone(memory_format=torch.contiguous_format), file)
        except RuntimeError as error:  # torch's word for a full disk
            raise OSError(errno.EIO, str(error).splitlines()[0], str(target)) from error
