"""Level debug: single values that the user names, in ``debug.json``."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from msprobe_collector.config.settings import Config
from msprobe_collector.record.items import Items
from msprobe_collector.unseen import unseen
from msprobe_collector.write.step_files import AppendedObject, tensor_directory
from msprobe_collector.write.tensor_files import TensorFiles

_log = logging.getLogger("msprobe_collector")


class _Gradients:
    """The tree of gradients of one saved value, filled as they arrive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree: Any = None
        self.missing = 0


class SavedValues:
    """Writes values at once and gradients when they are complete or the step ends."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._saves_tensors = config.task == "tensor"
        self._tensor_files = TensorFiles()
        self._items = Items(config.summary_mode == "md5", self._tensor_files)
        self._file: AppendedObject | None = None
        self._counters: dict[str, int] = {}
        self._waiting: list[_Gradients] = []
        self._handles: list[RemovableHandle] = []

    def save(self, directory: Path, variable: Any, name: str, save_backward: bool) -> None:
        with torch._C.DisableTorchFunction():
            problem = _unsupported(variable)
            if problem is not None:
                _log.warning("%s was not saved: it holds %s.", name, problem)
                return
            self._open(directory)
            number = self._counters.get(name, 0)
            self._counters[name] = number + 1
            key = f"{name}.{number}.debug"
            path = key if self._saves_tensors else None
            with unseen():
                item = self._items.describe(variable, path, [])
            self._append(key, item)
            if save_backward:
                gradients = _Gradients(f"{name}_grad.{number}.debug")
                gradients.tree = self._watch(variable, gradients, gradients.name, ())
                if gradients.missing:
                    self._waiting.append(gradients)
                else:
                    self._append(gradients.name, gradients.tree)

    def close_step(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for gradients in self._waiting:
            self._append(gradients.name, gradients.tree)
        self._waiting = []
        if self._file is not None:
            self._file.close()
            self._file = None
        self._tensor_files.close()
        self._items.forget_step()
        self._counters.clear()

    def _open(self, directory: Path) -> None:
        if self._file is None:
            self._tensor_files.directory = tensor_directory(directory)
            folder = str(tensor_directory(directory)) if self._saves_tensors else None
            header = {
                "task": self._config.task,
                "level": "debug",
                "framework": "pytorch",
                "dump_data_dir": folder,
            }
            head = json.dumps(header, indent=1)[:-2] + ',\n "data": {'
            self._file = AppendedObject(directory / "debug.json", head, "\n }\n}")

    def _append(self, key: str, record: Any) -> None:
        self._items.settle()
        if self._file is not None:
            self._file.append([f"  {json.dumps(key)}: {json.dumps(record)}"])

    def _watch(self, value: Any, gradients: _Gradients, path: str, where: tuple[Any, ...]) -> Any:
        """A tree like ``value`` with null for each tensor, which a hook fills in."""
        if isinstance(value, dict):
            return {
                str(key): self._watch(part, gradients, f"{path}.{key}", (*where, str(key)))
                for key, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [
                self._watch(part, gradients, f"{path}.{n}", (*where, n))
                for n, part in enumerate(value)
            ]
        if isinstance(value, torch.Tensor) and value.requires_grad:
            gradients.missing += 1
            arrive = partial(self._arrive, gradients, path, where)
            if value.grad_fn is None:
                self._handles.append(value.register_hook(arrive))
            else:
                pick = partial(_pick, arrive, value.output_nr)
                self._handles.append(value.grad_fn.register_prehook(pick))
        return None

    def _arrive(
        self, gradients: _Gradients, path: str, where: tuple[Any, ...], gradient: torch.Tensor
    ) -> None:
        if gradients not in self._waiting:
            return  # a second pass through the same graph
        with torch._C.DisableTorchFunction():
            file = path if self._saves_tensors else None
            with unseen():
                item = self._items.tensor(gradient.detach(), file)
            if where:
                branch = gradients.tree
                for part in where[:-1]:
                    branch = branch[part]
                if branch[where[-1]] is not None:
                    return
                branch[where[-1]] = item
            else:
                gradients.tree = item
            gradients.missing -= 1
            if not gradients.missing:
                self._waiting.remove(gradients)
                self._append(gradients.name, gradients.tree)


def _pick(arrive: Any, number: int, gradients: tuple[torch.Tensor | None, ...]) -> None:
    gradient = gradients[number] if number < len(gradients) else None
    if gradient is not None:
        arrive(gradient)


def _unsupported(value: Any) -> str | None:
    """What in a nested value cannot be saved, None if all of it can."""
    if isinstance(value, dict):
        for key, part in value.items():
            if not isinstance(key, str):
                return f"the key {key!r}, which is no text"
            problem = _unsupported(part)
            if problem is not None:
                return problem
        return None
    if isinstance(value, list | tuple):
        return next((found for part in value if (found := _unsupported(part)) is not None), None)
    if isinstance(value, torch.Tensor | int | float | str):
        return None
    return f"a value of type {type(value).__name__}"
