"""Keys of a comparison with a dump while the training runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msprobe_collector.errors import CollectorError

_log = logging.getLogger("msprobe_collector")
DIFF_CHECK = "diff_check"


def as_watch(content: dict[str, Any]) -> dict[str, Any]:
    """Task diff_check of other recorders: calls are compared with ``bench_path`` meanwhile."""
    section = dict(content.get(DIFF_CHECK) or {})
    dump, calls = section.pop("bench_path", None), section.pop("diff_nums", None)
    if dump is None:
        raise CollectorError("Task diff_check needs a dump to compare with: set bench_path.")
    _log.info("Task diff_check is task statistics with watch.")
    rest = {key: value for key, value in content.items() if key != DIFF_CHECK}
    more = {} if calls is None else {"watch_calls": calls}
    return {**rest, "task": "statistics", "statistics": section, "watch": dump, **more}


def count_of_calls(content: Mapping[str, Any]) -> int:
    value = content.get("watch_calls", 5)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CollectorError(f"watch_calls is {value!r}; write how many calls to save, from 1 on.")
    return value


def watched(content: Mapping[str, Any]) -> Path | None:
    value = content.get("watch")
    if value is None:
        return None
    if not isinstance(value, (str, Path)) or not value or "\0" in str(value):
        raise CollectorError(f"watch is {value!r}; name the directory of a dump.")
    return Path(value).absolute()
