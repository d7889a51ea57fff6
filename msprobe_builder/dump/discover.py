"""Finding the rank directories below a path.

======================  ==================================================
layout                  what is given
======================  ==================================================
one rank                the directory that holds dump.json
ranks of one step       ``rank0``, ``rank1``, … or a single ``rank`` or ``proc1234``
steps                   ``step0``, ``step1``, …, each one of the two above
======================  ==================================================

Numbers may have gaps. Dumps in memory stand in for the directories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.texts import storable
from msprobe_builder.dump.source import Dumps, InMemoryDump, Place, Source

# At most nine digits: what has more is no number that a program of many ranks would give.
_RANK = re.compile(r"rank(0|[1-9][0-9]{0,8})?\Z")
_STEP = re.compile(r"step(0|[1-9][0-9]{0,8})?\Z")
# As newer recorders call a process that has no rank, by its number in the system.
_PROCESS = re.compile(r"proc[0-9]+\Z")
_PACKED = (".gz", ".xz", ".bz2", ".zst", ".zip")
_DUMP_FILES = ("dump.json", "construct.json", "stack.json", "dump_tensor_data", "debug.json")


@dataclass(frozen=True)
class DumpTree:
    """Rank directories of one side, and the entries that are none.

    ``is_single`` says that one rank was given itself, so that its step and rank mean nothing.
    """

    root: str
    directories: dict[Place, Source]
    strays: list[str]
    is_single: bool


def discover(dumps: Dumps, key: str) -> DumpTree:
    """Rank directories of ``dumps``, which compare.json gives as ``key``.

    Raises BuildError when a path is no readable directory or has no dump in it.
    """
    if isinstance(dumps, InMemoryDump):
        return DumpTree(dumps.name, {Place(0, 0): dumps}, [], True)
    if isinstance(dumps, Mapping):
        return _in_memory(dumps, key)
    try:
        return _below(Path(dumps), key)
    except (OSError, UnicodeEncodeError) as error:
        if isinstance(error, UnicodeEncodeError):
            raise BuildError(f"{key} {storable(str(dumps))} is no path; correct it.") from error
        raise BuildError(f"Cannot read {key} {dumps}: {error.strerror}.") from error


def _in_memory(dumps: Mapping[tuple[int, int], InMemoryDump], key: str) -> DumpTree:
    if not dumps:
        raise BuildError(f"{key} holds no dump; give at least one step and rank.")
    directories: dict[Place, Source] = {Place(*place): dumps[place] for place in sorted(dumps)}
    return DumpTree("in_memory", directories, [], False)


def _below(root: Path, key: str) -> DumpTree:
    if not root.exists():
        raise BuildError(f"{key} {root} does not exist; correct its path.")
    if not root.is_dir():
        raise BuildError(f"{key} {root} is not a directory; give the directory of the dump.")
    if is_dump(root):
        return DumpTree(str(root), {Place(0, 0): root}, [], True)
    strays: list[Path] = []
    directories: dict[Place, Path] = {}
    steps = _numbered(root, _STEP)
    if steps:
        strays += _others(root, _STEP)
        for step, step_dir in steps:
            ranks = _ranks(step_dir, strays)
            if not ranks:  # of a run that still writes, or was stopped there
                strays.append(step_dir)
            for rank, rank_dir in ranks:
                _add(directories, Place(step, rank), rank_dir)
    else:
        for rank, rank_dir in _ranks(root, strays):
            _add(directories, Place(0, rank), rank_dir)
    if not directories:
        if packed := packed_dump(root):
            raise BuildError(f"{key} {packed} is packed; unpack it, and what lies beside it.")
        raise BuildError(
            f"{key} {root} holds no dump; give a directory with dump.json in it, "
            "or one with rank0, rank1, … or step0, step1, … directories."
        )
    found: dict[Place, Source] = {place: directories[place] for place in sorted(directories)}
    return DumpTree(str(root), found, [str(path.relative_to(root)) for path in strays], False)


def packed_dump(root: Path) -> Path | None:
    """A dump that somebody has packed, below ``root`` or its ranks and steps."""
    found = (one for below in ("", "*/", "*/*/") for one in root.glob(f"{below}dump.json.*"))
    return next((one for one in found if one.suffix in _PACKED), None)


def _ranks(directory: Path, strays: list[Path]) -> list[tuple[int, Path]]:
    if is_dump(directory):
        return [(0, directory)]
    ranks = _numbered(directory, _RANK)
    if not ranks:
        entries = _entries(directory)
        processes = [one for one in entries if _PROCESS.match(one.name) and one.is_dir()]
        if len(processes) > 1:
            raise BuildError(
                f"{directory} holds dumps of several processes without rank, {processes[0].name} "
                f"and {processes[1].name}; give the directory of one of them, or rename them to "
                "rank0, rank1, …"
            )
        if processes:
            strays += [one for one in entries if one not in processes]
            return [(0, processes[0])]
    strays += _others(directory, _RANK)
    return ranks


def _entries(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


def is_dump(directory: Path) -> bool:
    """Whether it is the directory of one rank."""
    return any((directory / name).exists() for name in _DUMP_FILES)


def parts_of_dump(directory: Path) -> Iterator[Path]:
    """The steps, ranks or processes in it, by their names."""
    for entry in _entries(directory) if directory.is_dir() else ():
        if any(kind.match(entry.name) for kind in (_STEP, _RANK, _PROCESS)) and entry.is_dir():
            yield entry


def _numbered(directory: Path, pattern: re.Pattern[str]) -> list[tuple[int, Path]]:
    found = ((pattern.match(entry.name), entry) for entry in _entries(directory))
    return sorted((int(match[1] or 0), entry) for match, entry in found if match and entry.is_dir())


def _others(directory: Path, pattern: re.Pattern[str]) -> list[Path]:
    return [
        entry for entry in _entries(directory) if not (pattern.match(entry.name) and entry.is_dir())
    ]


def _add(directories: dict[Place, Path], place: Place, directory: Path) -> None:
    if place in directories:
        raise BuildError(
            f"{directories[place]} and {directory} are both rank {place.rank} of step "
            f"{place.step}; rename or remove one of them."
        )
    directories[place] = directory
