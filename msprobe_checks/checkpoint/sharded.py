"""Directories of one model in several files: Hugging Face's and torch's distributed format."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_TEXT_FILE
from msprobe_builder.metrics.tensor_file import require_torch
from msprobe_checks.checkpoint.files import SAFETENSORS, read_safetensors, read_torch
from msprobe_checks.checkpoint.parameter import Parameter

if TYPE_CHECKING:
    import torch

INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
METADATA = ".metadata"


def read_indexed(index: Path) -> dict[str, Parameter]:
    """The parameters of all files that a Hugging Face index names, checked against it."""
    try:
        if index.stat().st_size > LARGEST_TEXT_FILE:
            raise BuildError(f"{index} is larger than any index of a checkpoint.")
        content = json.loads(index.read_text(encoding="utf-8"))
        places = content["weight_map"]
        files = {_inside(index.parent, str(name)) for name in places.values()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BuildError(f"{index} is damaged: it has no weight_map of file names.") from error
    found: dict[str, Parameter] = {}
    for path in sorted(files):
        found |= read_safetensors(path) if path.suffix == SAFETENSORS else read_torch(path)
    missing = sorted(set(places) - set(found))
    if missing:
        raise BuildError(
            f"{missing[0]} is in none of the files that {index} names; copy all files."
        )
    return {name: found[name] for name in places}


def read_distributed(directory: Path) -> dict[str, Parameter]:
    """The parameters of a checkpoint by ``torch.distributed.checkpoint``."""
    require_torch(directory / METADATA)
    metadata = _metadata(directory / METADATA)
    try:
        places: dict[tuple[str, tuple[int, ...]], Any] = {}
        for index, place in metadata.storage_data.items():
            places[index.fqn, tuple(index.offset or ())] = place
        found: dict[str, Parameter] = {}
        for name, entry in metadata.state_dict_metadata.items():
            if not hasattr(entry, "chunks"):
                continue  # bytes: what is no tensor
            shape = tuple(int(size) for size in entry.size)
            chunks = [
                (tuple(map(int, one.offsets)), places[name, tuple(one.offsets)])
                for one in entry.chunks
            ]
            dtype = str(entry.properties.dtype).removeprefix("torch.")
            found[str(name)] = Parameter(shape, dtype, partial(_load, directory, shape, chunks))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BuildError(
            f"{directory / METADATA} is damaged: it misses where tensors lie."
        ) from error
    return found


def _load(
    directory: Path, shape: tuple[int, ...], chunks: list[tuple[tuple[int, ...], Any]]
) -> torch.Tensor:
    import torch

    whole: torch.Tensor | None = None
    filled = 0
    for offsets, place in chunks:
        path = _inside(directory, str(place.relative_path))
        try:
            with path.open("rb") as file:
                file.seek(int(place.offset))
                content = file.read(int(place.length))
            part = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            if whole is None:
                whole = torch.zeros(shape, dtype=part.dtype)
            where = tuple(
                slice(start, start + size) for start, size in zip(offsets, part.shape, strict=True)
            )
            whole[where] = part
            filled += part.numel()
        except Exception as error:  # a damaged or hostile file may raise anything
            raise BuildError(f"{path} is damaged: a part of a tensor cannot be read.") from error
    if whole is None or filled < whole.numel():
        raise BuildError(f"Parts of a tensor are missing in {directory}; copy all files.")
    return whole


class _MetadataUnpickler(pickle.Unpickler):
    """Makes the records of torch's checkpoint format and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        import importlib

        import torch

        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype | type):
            value = getattr(torch, name)
            if isinstance(value, torch.dtype) or value is torch.Size:
                return value
        if module.startswith("pathlib") and name in ("PosixPath", "WindowsPath"):
            return PurePosixPath  # where the checkpoint was written; never opened
        if (module, name) in _RECORDS:
            return getattr(importlib.import_module(module), name)
        raise pickle.UnpicklingError(f"{module}.{name}")


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
        with path.open("rb") as file:
            metadata = _MetadataUnpickler(file).load()
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
