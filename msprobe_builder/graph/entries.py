"""The calls of one dump as numbers, in the order of construct.json, and who stands in whom.

Calls that construct.json lacks get a place by rules on names; these are few, if any, so that they
are looked for by name. All that follows is asked of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.dump.name_columns import columns_of_names
from msprobe_builder.dump.names import (
    ROOT,
    Direction,
    Kind,
    Name,
    is_gradients,
    module_path,
    parse_name,
)
from msprobe_builder.dump.read import Dump
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.calls import Calls

Int = NDArray[np.int64]
# A parent of None is the root.
Parents = dict[str, str | None]


@dataclass
class Entries:
    """Calls in order of execution, then records of gradients of parameters, by their numbers.

    ``parent`` is -1 at the root, and of gradients, until a place is found for them; ``record`` is
    the number of the record, -1 without.
    """

    names: list[str]
    numbers: dict[str, int]  # of calls
    calls: Calls
    parent: Int
    record: Int
    recomputed: NDArray[np.bool_]
    micro_step: Int | None  # as recorded, -1 without; None where none is recorded
    gradients: int  # how many of the last are such records

    def __len__(self) -> int:
        return len(self.names)


def entries_of(dump: Dump) -> tuple[Entries, list[Diagnostic]]:
    """All calls of a dump as recorded, each once; parents as recorded where they are."""
    # An entry with the root's own name is the root.
    parents: Parents = dump.construct.parent
    if ROOT in parents:
        parents = {name: parent for name, parent in parents.items() if name != ROOT}
    numbers, parent, missing = _numbered(parents)
    diagnostics: list[Diagnostic] = []
    if missing:
        parents = _with_missing(parents, missing)
        numbers, parent, _ = _numbered(parents)
        diagnostics += about(
            "warning",
            "parent_not_recorded",
            missing,
            fact("note.not_in_construct_as_parents"),
        )
    rest = _not_in(dump.records, parents)
    gradients = [name for name in rest if is_gradients(name)]
    unplaced = [name for name in rest if not is_gradients(name)]
    if unplaced:
        parents = _with_unplaced(parents, unplaced)
        numbers, parent, _ = _numbered(parents)
        diagnostics += about(
            "warning",
            "call_not_in_construct",
            unplaced,
            fact("note.no_entry_in_construct"),
        )
    names = [*parents, *gradients]
    kind, direction, stem, call, stems = columns_of_names(names)
    record = np.fromiter(map(dump.records.get, names, repeat(-1)), np.int64, len(names))
    recomputed = record < -1
    if dump.recomputed:
        recomputed = np.isin(record, list(dump.recomputed))
    micro_step = dump.construct.micro_step
    steps = None
    if micro_step is not None:
        steps = np.fromiter(map(micro_step.get, names, repeat(-1)), np.int64, len(names))
    entries = Entries(
        names=names,
        numbers=numbers,
        calls=Calls(kind, direction, stem, call, stems),
        parent=np.concatenate([parent, np.full(len(gradients), -1, dtype=np.int64)]),
        record=record,
        recomputed=recomputed,
        micro_step=steps,
        gradients=len(gradients),
    )
    return entries, diagnostics


def _numbered(parents: Parents) -> tuple[dict[str, int], Int, list[str]]:
    """Numbers of all entries, that of each one's parent, and parents that are no entries."""
    numbers = dict(zip(parents, range(len(parents)), strict=True))
    above = parents.values()
    parent = np.fromiter(map(numbers.get, above, repeat(-1)), np.int64, len(parents))  # type: ignore[arg-type]
    missing: dict[str, None] = {}
    if (parent < 0).any():
        values = list(above)
        for entry in np.flatnonzero(parent < 0).tolist():
            name = values[entry]
            if name is not None and name != ROOT:
                missing[name] = None
    return numbers, parent, list(missing)


def _not_in(records: dict[str, int], parents: Parents) -> list[str]:
    """The records that are no entries, in their order."""
    rest = records.keys() - parents.keys() - {ROOT}
    return sorted(rest, key=records.__getitem__)


def _with_missing(parents: Parents, missing: Sequence[str]) -> Parents:
    """Give a place to parents that are no entries themselves, before their first child."""
    result: Parents = {}
    wanted = set(missing)
    for child, parent in parents.items():
        if parent in wanted and parent not in result:
            result[parent] = None
        result[child] = None if parent == ROOT else parent
    modules = _Modules(result)
    for name in missing:
        result[name] = modules.enclosing(parse_name(name))
    return result


def _with_unplaced(parents: Parents, unplaced: Sequence[str]) -> Parents:
    """Give a place to records that construct.json does not mention."""
    result = dict(parents)
    modules = _Modules(result)
    for name in unplaced:
        parsed = parse_name(name)
        result[name] = modules.enclosing(parsed)
        modules.add(name, parsed)
    return result


class _Modules:
    """Entries by path and direction, to find who encloses a call."""

    def __init__(self, parents: Parents) -> None:
        self._calls: dict[tuple[str, Direction], dict[int, str]] = {}
        for entry in parents:
            self.add(entry, parse_name(entry))

    def add(self, entry: str, name: Name) -> None:
        if name.kind is Kind.MODULE and name.direction is not Direction.NONE:
            key = module_path(name.stem), name.direction
            self._calls.setdefault(key, {}).setdefault(name.call, entry)

    def enclosing(self, name: Name) -> str | None:
        """The closest enclosing module with the same direction, same call number preferred."""
        if name.kind is not Kind.MODULE or name.direction is Direction.NONE:
            return None
        path = module_path(name.stem)
        while "." in path:
            path = path.rpartition(".")[0]
            calls = self._calls.get((path, name.direction))
            if calls:
                return calls.get(name.call, next(iter(calls.values())))
        return None
