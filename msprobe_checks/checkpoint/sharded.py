"""Directories of one model in several files: Hugging Face's and torch's distributed format."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from operator import index
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_METADATA, MOST_CHUNKS, MOST_REPEATED
from msprobe_builder.files.pickles import load_records
from msprobe_builder.files.regular import read_bytes, read_part, read_text
from msprobe_builder.files.saved import load_saved_bytes
from msprobe_builder.metrics.tensor_file import require_torch
from msprobe_checks.checkpoint.files import SAFETENSORS, read_safetensors, read_torch
from msprobe_checks.checkpoint.parameter import Parameter, has_numbers, stored_elements

if TYPE_CHECKING:
    import torch

INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
METADATA = ".metadata"


class _Chunk(NamedTuple):
    """Where a part of a tensor begins in it, how large it is, and where its bytes lie."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    begin: int  # of its bytes in the file
    length: int


def read_indexed(listing: Path) -> dict[str, Parameter]:
    """The parameters of all files that a Hugging Face index names, checked against it."""
    try:
        content = json.loads(read_text(listing))
        places = content["weight_map"]
        files = {_inside(listing.parent, str(name)) for name in places.values()}
    except OSError as error:
        raise BuildError(f"Cannot read {listing}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BuildError(f"{listing} is damaged: it has no weight_map of file names.") from error
    held = {
        path: read_safetensors(path) if path.suffix == SAFETENSORS else read_torch(path)
        for path in sorted(files)
    }
    found: dict[str, Parameter] = {}
    for name, file in places.items():
        own = held[_inside(listing.parent, str(file))]
        if name not in own:
            raise BuildError(f"{name} is not in {file}, where {listing} has it; copy all files.")
        found[name] = own[name]
    for own in held.values():  # what the index leaves out is loaded as well
        found |= {name: one for name, one in own.items() if name not in found}
    return found


def read_distributed(directory: Path) -> dict[str, Parameter]:
    """The parameters of a checkpoint by ``torch.distributed.checkpoint``."""
    require_torch(directory / METADATA)
    metadata = _metadata(directory / METADATA)
    try:
        places: dict[tuple[str, tuple[int, ...]], Any] = {}
        for key, place in metadata.storage_data.items():
            places[key.fqn, tuple(key.offset or ())] = place
        found: dict[str, Parameter] = {}
        for name, entry in metadata.state_dict_metadata.items():
            if not hasattr(entry, "chunks"):
                continue  # bytes: what is no tensor
            shape = tuple(map(index, entry.size))
            chunks = [_chunk(one, places[name, tuple(one.offsets)]) for one in entry.chunks]
            _require_tiled(directory / METADATA, str(name), shape, chunks)
            kind = entry.properties.dtype
            found[str(name)] = Parameter(
                shape,
                str(kind).removeprefix("torch."),
                partial(_load, directory, shape, kind, chunks),
                not has_numbers(kind),
            )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise BuildError(
            f"{directory / METADATA} is damaged: it misses where tensors lie."
        ) from error
    return found


def _chunk(described: Any, place: Any) -> _Chunk:
    if not isinstance(place.relative_path, str):
        raise TypeError("no name of a file")
    offsets, sizes = tuple(map(index, described.offsets)), tuple(map(index, described.sizes))
    return _Chunk(offsets, sizes, place.relative_path, index(place.offset), index(place.length))


def _require_tiled(metadata: Path, name: str, shape: tuple[int, ...], chunks: list[_Chunk]) -> None:
    """BuildError unless each element lies in exactly one chunk.

    Chunks that lie inside, do not overlap and are as large as the whole together cover it.
    """
    sizes = np.array([chunk.sizes for chunk in chunks], dtype=np.int64).reshape(
        len(chunks), len(shape)
    )
    begins = np.array([chunk.offsets for chunk in chunks], dtype=np.int64).reshape(sizes.shape)
    problem = "parts of it are missing"
    if len(chunks) > MOST_CHUNKS:
        problem = f"it has more than {MOST_CHUNKS:,} parts"
    elif (begins >= 0).all() and (sizes >= 0).all():
        ends = begins + sizes
        if (ends > np.array(shape, dtype=np.int64)).any():
            problem = "a part of it lies outside"
        elif any(
            (np.maximum(begins[at], begins[:at]) < np.minimum(ends[at], ends[:at])).all(1).any()
            for at in range(1, len(chunks))
        ):
            problem = "parts of it overlap"
        elif sum(math.prod(chunk.sizes) for chunk in chunks) == math.prod(shape):
            return
    raise BuildError(f"{metadata} does not describe {name} once and as a whole: {problem}.")


def _load(
    directory: Path, shape: tuple[int, ...], kind: torch.dtype, chunks: list[_Chunk]
) -> torch.Tensor:
    import torch

    whole: torch.Tensor | None = None
    for offsets, sizes, file, begin, length in chunks:
        path = _inside(directory, file)
        try:
            content = read_part(path, begin, length)
            part = load_saved_bytes(content)
            if tuple(part.shape) != sizes or part.dtype != kind:
                raise ValueError("it has another shape or type")
            if part.numel() > max(stored_elements(part), MOST_REPEATED):
                raise ValueError("it repeats what it holds")
            if not has_numbers(part.dtype):
                part = part.contiguous().view(torch.uint8)
            if whole is None:
                whole = torch.zeros(shape, dtype=part.dtype)
            whole[tuple(map(slice, offsets, map(sum, zip(offsets, sizes, strict=True))))] = part
        except Exception as error:  # a damaged or hostile file may raise anything
            raise BuildError(f"{path} is damaged: a part of a tensor cannot be read.") from error
    if whole is None:
        raise BuildError(f"Parts of a tensor are missing in {directory}; copy all files.")
    return whole


def _record(module: str, name: str) -> Any:
    """What a pickle may name: the records of torch's checkpoint format; None for all else."""
    import importlib

    import torch

    if module == "torch":
        value = getattr(torch, name, None)
        return value if isinstance(value, torch.dtype) or value is torch.Size else None
    if module.startswith("pathlib") and name in ("PosixPath", "WindowsPath"):
        return PurePosixPath  # where the checkpoint was written; never opened
    if (module, name) in _RECORDS:
        return getattr(importlib.import_module(module), name)
    return None


_RECORDS = {
    ("collections", "OrderedDict"),
    ("torch.serialization", "_get_layout"),
    *(
        ("torch.distributed.checkpoint.metadata", name)
        for name in (
            *("BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex"),
            *("StorageMeta", "TensorProperties", "TensorStorageMetadata", "_MEM_FORMAT_ENCODING"),
        )
    ),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.distributed.checkpoint.filesystem", "_StoragePrefix"),
}


def _metadata(path: Path) -> Any:
    try:
        metadata = load_records(read_bytes(path, LARGEST_METADATA), _record)
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}.") from error
    except Exception as error:  # a damaged or hostile file may raise anything
        raise BuildError(
            f"{path} cannot be read: it is damaged, or holds more than a checkpoint's index "
            f"({type(error).__name__} {error})."
        ) from error
    if not isinstance(getattr(metadata, "state_dict_metadata", None), Mapping):
        raise BuildError(f"{path} is damaged: it lists no tensors.")
    return metadata


def _inside(directory: Path, name: str) -> Path:
    """The regular file of that name; BuildError when it leads out of the directory."""
    path = directory / name
    if "\0" in name or not path.resolve().is_relative_to(directory.resolve()):
        raise BuildError(f"{directory} names the file {name!r}, which lies outside of it.")
    if not path.is_file():
        raise BuildError(f"{path} is missing; copy all files of the checkpoint.")
    return path
