"""Where a dump comes from: a rank directory, or the parsed content of its three files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Step and rank; 0 where the directory name has no number."""

    step: int
    rank: int


@dataclass(frozen=True)
class InMemoryDump:
    """One step and rank as ``json.load`` returns dump.json, construct.json and stack.json.

    ``name`` stands for the directory in messages and in the database; tensor files are looked
    for in ``name``/dump_tensor_data.
    """

    dump: Mapping[str, Any]
    construct: Mapping[str, Any]
    stack: Mapping[str, Any] = field(default_factory=dict)
    name: str = "in_memory"

    @property
    def directory(self) -> Path:
        """What messages call the place of the dump."""
        return Path(self.name)

    def __str__(self) -> str:
        return self.name


# One rank.
Source = Path | InMemoryDump
# One side of a build: a path to be searched, one dump, or dumps by step and rank.
Dumps = Path | InMemoryDump | Mapping[tuple[int, int], InMemoryDump]
