"""Level debug: single values that the user names, in ``debug.json``."""

from __future__ import annotations

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

from msprobe_collector.config.settings import Config
from msprobe_collector.record.framework import Framework, Removable
from msprobe_collector.write.step_files import AppendedObject, tensor_directory

_log = logging.getLogger("msprobe_collector")


class _Gradients:
    """The tree of gradients of one saved value, filled as they arrive."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tree: Any = None
        self.missing = 0


class SavedValues:
    """Writes values at once and gradients when they are complete or the step ends."""

    def __init__(self, config: Config, framework: Framework) -> None:
        self._config = config
        self._framework = framework
        self._saves_tensors = config.task == "tensor"
        self._tensor_files = framework.make_files(False)
        self._items = framework.make_describer(config.summary_mode, self._tensor_files, True)
        self._file: AppendedObject | None = None
        self._counters: dict[str, int] = {}
        self._waiting: list[_Gradients] = []
        self._handles: list[Removable] = []

    def save(self, directory: Path, variable: Any, name: str, save_backward: bool) -> None:
        problem = self._unsupported(variable)
        if problem is not None:
            _log.warning("%s was not saved: it holds %s.", name, problem)
            return
        self._open(directory)
        number = self._counters.get(name, 0)
        self._counters[name] = number + 1
        key = f"{name}.{number}.debug"
        path = key if self._saves_tensors else None
        with self._framework.unseen():
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
            _log.info("Saved %d values in %s.", sum(self._counters.values()), self._file.path)
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
                "framework": self._framework.name,
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
        if isinstance(value, self._framework.tensor_kind):
            arrive = partial(self._arrive, gradients, path, where)
            handle = self._framework.watch_value(value, arrive)
            if handle is not None:
                gradients.missing += 1
                self._handles.append(handle)
        return None

    def _arrive(
        self, gradients: _Gradients, path: str, where: tuple[Any, ...], gradient: Any
    ) -> None:
        if gradients not in self._waiting:
            return  # a second pass through the same graph
        file = path if self._saves_tensors else None
        with self._framework.unseen():
            item = self._items.tensor(gradient, file)
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

    def _unsupported(self, value: Any) -> str | None:
        """What in a nested value cannot be saved, None if all of it can."""
        if isinstance(value, dict):
            for key, part in value.items():
                if not isinstance(key, str):
                    return f"the key {key!r}, which is no text"
                problem = self._unsupported(part)
                if problem is not None:
                    return problem
            return None
        if isinstance(value, list | tuple):
            problems = (self._unsupported(part) for part in value)
            return next((found for found in problems if found is not None), None)
        if isinstance(value, self._framework.tensor_kind | int | float | str):
            return None
        return f"a value of type {type(value).__name__}"
