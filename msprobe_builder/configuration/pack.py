"""Reading the zip file of a configuration, ours or the reference tool's; it is not trusted.

``ConfigChecker`` writes one of every rank: those beside the file that is named are read with it.
Values whose name speaks of a secret are hidden here once more, and variables that change no numbers
are left out: other tools write all of them.
"""

from __future__ import annotations

import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import LARGEST_SETTINGS, LARGEST_TEXT_FILE
from msprobe_builder.configuration.secrets import allowed_variables, without_secrets
from msprobe_builder.files.archive import opened_zip
from msprobe_builder.files.regular import read_part

_WRONG = (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError)
_PLACE = re.compile(r"(dataset|weights)/step(\d{1,9})/rank(\d{1,9})/\w+\.json\Z")
_RANDOM = re.compile(r"random/rank(\d{1,9})\.json\Z")
_OF_A_RANK = re.compile(r"\.rank(\d{1,9})\Z")  # at the end of a file's stem
Values = dict[str, Any]


@dataclass(frozen=True)
class Pack:
    """One side: every part is empty where the file does not have it."""

    path: Path
    variables: dict[str, str] | None = None
    packages: dict[str, str] | None = None
    options: dict[str, Values] = field(default_factory=dict)  # by file, then by name
    data: dict[tuple[int, int], Values] = field(default_factory=dict)  # by micro-step and rank
    weights: dict[tuple[int, int], Values] = field(default_factory=dict)
    random: dict[int, Values] = field(default_factory=dict)  # by rank


def read_pack(path: Path) -> Pack:
    """The content of a zip file, and of ``….rank1.zip`` and so on beside it.

    A variable that another rank has otherwise than the file named is called ``NAME of rank 1``.
    Nothing is unpacked. BuildError when a file is damaged.
    """
    pack = _read_file(path)
    for rank, other in _other_ranks(path):
        found = _read_file(other)
        pack.data.update(found.data)
        pack.weights.update(found.weights)
        pack.random.update(found.random)
        pack = replace(pack, variables=_with_others(pack.variables, found.variables, rank))
    return pack


def _other_ranks(path: Path) -> Iterator[tuple[int, Path]]:
    if _OF_A_RANK.search(path.stem):
        return  # one rank was asked for
    beside = ((_OF_A_RANK.search(other.stem), other) for other in path.parent.glob("*.zip"))
    numbered = [(int(found[1]), other) for found, other in beside if found]
    yield from sorted(
        (rank, other)
        for rank, other in numbered
        if other.stem == f"{path.stem}.rank{rank}" and other.suffix == path.suffix
    )


def _with_others(
    variables: dict[str, str] | None, others: dict[str, str] | None, rank: int
) -> dict[str, str] | None:
    known = variables or {}
    added = {
        f"{name} of rank {rank}": value
        for name, value in (others or {}).items()
        if known.get(name) != value
    }
    return variables if not added else {**known, **added}


def _read_file(path: Path) -> Pack:
    remedy = "give a zip file of 'config collect'."
    try:
        with opened_zip(path, LARGEST_SETTINGS) as archive:
            return _read(path, archive)
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist; {remedy}") from error
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}; {remedy}") from error
    except _WRONG as error:
        raise BuildError(
            f"{path} is damaged: a file in it does not hold what it should."
        ) from error
    # RuntimeError: it is encrypted, or compressed in a way that Python does not know.
    except (zipfile.BadZipFile, EOFError, RuntimeError, zlib.error, lzma.LZMAError) as error:
        if read_part(path, 0, 2) != b"PK":
            raise BuildError(f"{path} is no zip file; give one of 'config collect'.") from error
        raise BuildError(f"{path} is damaged: its files cannot be unpacked.") from error


def _read(path: Path, archive: zipfile.ZipFile) -> Pack:
    pack = Pack(path)
    variables = packages = None
    for entry in archive.infolist():
        name = entry.filename
        if entry.is_dir() or not (name in ("env", "pip") or name.endswith(".json")):
            continue
        if entry.file_size > LARGEST_TEXT_FILE:
            raise BuildError(f"{name} in {path} is larger than any configuration.")
        text = archive.read(entry).decode("utf-8")
        if name == "pip":
            lines = (line.partition("=") for line in text.splitlines() if "=" in line)
            packages = {key.strip().lower(): value.strip("= ") for key, _, value in lines}
            continue
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError(name)
        if name == "env":
            named = {str(key): str(value) for key, value in content.items()}
            variables = allowed_variables({key: str(value) for key, value in named.items()})
        elif name.startswith("hyperparameters/"):
            for file, options in content.items():
                known = options if isinstance(options, dict) else {file: options}
                pack.options.setdefault(str(file), {}).update(without_secrets(known))
        elif found := _PLACE.match(name):
            side = pack.data if found[1] == "dataset" else pack.weights
            side[int(found[2]), int(found[3])] = content
        elif found := _RANDOM.match(name):
            _check_counts(content)
            pack.random[int(found[1])] = content
    if variables is None and packages is None and not pack.options and not pack.weights:
        raise BuildError(f"{path} holds no configuration; make it with 'config collect'.")
    return Pack(path, variables, packages, pack.options, pack.data, pack.weights, pack.random)


def _check_counts(content: Values) -> None:
    """ValueError where a place does not say in numbers how often it draws."""
    for calls in content.values():
        for one in calls if isinstance(calls, list) else ():
            if isinstance(one, dict):
                int(one.get("count", 0))
