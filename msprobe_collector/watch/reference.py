"""The recorded run that a training is compared with, by keys that do not depend on numbering."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.dump.names import without_wrappers
from msprobe_builder.files.regular import read_bytes, read_start
from msprobe_builder.files.text_files import parse_appended
from msprobe_builder.sketch.file import read_sketches
from msprobe_builder.sketch.layout import NAME as SKETCHES
from msprobe_builder.sketch.layout import NO_ROW
from msprobe_collector.config.settings import MD5, XOR
from msprobe_collector.errors import CollectorError
from msprobe_collector.write.records import Leaf
from msprobe_collector.write.sketch_file import SECTIONS

_HEAD = 4096  # bytes, which hold what stands before the records
_GRADIENTS = ".parameters_grad"
_NUMBERS = ("Max", "Min", "Mean", "Norm")


class Shown(NamedTuple):
    """A tensor in a record."""

    where: str  # input 0, output 0, weight
    is_made: bool  # by the call, not given to it
    item: Mapping[str, Any]
    row: int  # of its sketch


def shown_in(name: str, record: Mapping[str, Any], rows: Mapping[Any, int] | None) -> list[Shown]:
    """The tensors of a record in order; ``rows`` by section and position, None if they know."""
    is_gradient = _GRADIENTS in name
    positions: dict[int, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    found = []
    for key, value in record.items():
        section = SECTIONS["parameters"] if is_gradient else SECTIONS.get(key)
        if section is None or not value:
            continue
        kind = key.partition("_")[0]
        is_made = is_gradient or key in ("output", "input_gradients")
        for named, item in _tensors_in(value, key if is_gradient else ""):
            place = positions[section]
            positions[section] += 1
            row = getattr(item, "row", NO_ROW) if rows is None else rows.get((section, place))
            where = named if kind == "parameters" or is_gradient else f"{kind} {counts[kind]}"
            counts[kind] += 1
            found.append(Shown(where, is_made, item, NO_ROW if row is None else row))
    return found


def _tensors_in(value: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    kind = type(value)
    if kind is list or kind is tuple:
        for part in value:
            yield from _tensors_in(part, name)
    elif kind is dict or kind is Leaf:
        if "dtype" in value and "shape" in value:
            yield name, value
        elif kind is dict:
            for key, part in value.items():
                yield from _tensors_in(part, key)


def numbers_of(item: Mapping[str, Any]) -> tuple[Any, ...]:
    """Max, min, mean and norm of a tensor; None where it has none."""
    return tuple(item.get(name) for name in _NUMBERS)


class Keys:
    """Calls by the module around them, their name and how often it called that before.

    So one more call elsewhere turns no other into a stranger, and wrappers do not matter.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._counts: dict[tuple[str, str], count[int]] = defaultdict(count)

    def place(self, name: str, parent: str | None) -> None:
        """A call is made below another; in the order in which they are made."""
        if name in self._known or ".forward" not in name:
            return
        if name.startswith("Module."):
            self._known[name] = without_wrappers(name)
            return
        around = self.of(parent) if parent is not None else ""
        label = name.split(".forward")[0].rpartition(".")[0]
        self._known[name] = f"{around}|{label}|{next(self._counts[around, label])}"

    def of(self, name: str) -> str:
        """The key of a record; of a backward call that of its forward call, and so said."""
        if ".backward" in name and not name.startswith("Module."):
            forward = name.replace(".backward", ".forward")
            return f"{self._known.get(forward, forward)}|backward"
        return self._known.get(name) or without_wrappers(name)


class Reference:
    """One recorded step of one rank."""

    def __init__(self, folder: Path) -> None:
        """CollectorError if there is nothing that numbers compare with, BuildError for damage."""
        reader = DumpReader(folder / "dump.json")
        self._data = dict(reader)
        if reader.header.get("task") == "structure":
            raise CollectorError(f"{folder} holds no numbers, so nothing compares with it.")
        keys = Keys()
        places = folder / "construct.json"
        if places.is_file():
            for name, parent in parse_appended(read_bytes(places, LARGEST_JSON))[0].items():
                keys.place(name, parent)
        self._names = {keys.of(name): name for name in self._data}
        sketches = read_sketches(folder / SKETCHES, len(self._data))
        self._rows: dict[str, dict[tuple[int, int], int]] = defaultdict(dict)
        self._sketches = sketches
        if sketches is not None:
            names = list(self._data)
            for record, section, position, row in sketches.places.tolist():
                self._rows[names[record]][section, position] = row

    @property
    def has_sketches(self) -> bool:
        return self._sketches is not None

    def shown(self, key: str) -> list[Shown] | None:
        """The tensors of the call with this key, None if it was not recorded."""
        return self.shown_as(self._names.get(key))

    def shown_as(self, name: str | None) -> list[Shown] | None:
        """The same of a record of this name."""
        if name not in self._data:
            return None
        return shown_in(name, self._data[name], self._rows.get(name, {}))

    def rows(self, wanted: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Sketches by their numbers, of ROW."""
        assert self._sketches is not None
        return self._sketches.rows(wanted)


class Outline(NamedTuple):
    """What a dump holds."""

    steps: list[int]
    level: str
    has_sketches: bool
    checksum: str | None  # the summary mode that made its checksums


def outline_of(dump: Path) -> Outline:
    """Of the dump in a folder; CollectorError if it holds no step."""
    folders = [path.parent for path in dump.glob("step*/rank*/dump.json")]
    numbers = {folder.parent.name.removeprefix("step") for folder in folders}
    steps = sorted(int(one) for one in numbers if one.isdecimal())
    if not steps:
        raise CollectorError(f"{dump} holds no step*/rank*/dump.json to compare with.")
    folder = min(folders)
    head = read_start(folder / "dump.json", _HEAD)[0].decode(errors="replace")
    level = re.search(r'"level": "(\w+)"', head)
    checksum = re.search(r'"md5": "(0x)?[0-9a-f]', head)
    return Outline(
        steps,
        "mix" if level is None else level[1],
        (folder / SKETCHES).is_file(),
        None if checksum is None else XOR if checksum[1] else MD5,
    )


def folder_of(dump: Path, step: str, rank: str) -> Path:
    """Where ``dump`` holds this step and rank; one rank alone is compared with every rank.

    CollectorError where it holds none.
    """
    wanted = dump / step / rank
    if wanted.is_dir():
        return wanted
    ranks = sorted((dump / step).glob("rank*"))
    if len(ranks) == 1:
        return ranks[0]
    raise CollectorError(f"{dump} holds no {step}/{rank}; record it there, or choose with --steps.")
