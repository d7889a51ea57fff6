"""Dumps with sketches, written without a recorder: any numbers may stand in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from msprobe_builder.sketch.definition import NUMBERS, sketch_of
from msprobe_builder.sketch.layout import (
    NAME,
    PLACE,
    PLACES,
    ROWS,
    packed_block,
    packed_head,
    rows_of,
)

Array = np.ndarray
Rows = Mapping[str, Any]  # fields of sketches that are written instead of the true ones, by record


def tensor(array: Array, dtype: str) -> dict[str, Any]:
    values = array.astype(float)
    told = [values.max(), values.min(), values.mean(), np.linalg.norm(values)]
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{dtype}",
        "shape": list(array.shape),
        **dict(zip(("Max", "Min", "Mean", "Norm"), map(float, told), strict=True)),
        "requires_grad": False,
    }


def write_dump(
    folder: Path,
    arrays: Mapping[str, Array],
    *,
    dtype: str = "float32",
    instead: Rows | None = None,
    places: list[tuple[int, int, int, int]] | None = None,
) -> Path:
    """One call for each array, which it puts out, and its sketch."""
    folder.mkdir(parents=True)
    names = [f"Torch.{name}.0.forward" for name in arrays]
    data = {
        name: {"input_args": [], "input_kwargs": {}, "output": [tensor(array, dtype)]}
        for name, array in zip(names, arrays.values(), strict=True)
    }
    head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    (folder / "construct.json").write_text(json.dumps(dict.fromkeys(names)))
    (folder / "stack.json").write_text("{}")
    sketches = [sketch_of(array) for array in arrays.values()]
    rows = rows_of(
        np.array([one.numbers for one in sketches]).reshape(-1, NUMBERS),
        [one.nans for one in sketches],
        [one.infinities for one in sketches],
    )
    for name, fields in (instead or {}).items():
        for field, value in fields.items():
            rows[field][list(arrays).index(name)] = value
    entries = places or [(number, 1, 0, number) for number in range(len(arrays))]
    content = packed_head() + packed_block(ROWS, 0, rows.tobytes())
    content += packed_block(PLACES, 0, np.array(entries, PLACE).tobytes())
    (folder / NAME).write_bytes(content)
    return folder
