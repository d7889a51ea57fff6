"""Record one step and read what was written."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from msprobe_collector import PrecisionDebugger

ALONE = {"summary_mode": "statistics"}
EVIDENCE = {"summary_mode": "sketch", "flow": True}  # what is known of a tensor at most


class Dump(NamedTuple):
    """The files of one step and rank."""

    directory: Path
    header: dict[str, Any]
    data: dict[str, Any]
    parents: dict[str, str | None]
    stacks: dict[str, list[str]]

    def names(self, start: str = "") -> list[str]:
        return [name for name in self.data if name.startswith(start)]


def record(
    path: Path,
    step: Callable[[], object],
    model: nn.Module | list[nn.Module] | None = None,
    **config: Any,
) -> Dump:
    """The dump of ``step``; ``config`` holds the keys of config.json."""
    write_config(path, **config)
    debugger = PrecisionDebugger(config_path=path / "config.json")
    try:
        debugger.start(model)
        step()
        debugger.stop()
    finally:
        debugger.close()
    return read_dump(path / "dump" / "step0" / "rank")


def write_config(path: Path, **config: Any) -> Path:
    content = {"task": "statistics", "level": "mix", "dump_path": str(path / "dump"), **config}
    path.mkdir(parents=True, exist_ok=True)
    # Each rank writes the same file: a reader must never meet it half-written.
    draft = path / f"config.{os.getpid()}.json"
    draft.write_text(json.dumps(content))
    return draft.replace(path / "config.json")


def read_dump(directory: Path) -> Dump:
    header = json.loads((directory / "dump.json").read_text())
    data = header.pop("data")
    parents = json.loads((directory / "construct.json").read_text())
    groups = json.loads((directory / "stack.json").read_text())
    stacks = {name: lines for names, lines in groups.values() for name in names}
    return Dump(directory, header, data, parents, stacks)


def dumps_of_two(path: Path) -> list[Dump]:
    """What two processes recorded of the first step below a folder."""
    return [read_dump(path / "dump" / "step0" / f"rank{rank}") for rank in (0, 1)]


def tensors(record: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every tensor in a record with its position."""
    if isinstance(record, dict):
        if "dtype" in record and "shape" in record:
            yield path, record
        else:
            for key, part in record.items():
                yield from tensors(part, f"{path}.{key}")
    elif isinstance(record, list):
        for position, part in enumerate(record):
            yield from tensors(part, f"{path}.{position}")


def input_gradients(backward: dict[str, Any]) -> list[dict[str, Any] | None]:
    """The gradient of each tensor among the arguments of a call."""
    found: list[dict[str, Any] | None] = backward.get("input_gradients", backward["output"])
    return found


def output_gradients(backward: dict[str, Any]) -> list[dict[str, Any] | None]:
    """The gradient of each tensor that a call returned."""
    found: list[dict[str, Any] | None] = backward.get("output_gradients", backward["input"])
    return found


def saved_tensor(directory: Path, name: str) -> torch.Tensor:
    """A tensor of the dump in ``directory``, from a file of its own or from that of the step."""
    folder = directory / "dump_tensor_data"
    if (folder / name).exists():
        return torch.load(folder / name)
    entry = json.loads((folder / "index.json").read_text())[name]
    kind = getattr(torch, entry["dtype"].removeprefix("torch."))
    content = bytearray((folder / "tensors.bin").read_bytes())
    count = math.prod(entry["shape"])
    if not count:
        return torch.empty(entry["shape"], dtype=kind)
    flat = torch.frombuffer(content, dtype=kind, count=count, offset=entry["offset"])
    return flat.reshape(entry["shape"]).clone()
