"""Dumps of a few calls, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]


def statistics(array: Any) -> Record:
    """Max, Min, Mean and Norm as the collector takes them; null when there are no elements."""
    values = np.asarray(array, dtype=np.float64)
    if not values.size:
        return dict.fromkeys(("Max", "Min", "Mean", "Norm"))
    return {
        "Max": float(values.max()),
        "Min": float(values.min()),
        "Mean": float(values.mean()),
        "Norm": float(np.linalg.norm(values)),
    }


def tensor(
    array: Any, *, dtype: str = "torch.float32", kind: str = "torch.Tensor", **more: Any
) -> Record:
    """The record of one tensor; ``more`` adds or replaces keys."""
    array = np.asarray(array)
    record = {"type": kind, "dtype": dtype, "shape": list(array.shape)}
    return {**record, **statistics(array), "requires_grad": False, **more}


def number(value: float | str) -> Record:
    """The record of a plain number."""
    return {"type": type(value).__name__, "value": value}


def call(inputs: list[Any], outputs: list[Any], **more: Any) -> Record:
    """The record of a forward call."""
    return {"input_args": inputs, "input_kwargs": {}, "output": outputs, **more}


def write_dump(
    directory: Path,
    records: dict[str, Record],
    *,
    task: str = "statistics",
    framework: str | None = "pytorch",
    parents: dict[str, str | None] | None = None,
) -> Path:
    """A rank directory; without ``parents`` every call stands at the root."""
    directory.mkdir(parents=True)
    head = {"task": task, "level": "mix", "dump_data_dir": None}
    if framework is not None:
        head["framework"] = framework
    hierarchy = dict.fromkeys(records) if parents is None else parents
    for name, content in (
        ("dump.json", {**head, "data": records}),
        ("construct.json", hierarchy),
        ("stack.json", {}),
    ):
        (directory / name).write_text(json.dumps(content), encoding="utf-8")
    return directory


def write_npy(directory: Path, name: str, array: Any) -> None:
    """A tensor file of MindSpore in the dump's dump_tensor_data."""
    folder = directory / "dump_tensor_data"
    folder.mkdir(exist_ok=True)
    np.save(folder / name, np.asarray(array))
