"""What ``torch.save`` wrote, read by torch: no code, checksums, and bounds before it is loaded."""

from __future__ import annotations

import io
import os
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import IO, Any

from msprobe_builder.base.limits import LARGEST_UNPACKED
from msprobe_builder.files.archive import require_size
from msprobe_builder.files.pickles import check_pickle
from msprobe_builder.files.problems import FileError
from msprobe_builder.files.regular import open_regular
from msprobe_builder.files.torch_archive import is_archive, is_compressed, is_whole

_REMEDY = "Copy it again, or save it again with torch.save or as safetensors."
_OLD_PICKLES = 5  # of the form before archives: magic, version, system, content, storages


def load_saved(path: Path, stand_in: type | None = None) -> Any:
    """What torch saved in a file; archives are mapped.

    ``stand_in`` takes the place of every class that torch does not load by itself; without it
    a file that names one is refused. Raises FileError with the code ``missing``, ``unreadable``,
    ``damaged`` or ``refused``.
    """
    try:
        check_saved(path)
        return load_checked(path, stand_in)
    except FileError:
        raise
    except FileNotFoundError as error:
        raise FileError("missing", f"{path} does not exist.", "Check the path.") from error
    except pickle.UnpicklingError as error:
        raise FileError(
            "refused",
            f"{path} is damaged, or holds objects that cannot be read without running code.",
            "Save the model's state_dict() alone, or as safetensors.",
        ) from error
    except Exception as error:  # a damaged or hostile file may raise anything
        if isinstance(error, OSError) and error.strerror:
            message = f"Cannot read {path}: {error.strerror}."
            raise FileError("unreadable", message, _REMEDY) from error
        raise FileError(
            "damaged",
            f"{path} is damaged, or no file that torch.save writes today.",
            _REMEDY,
        ) from error


def load_saved_bytes(content: bytes) -> Any:
    """The same of a file inside another one; raises whatever torch does, ValueError for checksums.

    What it makes is no larger than what it is.
    """
    import torch

    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > len(content) or archive.testzip():
                raise ValueError("its checksums are not those of what it holds")
            _check_entries(archive)
    else:
        _check_pickles(io.BytesIO(content))
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def check_saved(path: Path) -> None:
    """Look at a file before torch does: FileError for wrong checksums, anything for the rest."""
    with os.fdopen(open_regular(path), "rb") as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            _check_pickles(file)
            return
        with zipfile.ZipFile(file) as archive:
            require_size(path, file, archive, LARGEST_UNPACKED)
            _check_entries(archive)
    if not is_whole(path):
        message = f"{path} is damaged: its checksums are not those of what it holds."
        raise FileError("damaged", message, _REMEDY)


def _check_entries(archive: zipfile.ZipFile) -> None:
    for entry in archive.infolist():
        if entry.filename.lower().endswith(".pkl"):  # torch finds a name in any case
            check_pickle(archive.read(entry))


def _check_pickles(file: IO[bytes]) -> None:
    for _ in range(_OLD_PICKLES):
        check_pickle(file)


def load_checked(path: Path, stand_in: type | None = None) -> Any:
    """The same of a file that was looked at; raises whatever torch does."""
    import torch
    from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

    strange: list[Any] = []
    if stand_in is not None:
        strange = [(stand_in, name) for name in get_unsafe_globals_in_checkpoint(path)]
    # An archive that somebody packed again would be mapped as if it were not compressed.
    is_mapped = is_archive(path) and not is_compressed(path)
    with safe_globals(strange), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what torch itself does with old kinds of tensors
        return torch.load(path, map_location="cpu", weights_only=True, mmap=is_mapped)
