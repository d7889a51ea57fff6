"""Task overflow_check: find where finite numbers first become infinite or NaN."""

from __future__ import annotations

import math
from typing import Any

from msprobe_collector.record.calls import Held
from msprobe_collector.record.framework import Describer


class Overflow:
    """Counts origins: calls with finite inputs and an output that is not."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0

    def count(self) -> bool:
        """One more origin; True when the limit is reached."""
        self._count += 1
        return self._count == self._limit


def attach_inputs(items: Describer, record: dict[str, Any], held: Held, name: str) -> None:
    """Save the arguments and name their files in the record."""
    record["input_args"] = items.attach(record.get("input_args"), held.args, f"{name}.input")
    record["input_kwargs"] = items.attach(record.get("input_kwargs"), held.kwargs, f"{name}.kwargs")


def is_origin(record: dict[str, Any]) -> bool:
    inputs = [record.get(key) for key in ("input_args", "input_kwargs", "parameters")]
    return is_finite(inputs) and not is_finite(record.get("output"))


def is_origin_backward(record: dict[str, Any]) -> bool:
    given = [record.get(key) for key in ("input", "output_gradients")]
    found = [record.get(key) for key in ("output", "input_gradients")]
    return is_finite(given) and not is_finite(found)


def is_finite(record: Any) -> bool:
    """Whether no statistic in a record is infinite or NaN."""
    if isinstance(record, dict):
        if "dtype" in record and "Max" in record:
            return all(
                not isinstance(record[key], float) or math.isfinite(record[key])
                for key in ("Max", "Min", "Mean")
            )
        return all(is_finite(part) for part in record.values())
    if isinstance(record, list):
        return all(is_finite(part) for part in record)
    return True
