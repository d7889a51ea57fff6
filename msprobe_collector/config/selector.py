"""The selector grammar of ``rank`` and ``step``: ``[0, "4-6"]``."""

from __future__ import annotations

import re
from typing import Any

from msprobe_collector.errors import CollectorError

_HIGHEST = 1_000_000
_RANGE = re.compile(r"\s*(\d{1,7})\s*-\s*(\d{1,7})\s*\Z")


def expand_selector(value: Any, key: str) -> tuple[int, ...]:
    """Every number that ``value`` selects, sorted and unique; empty means all."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise _bad(key, value)
    numbers: set[int] = set()
    for item in value:
        numbers.update(_expand_item(item, key))
    return tuple(sorted(numbers))


def _expand_item(item: Any, key: str) -> range:
    if isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _HIGHEST:
        return range(item, item + 1)
    if isinstance(item, str) and re.fullmatch(r"\s*\d{1,7}\s*", item):
        return _expand_item(int(item), key)
    found = _RANGE.match(item) if isinstance(item, str) else None
    if found is not None:
        low, high = int(found[1]), int(found[2])
        if low <= high <= _HIGHEST:
            return range(low, high + 1)
    raise _bad(key, item)


def _bad(key: str, value: Any) -> CollectorError:
    return CollectorError(
        f"{key} holds {value!r}; write a list of numbers from 0 to {_HIGHEST} "
        'and ranges such as "4-6", for example [0, "4-6"].'
    )
