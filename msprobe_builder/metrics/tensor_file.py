"""Opening the tensor files of a dump: ``.pt`` and ``.npy``, without trusting them.

File names come from dump.json and contents from anywhere: a name must lead to a regular file
inside the dump's own directory, and neither format may run code. Files are mapped into memory,
so a tensor larger than the memory is read piece by piece.
"""

from __future__ import annotations

import functools
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import EllipsisType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.files.arrays import mapped_array
from msprobe_builder.files.saved import check_saved, load_checked
from msprobe_builder.files.torch_archive import is_archive, is_compressed, is_whole, plain_tensor
from msprobe_builder.metrics.tensor_store import stored_tensor

if TYPE_CHECKING:
    import torch

# Elements: few enough for the cache, and so many that calling numpy costs little beside it.
PIECE = 1 << 16
_WITHOUT_THREADS = 1 << 15  # elements: more than these torch converts with threads of its own
Index = tuple[int | slice | EllipsisType, ...]

_OLDEST_TORCH = (2, 10)  # weights_only can be bypassed in older ones


class TensorFileError(Exception):
    """Why a tensor cannot be compared; ``code`` is one of missing, unsaved, denied,
    refused, unreadable, and for merged tensors of unmerged and shape."""

    def __init__(self, code: str, reason: Fact) -> None:
        super().__init__(tell(reason, ENGLISH))
        self.code = code
        self.reason = reason


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a mapped file."""

    shape: tuple[int, ...]
    content: torch.Tensor | NDArray[Any]

    def piece(self, index: Index, space: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """Elements in one dimension as int64, uint64, float64 or complex128, never the file's own.

        Those of floating-point numbers are put in ``space`` where it is given: new memory for each
        piece costs more than what is computed of it.
        """
        if space is None:
            return self.part(index).reshape(-1)
        part = self.content[index]
        if isinstance(part, np.ndarray | np.generic):
            if part.dtype.kind == "f":
                into = space[: part.size]
                with np.errstate(invalid="ignore"):  # signalling NaN
                    np.copyto(into.reshape(part.shape), part)
                return into
        elif part.is_floating_point():
            into = space[: part.numel()]
            copy, own = _torch().from_numpy(into), part.reshape(-1)
            for at in range(0, len(into), _WITHOUT_THREADS):
                end = at + _WITHOUT_THREADS
                copy[at:end].copy_(own[at:end])
            return into
        return self.part(index).reshape(-1)

    def part(self, index: Index) -> NDArray[Any]:
        """The same in the dimensions that the index leaves."""
        part = self.content[index]
        if isinstance(part, np.ndarray | np.generic):
            with np.errstate(invalid="ignore"):  # signalling NaN
                return np.asarray(part).astype(_wide(part.dtype))
        return _widened(part)


def pieces(shape: tuple[int, ...], size: int = PIECE) -> Iterator[Index]:
    """Indices that cut a tensor into parts of at most ``size`` elements, in order."""
    if prod(shape) <= size:
        yield (...,)
        return
    rows = size // prod(shape[1:])
    if rows:
        for start in range(0, shape[0], rows):
            yield (slice(start, start + rows),)
    else:
        for row in range(shape[0]):
            for rest in pieces(shape[1:], size):
                yield (row, *rest)


def open_tensor(directory: Path | None, name: str | None) -> StoredTensor:
    """The tensor in the file ``name`` of dump_tensor_data; TensorFileError says why not."""
    stored = _open_stored(directory, name)
    if stored is not None:
        return stored
    path = path_of(directory, name)
    if path.suffix not in (".pt", ".npy"):
        raise TensorFileError("refused", fact("file.other_suffix", name=repr(name)))
    try:
        return _open_pt(path) if path.suffix == ".pt" else _open_npy(path)
    except TensorFileError:
        raise
    except PermissionError as error:
        raise TensorFileError("denied", fact("file.denied", name=name)) from error
    except Exception as error:  # a damaged or hostile file may raise anything
        text = " ".join(str(error).split())[:200]
        if "weights_only" in text:  # torch's advice is to trust the file
            reason = fact("file.damaged", name=name)
            raise TensorFileError("unreadable", reason) from error
        raise TensorFileError(
            "unreadable", fact("file.error", name=name, error=f"{type(error).__name__} {text}")
        ) from error


def is_stored(directory: Path | None, name: str | None) -> bool:
    """Whether the tensor has no file of its own."""
    return directory is not None and name is not None and stored_tensor(directory, name) is not None


def _open_stored(directory: Path | None, name: str | None) -> StoredTensor | None:
    """The tensor if it lies with all others of its step in one file."""
    if directory is None or name is None:
        return None
    try:
        found = stored_tensor(directory, name)
        if found is None:
            return None
        numbers, kind = found
        if kind is None:
            return StoredTensor(numbers.shape, numbers)
        torch = _torch()  # a copy, because torch has no tensors that cannot be written to
        content = torch.from_numpy(np.array(numbers)).view(getattr(torch, kind))
        return StoredTensor(numbers.shape, content)
    except PermissionError as error:
        raise TensorFileError("denied", fact("file.denied", name=name)) from error
    except Exception as error:  # a damaged or hostile file may raise anything
        text = " ".join(str(error).split())[:200]
        raise TensorFileError(
            "unreadable", fact("file.error", name=name, error=f"{type(error).__name__} {text}")
        ) from error


def path_of(directory: Path | None, name: str | None) -> Path:
    """The regular file ``name`` inside dump_tensor_data; TensorFileError when it is none."""
    if directory is None:
        raise TensorFileError("missing", fact("file.no_folder"))
    if name is None:
        raise TensorFileError("unsaved", fact("file.not_named"))
    if name in ("", ".", "..") or re.search(r"[/\\\0]", name):
        raise TensorFileError("refused", fact("file.no_plain_name", name=repr(name)))
    try:
        path = (directory / name).resolve(strict=True)
        mode = path.stat().st_mode
    except PermissionError as error:
        raise TensorFileError("denied", fact("file.denied", name=name)) from error
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links is a RuntimeError
        raise TensorFileError("missing", fact("file.cannot_be_opened", name=name)) from error
    if not path.is_relative_to(directory.resolve()):
        raise TensorFileError("refused", fact("file.link", name=name))
    if not stat.S_ISREG(mode):
        raise TensorFileError("refused", fact("file.not_regular", name=name))
    return path


def _open_npy(path: Path) -> StoredTensor:
    content = mapped_array(path)
    _wide(content.dtype)
    return StoredTensor(content.shape, content)


def _wide(dtype: np.dtype[Any]) -> type[np.generic]:
    wide = {"b": np.int64, "i": np.int64, "u": np.uint64, "f": np.float64, "c": np.complex128}
    if dtype.kind not in wide:
        raise TensorFileError("unreadable", fact("file.no_numbers", dtype=str(dtype)))
    return wide[dtype.kind]


def _open_pt(path: Path) -> StoredTensor:
    if is_archive(path):  # an old form is none, and has no checksums
        _require_checksums(path)  # remembered, where torch would not look at them
        plain = plain_tensor(path)
        if plain is not None:
            return StoredTensor(plain.shape, plain)
        if is_compressed(path):
            reason = fact("file.compressed", name=path.name)
            raise TensorFileError("unreadable", reason)
    check_saved(path)
    content = load_checked(path)
    torch = _torch()
    if not isinstance(content, torch.Tensor):
        raise TensorFileError("unreadable", fact("file.no_tensor", name=path.name))
    content = content.detach()
    if content.layout is not torch.strided or content.is_quantized or content.is_meta:
        raise TensorFileError("unreadable", fact("file.not_dense", name=path.name))
    if content.numel() * content.element_size() > content.untyped_storage().nbytes():
        raise TensorFileError("unreadable", fact("file.too_few", name=path.name))
    _widened(content.new_empty(0))  # fails when the dtype holds no numbers
    shape = tuple(content.shape)
    if content.dtype in (torch.float32, torch.float64) and not content.is_neg():
        return StoredTensor(shape, content.numpy())  # whose pieces are made faster
    return StoredTensor(shape, content)


def _require_checksums(path: Path) -> None:
    """Compare the checksums that torch wrote and does not check itself."""
    status = path.stat()
    if not _is_whole(path, status.st_size, status.st_mtime_ns):
        raise TensorFileError("unreadable", fact("file.checksum", name=path.name))


@functools.lru_cache(maxsize=4096)
def _is_whole(path: Path, _size: int, _modified: int) -> bool:
    return is_whole(path)


def _widened(x: torch.Tensor) -> NDArray[Any]:
    torch = _torch()
    if x.is_complex():
        x = x.to(torch.complex128).resolve_conj()
    elif x.is_floating_point():
        x = x.to(torch.float64, copy=True)
    elif x.dtype is not torch.uint64:
        x = x.to(torch.int64)
    array: NDArray[Any] = x.resolve_neg().numpy()
    return array


def require_torch(dump: Path) -> None:
    """BuildError when torch is missing, or so old that ``weights_only`` can be bypassed.

    It is not imported for that: that takes seconds, and many files can be read without.
    """
    found = _torch_version()
    if found is None:
        raise BuildError(f"{dump} holds .pt files, which torch reads; install torch 2.10 or newer.")
    if tuple(int(part) for part in re.findall(r"\d+", found)[:2]) < _OLDEST_TORCH:
        raise BuildError(
            f"torch {found} cannot read the .pt files of {dump} safely; "
            f"install torch 2.10 or newer."
        )


def _torch_version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    if "torch" not in sys.modules and find_spec("torch"):
        try:
            return version("torch")
        except PackageNotFoundError:  # nothing but the package itself tells
            pass
    try:
        return str(_torch().__version__)
    except ImportError:
        return None


def _torch() -> ModuleType:
    import torch

    return torch
