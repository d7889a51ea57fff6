"""The three files of a step, appended to and complete after every flush.

Each file ends with a closing tail. A flush overwrites the tail with the new entries and writes
it again, so the cost is that of the new entries and a killed run leaves valid files behind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from msprobe_collector.stack import Stacks


class AppendedObject:
    """A JSON object in a file that grows by whole entries."""

    def __init__(self, path: Path, head: str, tail: str) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._tail = tail.encode()
        self._end = self._file.write(head.encode())
        self._empty = True
        self._write_tail()

    def append(self, entries: Sequence[str]) -> None:
        if not entries:
            return
        start = "\n" if self._empty else ",\n"
        self._empty = False
        self._file.seek(self._end)
        self._end += self._file.write((start + ",\n".join(entries)).encode())
        self._write_tail()

    def close(self) -> None:
        self._file.close()

    def _write_tail(self) -> None:
        self._file.write(self._tail)
        self._file.flush()


class StepFiles:
    """dump.json, construct.json and stack.json of one step and rank."""

    def __init__(self, directory: Path, task: str, level: str, saves_tensors: bool) -> None:
        self.directory = directory
        self.calls = 0
        header = {
            "task": task,
            "level": level,
            "framework": "pytorch",
            "dump_data_dir": str(tensor_directory(directory)) if saves_tensors else None,
        }
        head = json.dumps(header, indent=1)[:-2] + ',\n "data": {'
        self._dump = AppendedObject(directory / "dump.json", head, "\n }\n}")
        self._construct = AppendedObject(directory / "construct.json", "{", "\n}")
        self._stack = AppendedObject(directory / "stack.json", "{", "\n}")
        self._data: list[tuple[str, Any]] = []
        self._parents: list[tuple[str, Any]] = []
        self._placed: set[str] = set()
        self._callers: list[tuple[str, int]] = []
        self._groups = 0

    def add_record(self, name: str, record: Any) -> None:
        self._data.append((name, record))
        self.calls += 1

    def place(self, child: str, parent: str | None) -> bool:
        """Note who called ``child``; False when that is known already."""
        if child in self._placed:
            return False
        self._placed.add(child)
        self._parents.append((child, parent))
        return True

    def add_stack(self, name: str, stack: int) -> None:
        self._callers.append((name, stack))

    @property
    def waiting(self) -> int:
        return len(self._data) + len(self._callers)

    def flush(self, stacks: Stacks) -> None:
        """Append what came since the last flush."""
        data, self._data = self._data, []
        parents, self._parents = self._parents, []
        callers, self._callers = self._callers, []
        self._dump.append([f"  {json.dumps(name)}: {json.dumps(record)}" for name, record in data])
        self._construct.append(
            [f" {json.dumps(child)}: {json.dumps(parent)}" for child, parent in parents]
        )
        self._stack.append(self._stack_groups(callers, stacks))

    def _stack_groups(self, callers: Sequence[tuple[str, int]], stacks: Stacks) -> list[str]:
        """Names that share a stack together, numbered on across flushes."""
        groups: dict[int, list[str]] = {}
        for name, stack in callers:
            groups.setdefault(stack, []).append(name)
        entries = []
        for stack, names in groups.items():
            content = json.dumps([names, stacks.lines(stack)])
            entries.append(f' "{self._groups}": {content}')
            self._groups += 1
        return entries

    def close(self) -> None:
        for file in (self._dump, self._construct, self._stack):
            file.close()


def tensor_directory(directory: Path) -> Path:
    return directory / "dump_tensor_data"
