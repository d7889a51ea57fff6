"""Record a step of a MindSpore model and read what was written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore
import numpy as np

from msprobe_builder.metrics.tensor_store import stored_tensor
from msprobe_collector.mindspore import PrecisionDebugger

PARTS = ("input_args", "input_kwargs", "parameters", "output", "input")


@dataclass(frozen=True)
class Recorded:
    """The files of one step."""

    folder: Path
    data: dict[str, Any]
    parents: dict[str, str | None]
    stacks: dict[str, list[str]]

    def tensor(self, item: dict[str, Any]) -> Any:
        found = stored_tensor(self.folder / "dump_tensor_data", item["data_name"])
        assert found is not None
        return np.array(found[0])


def read_step(folder: Path) -> Recorded:
    texts = {
        name: json.loads((folder / f"{name}.json").read_text("utf-8"))
        for name in ("dump", "construct", "stack")
    }
    assert texts["dump"]["framework"] == "mindspore"
    stacks = {name: lines for names, lines in texts["stack"].values() for name in names}
    return Recorded(folder, texts["dump"]["data"], texts["construct"], stacks)


def record(
    folder: Path, model: Any, run: Callable[[], Any], level: str = "mix", **keys: Any
) -> Recorded:
    """Run ``run`` between start and stop; ``keys`` are those of the task's section."""
    task = keys.pop("task", "statistics")
    section = "statistics" if task == "md5" else task
    content = {"task": task, "dump_path": str(folder), "level": level, section: keys}
    config = folder.with_suffix(".json")
    config.write_text(json.dumps(content))
    debugger = PrecisionDebugger(config)
    debugger.start(model)
    run()
    debugger.stop()
    debugger.step()
    debugger.close()
    return read_step(folder / "step0" / "rank")


def tensors(record: Any) -> Iterator[dict[str, Any]]:
    """All tensor items of a record."""
    if isinstance(record, dict):
        if record.get("type") == "mindspore.Tensor":
            yield record
        else:
            for part in record.values():
                yield from tensors(part)
    elif isinstance(record, list):
        for part in record:
            yield from tensors(part)


def gradients(function: Callable[..., Any], weights: Any) -> Any:
    """Value and gradients of ``weights``."""
    return mindspore.value_and_grad(function, None, weights)
