"""A number for each of many names of calls, in a tenth of the memory of a dict of texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.name_columns import columns_of_names
from msprobe_builder.dump.names import Direction, Kind, Name, format_name, parse_name

Int = NDArray[np.integer[Any]]

_KINDS, _DIRECTIONS = tuple(Kind), tuple(Direction)
_CALL_BITS = 30  # calls have at most nine digits


class NumbersOfNames(Mapping[str, int]):
    """What a dict of names says, by the parts of the names."""

    def __init__(self, of_name: Mapping[str, int]) -> None:
        kind, direction, stem, call, stems = columns_of_names(of_name)
        self._stems = {one: number for number, one in enumerate(stems)}
        keys = np.asarray(_key(stem, kind, direction, call), dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._numbers = np.fromiter(of_name.values(), np.int32, len(keys))[order]

    def __getitem__(self, name: str) -> int:
        kind, stem, direction, call = parse_name(name)
        number = self._stems.get(stem, -1)
        key = _key(number, kind, direction, call)
        place = int(np.searchsorted(self._keys, key))
        if number < 0 or place == len(self._keys) or self._keys[place] != key:
            raise KeyError(name)
        return int(self._numbers[place])

    def __iter__(self) -> Iterator[str]:
        stems = list(self._stems)
        for key in self._keys.tolist():
            rest, call = divmod(key, 1 << _CALL_BITS)
            rest, direction = divmod(rest, len(_DIRECTIONS))
            stem, kind = divmod(rest, len(_KINDS))
            yield format_name(Name(_KINDS[kind], stems[stem], _DIRECTIONS[direction], call))

    def __len__(self) -> int:
        return len(self._keys)

    def of_calls(
        self, stems: Sequence[str], stem: Int, kind: Int, direction: Int, call: Int
    ) -> NDArray[np.int64]:
        """The number of each call, whose name is given in parts, -1 without."""
        own = np.array([self._stems.get(one, -1) for one in stems], dtype=np.int64)[stem]
        if not len(self._keys):
            return np.full(len(own), -1, dtype=np.int64)
        key = _key(own, kind, direction, call)
        place = np.searchsorted(self._keys, key)
        place[place == len(self._keys)] = 0
        is_known = (own >= 0) & (self._keys[place] == key)
        return np.where(is_known, self._numbers[place], -1).astype(np.int64)


def _key(stem: Any, kind: Any, direction: Any, call: Any) -> Any:
    """One number for the parts of a name, of one or of columns of them.

    What has no direction is told by its stem alone: the tree makes collections of some of these.
    """
    kind = kind * (direction != Direction.NONE)
    return (((stem * len(_KINDS) + kind) * len(_DIRECTIONS) + direction) << _CALL_BITS) + call
