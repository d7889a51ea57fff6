"""Many names taken apart at once, as columns: no object is made of each."""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import API_PREFIXES, CALL, MODULES, Direction, Kind, parse_name

_DIRECTIONS = {"forward": int(Direction.FORWARD), "backward": int(Direction.BACKWARD)}
_API, _MODULE = int(Kind.API), int(Kind.MODULE)
_WAYS = len(Direction)
_NONE = -1  # what follows such a stem is no call


class NameColumns(NamedTuple):
    """One element per name, as the fields of a Name; ``stem`` is a place in ``stems``."""

    kind: NDArray[np.int8]
    direction: NDArray[np.int8]
    stem: NDArray[np.int64]
    call: NDArray[np.int64]
    stems: list[str]  # in the order in which they come first


def columns_of_names(names: Iterable[str]) -> NameColumns:
    """What :func:`parse_name` says of each; stems and numbers are looked at once."""
    stems: dict[str, int] = {}
    of_api: dict[str, int] = {}  # by stem; of calls, and below of modules
    of_module: dict[str, int] = {}
    number_of: dict[str, int] = {}
    heads: list[int] = []
    calls: list[int] = []
    direction_of = _DIRECTIONS.get

    def head(stem: str, kind: int) -> int:
        return (stems.setdefault(stem, len(stems)) * len(Kind) + kind) * _WAYS

    for name in names:
        parts = name.rsplit(".", 2)
        if len(parts) == 3:
            stem, call, word = parts
            direction = direction_of(word)
            known = of_api
            if direction is None:
                direction, call, known = direction_of(call), word, of_module
            if direction is not None:
                number = number_of.get(call)
                if number is None and CALL.match(call):
                    number = number_of[call] = int(call)
                if number is not None:
                    form = known.get(stem)
                    if form is None:
                        prefix, is_api = stem.partition(".")[0], known is of_api
                        if prefix in (MODULES if is_api else API_PREFIXES):
                            form = _NONE
                        else:
                            form = head(intern(stem), _API if is_api else _MODULE)
                        known[stem] = form
                    if form != _NONE:
                        heads.append(form + direction)
                        calls.append(number)
                        continue
        kind, stem, direction, number = parse_name.__wrapped__(name)
        heads.append(head(stem, int(kind)) + int(direction))
        calls.append(number)
    column = np.array(heads, dtype=np.int64)
    column, direction_column = np.divmod(column, _WAYS)
    stem_column, kind_column = np.divmod(column, len(Kind))
    return NameColumns(
        kind_column.astype(np.int8),
        direction_column.astype(np.int8),
        stem_column,
        np.array(calls, dtype=np.int64),
        list(stems),
    )
