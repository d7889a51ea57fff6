"""Small dumps for tests: records as the collector writes them, and directories of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def tensor(
    norm: float | None = 1.0,
    *,
    high: float | None = 1.0,
    low: float | None = -1.0,
    mean: float | None = 0.0,
    shape: tuple[int, ...] = (4, 4),
    dtype: str = "torch.float32",
) -> Record:
    """The record of a tensor; unremarkable unless told otherwise."""
    statistics = {"Max": high, "Min": low, "Mean": mean, "Norm": norm}
    return {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), **statistics}


def number(value: object) -> Record:
    """The record of a plain number, truth value or text."""
    return {"type": type(value).__name__, "value": value}


def group(*ranks: int) -> Record:
    """The record of a process group."""
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": "unused"}


def forward(inputs: list[Any], output: list[Any], /, **keywords: Any) -> Record:
    """The record of a forward call."""
    return {"input_args": inputs, "input_kwargs": keywords, "output": output}


def communicate(*inputs: Any, after: list[Any] | None = None, **keywords: Any) -> Record:
    """The record of a communication: the output is every argument after the call."""
    output = [*inputs, *keywords.values()] if after is None else after
    return forward(list(inputs), output, **keywords)


def write_dump(
    directory: Path,
    data: Mapping[str, Any],
    construct: Mapping[str, Any] | None = None,
    stack: Mapping[str, Any] | None = None,
    task: str = "statistics",
) -> Path:
    """Write one rank directory; without ``construct`` every record is a call at the top."""
    directory.mkdir(parents=True, exist_ok=True)
    if construct is None:
        construct = dict.fromkeys(data)
    dump = {"task": task, "level": "mix", "framework": "pytorch", "data": data}
    for name, content in (("dump", dump), ("construct", construct), ("stack", stack or {})):
        (directory / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return directory
