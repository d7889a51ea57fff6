"""Changes to single ranks of a real dump."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def change_rank(dump: Path, copy: Path, rank: int, change: Callable[[Record], None]) -> Path:
    """A copy of a dump of many ranks, one of which was changed."""
    shutil.copytree(dump, copy)
    [path] = copy.glob(f"step0/rank{rank}/dump.json")
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content["data"])
    path.write_text(json.dumps(content), encoding="utf-8")
    return copy


def scale(tensor: Record, factor: float) -> None:
    """What the statistics of a tensor times a factor above 0 are."""
    for key in ("Max", "Min", "Mean", "Norm"):
        tensor[key] *= factor


def scale_weight(records: Record, module: str, factor: float) -> None:
    """A linear layer without bias whose weight is off: so are its product and its output."""
    for name, record in records.items():
        if name.startswith(f"{module}.forward."):
            weight, output = record["parameters"]["weight"], record["output"][0]
            for other in records.values():
                tensors = [*other.get("input_args", ()), *(other.get("output") or ())]
                for tensor in tensors:
                    if same(tensor, weight) or same(tensor, output):
                        scale(tensor, factor)
            scale(weight, factor)
            scale(output, factor)


def same(one: Any, other: Record) -> bool:
    """Whether two records look like the same tensor; the transpose of one looks alike."""
    keys = ("Max", "Min", "Mean", "Norm")
    return (
        one is not other
        and isinstance(one, dict)
        and all(one.get(key) == other[key] for key in keys)
    )
