"""What all do that compare a training while it runs: hold tensors, and save calls that differ.

Until a record is compared its tensors are held, not copied; what was written to meanwhile is not
saved. Calls that differ are saved as a dump of their own, with tensors and stack.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch

from msprobe_builder.facts.fact import Fact, fact
from msprobe_collector.record.calls import Call
from msprobe_collector.record.stack import NO_STACK
from msprobe_collector.record.statistics import local_part
from msprobe_collector.watch.reference import Keys
from msprobe_collector.write.records import Leaf
from msprobe_collector.write.step_files import StepFiles, tensor_directory
from msprobe_collector.write.tensor_files import TensorFiles

_OF_TORCH = f"File {Path(torch.__file__).parent}"
_MOST_HELD = 256 * 1024 * 1024  # bytes, of tensors that nothing else may keep any more

Lines: TypeAlias = Callable[[int], list[str]]  # the text of a stack


class Following:
    """The records of one step of one process, by keys that do not depend on numbering."""

    def __init__(self, most: int, level: str, framework: str) -> None:
        """Save ``most`` calls that differ, as many in which it begins."""
        self._most = most
        self._head = (level, framework)
        self.found: list[Fact] = []  # one for each step that differs
        self.bits: list[Fact] = []  # the first call that makes other bits of the same
        self.compared = self.missing = 0
        self.copies = False  # what is given now is about to be changed
        self._files: StepFiles | None = None
        self._tensors = TensorFiles()
        self._directory = Path()
        self._forget()

    def _forget(self) -> None:
        """What is known of a step."""
        self._keys = Keys()
        self._parents: dict[str, str | None] = {}
        self._stacks: dict[str, int] = {}
        self._saved = self._begun = 0
        self._first: Fact | None = None
        self._let_go()

    def _let_go(self) -> None:
        """Hold nothing any more."""
        self._held: dict[int, list[tuple[str, torch.Tensor, int]]] = {}
        self._holders: list[Any] = []  # of the records whose tensors are held, by identity
        self._held_bytes = 0

    def close(self) -> None:
        self._tensors.close()

    # -- what is recorded ---------------------------------------------------------------------

    def place(self, call: Call) -> None:
        """A call is recorded below another."""
        parent = None if call.parent is None else call.parent.forward_name
        if parent is not None and call.parent is not None and parent not in self._parents:
            self.place(call.parent)
        if call.forward_name not in self._parents:
            self._parents[call.forward_name] = parent
            self._keys.place(call.forward_name, parent)

    def note_stack(self, name: str, stack: int) -> None:
        self._stacks[name] = stack

    def hold(self, path: str, tensor: torch.Tensor, item: Any) -> None:
        """Keep a tensor until its record was compared."""
        plain = local_part(tensor)
        if plain is None or not self._compares:
            return
        kept = plain.detach()
        if self.copies:
            kept = kept.clone()
        self._held.setdefault(id(item), []).append((path, kept, kept._version))
        self._holders.append(item)
        self._held_bytes += plain.numel() * plain.element_size()

    @property
    def _compares(self) -> bool:
        """Whether what is recorded now will be compared."""
        raise NotImplementedError

    @property
    def is_full(self) -> bool:
        """Whether more is held than may be."""
        return self._held_bytes > _MOST_HELD

    # -- what differs -------------------------------------------------------------------------

    def _line(self, name: str, lines: Lines) -> Fact | None:
        """The line of the program that made a call."""
        stack = self._stacks.get(name.replace(".backward", ".forward"), NO_STACK)
        frames = lines(stack) if stack != NO_STACK else []
        line = next((one for one in frames if not one.startswith(_OF_TORCH)), "")
        return fact("run.line", line=line.partition(", in ")[0]) if line else None

    def _take_down(
        self, name: str, record: Mapping[str, Any], is_begin: bool, lines: Lines
    ) -> None:
        """Save a call that differs, unless there are enough."""
        self._begun += is_begin
        if self._saved < self._most or (is_begin and self._begun <= self._most):
            self._saved += 1
            self._save(name, record, lines)

    def _save(self, name: str, record: Mapping[str, Any], lines: Lines) -> None:
        """The call, with those around it, as a dump beside that of the run."""
        if self._files is None:
            root = self._directory.parents[1]
            folder = root.with_name(f"{root.name}_differs") / self._directory.parent.name
            level, framework = self._head
            self._files = StepFiles(folder / self._directory.name, "tensor", level, framework, True)
            self._tensors.directory = tensor_directory(folder / self._directory.name)
        saved = {key: self._with_names(value) for key, value in record.items()}
        self._files.add_record(name, saved, is_final=True)
        around = name.replace(".backward", ".forward")
        self._files.place(name, self._parents.get(around))
        stack = self._stacks.get(around, NO_STACK)
        if stack != NO_STACK:
            self._files.add_stack(name, stack)
        self._tensors.drain()
        self._files.flush(lines)

    def _with_names(self, value: Any) -> Any:
        """A part of a record, in which tensors that are as they were have files."""
        kind = type(value)
        if kind is list or kind is tuple:
            return [self._with_names(part) for part in value]
        if kind is dict:
            return {key: self._with_names(part) for key, part in value.items()}
        held = self._held.get(id(value)) if kind is Leaf else None
        if not held:
            return value
        path, tensor, version = held[0]
        if tensor._version != version:
            return value
        return Leaf(value, data_name=self._tensors.save(tensor, path))

    def _finish_files(self) -> None:
        """What was saved of the step is all."""
        if self._files is not None:
            self._tensors.drain()
            self._files.close()
            self._files = None


def size_fact(share: float) -> Fact:
    """By how much something differs, as a share of its size."""
    return fact("run.by_share", share=share) if math.isfinite(share) else fact("run.endless")
