"""Compares a training with a recorded run while it runs, and saves the first calls that differ.

Whenever records are written, the calls since then are compared: by sketches where both runs have
them, else by statistics. Until then their tensors are held, not copied; what was written to
meanwhile is not saved. Calls that differ are saved as a dump of their own, with tensors and stack.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from msprobe_builder.base.errors import BuildError
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.sketch.layout import ROW
from msprobe_collector.errors import CollectorError
from msprobe_collector.record.calls import Call
from msprobe_collector.record.stack import NO_STACK
from msprobe_collector.record.statistics import local_part
from msprobe_collector.signals import pass_on_if_of_signal
from msprobe_collector.watch.differing import Difference, Pair, differences
from msprobe_collector.watch.reference import Keys, Reference, folder_of, shown_in
from msprobe_collector.write.records import Leaf
from msprobe_collector.write.step_files import StepFiles, tensor_directory
from msprobe_collector.write.tensor_files import TensorFiles

_log = logging.getLogger("msprobe_collector")
_OF_TORCH = f"File {Path(torch.__file__).parent}"
_MANY = 0.1  # share of records whose names the dump does not know
_MOST_HELD = 256 * 1024 * 1024  # bytes, of tensors that nothing else may keep any more


class Watch:
    """Follows the records of one process."""

    def __init__(self, dump: Path, most: int, level: str, framework: str) -> None:
        """Compare with ``dump``; save ``most`` calls that differ, as many in which it begins."""
        self._dump, self._most = dump, most
        self._head = (level, framework)
        self.found: list[Fact] = []  # one for each step that differs
        self.compared = self.missing = 0
        self.copies = False  # what is given now is about to be changed
        self._files: StepFiles | None = None
        self._tensors = TensorFiles()
        self._reference: Reference | None = None
        self._directory = self._folder = Path()
        self._partners: dict[str, str] | None = None  # by record, None until they are needed
        self._unaligned: tuple[Path, Path] | None = None  # steps that tell them
        self._clear()

    # -- a step -------------------------------------------------------------------------------

    def open_step(self, directory: Path) -> None:
        """The step that is written into ``directory`` begins, or goes on."""
        if self._directory == directory:
            return
        self._directory = directory
        self._clear()
        self._reference = None
        self._align()
        try:
            self._folder = folder_of(self._dump, directory.parent.name, directory.name)
            self._reference = Reference(self._folder)
        except Exception as error:  # the other dump may hold anything, the training goes on
            pass_on_if_of_signal(error)
            self._give_up(error)

    def _align(self) -> None:
        """Once, from a step that is written: find calls that go by other names in the dump."""
        if self._unaligned is None:
            return
        from msprobe_collector.watch.alignment import aligned

        (own, other), self._unaligned = self._unaligned, None
        try:
            self._partners = aligned(own, other)
        except Exception as error:  # the other dump may hold anything, the training goes on
            pass_on_if_of_signal(error)
            _log.warning("Calls of other names are not compared: %s", error)
            return
        _log.info(
            "Many calls go by other names in %s: from this step on %d records are compared as "
            "%s was aligned.",
            *(self._dump, len(self._partners), own.parent.name),
        )

    def _clear(self) -> None:
        self._keys = Keys()
        self._parents: dict[str, str | None] = {}
        self._stacks: dict[str, int] = {}
        self._waiting: list[tuple[str, Mapping[str, Any]]] = []
        self._rows: list[npt.NDArray[Any]] = []
        self._held: dict[int, list[tuple[str, torch.Tensor, int]]] = {}
        self._holders: list[Any] = []  # of the records whose tensors are held, by identity
        self._held_bytes = 0
        self._saved = self._begun = 0
        self._seen = self._strange = 0  # records of this step, those that the dump does not name
        self._differing: set[str] = set()  # names of calls
        self._first: Fact | None = None

    def end_step(self) -> None:
        """Say what was found in it."""
        if self._files is not None:
            self._tensors.drain()
            self._files.close()
            self._files = None
        if self._first is not None:
            self.found.append(self._first)
        if self._partners is None and self._strange > _MANY * self._seen:
            self._partners, self._unaligned = {}, (self._directory, self._folder)
        self._directory = Path()
        self._clear()

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
        if plain is None or self._reference is None:
            return
        kept = plain.detach()
        if self.copies:
            kept = kept.clone()
        self._held.setdefault(id(item), []).append((path, kept, kept._version))
        self._holders.append(item)
        self._held_bytes += plain.numel() * plain.element_size()

    @property
    def is_full(self) -> bool:
        """Whether more is held than may be."""
        return self._held_bytes > _MOST_HELD

    def add(self, name: str, record: Mapping[str, Any]) -> None:
        """A record was made; its numbers may be on their way."""
        if self._reference is not None:
            self._waiting.append((name, record))

    def take(self, rows: npt.NDArray[Any]) -> None:
        """The sketches that come next."""
        self._rows.append(rows)

    # -- comparing ----------------------------------------------------------------------------

    def compare(self, lines: Callable[[int], list[str]]) -> None:
        """Compare what came since the last time; ``lines`` gives the text of a stack."""
        waiting, self._waiting = self._waiting, []
        try:
            self._compare(waiting, lines)
        except Exception as error:
            pass_on_if_of_signal(error)
            self.missing += len(waiting)
            self._give_up(error)
        self._held.clear()
        self._holders.clear()
        self._held_bytes = 0

    def _give_up(self, error: Exception) -> None:
        said = error if isinstance(error, BuildError | CollectorError) else repr(error)[:200]
        _log.warning("%s is not watched: %s", self._directory.parent.name, said)
        self._reference = None

    def _compare(
        self, waiting: list[tuple[str, Mapping[str, Any]]], lines: Callable[[int], list[str]]
    ) -> None:
        reference = self._reference
        if reference is not None and waiting:
            calls: list[tuple[str, list[Pair]]] = []
            records = []
            for name, record in waiting:
                pairs = self._pairs(name, record, reference)
                if pairs is None:
                    self.missing += 1
                else:
                    calls.append((name, pairs))
                    records.append(record)
            rows = np.concatenate(self._rows) if self._rows else np.empty(0, ROW)
            self._rows = [rows]
            found = differences(calls, rows, reference)
            for (name, _), record, difference in zip(calls, records, found, strict=True):
                if difference is not None:
                    self._tell(name, record, difference, lines)
            self.compared += len(calls)

    def _pairs(
        self, name: str, record: Mapping[str, Any], reference: Reference
    ) -> list[Pair] | None:
        other = reference.shown(self._keys.of(name))
        self._seen += 1
        if other is None:
            self._strange += 1
            other = reference.shown_as((self._partners or {}).get(name))
        if other is None:
            return None
        own = shown_in(name, record, None)
        if [one.is_made for one in own] != [one.is_made for one in other]:
            return None
        return list(zip(own, other, strict=True))

    def _tell(
        self,
        name: str,
        record: Mapping[str, Any],
        difference: Difference,
        lines: Callable[[int], list[str]],
    ) -> None:
        if name.replace(".backward", ".forward") in self._differing:
            difference = difference._replace(begins=False)  # it is made of what forward made
        self._differing.add(name)
        if difference.begins and not self._begun:
            self._first = self._fact(name, difference, lines)
            _log.warning("%s", tell(self._first, ENGLISH))
        elif self._first is None:
            self._first = self._fact(name, difference, lines)
        self._begun += difference.begins
        if self._saved < self._most or (difference.begins and self._begun <= self._most):
            self._saved += 1
            self._save(name, record, lines)

    def _fact(self, name: str, difference: Difference, lines: Callable[[int], list[str]]) -> Fact:
        stack = self._stacks.get(name.replace(".backward", ".forward"), NO_STACK)
        frames = lines(stack) if stack != NO_STACK else []
        line = next((one for one in frames if not one.startswith(_OF_TORCH)), "")
        share = difference.share
        size = fact("run.by_share", share=share) if math.isfinite(share) else fact("run.endless")
        return fact(
            "run.first_that_differs",
            place=f"{self._directory.parent.name}/{self._directory.name}",
            call=name,
            dump=str(self._dump),
            tensor=difference.where,
            size=size,
            given=fact("run.given_the_same" if difference.begins else "run.given_otherwise"),
            line=fact("run.line", line=line.partition(", in ")[0]) if line else None,
        )

    def _save(
        self, name: str, record: Mapping[str, Any], lines: Callable[[int], list[str]]
    ) -> None:
        """The call, with those around it, as a dump beside that of the run."""
        if self._files is None:
            root = self._directory.parents[1]
            folder = root.with_name(f"{root.name}_differs") / self._directory.parent.name
            level, framework = self._head
            self._files = StepFiles(folder / self._directory.name, "tensor", level, framework, True)
            self._tensors.directory = tensor_directory(folder / self._directory.name)
        saved = {key: self._with_names(value) for key, value in record.items()}
        self._files.add_record(name, saved, is_final=True)
        around: str | None = name.replace(".backward", ".forward")
        self._files.place(name, self._parents.get(around or ""))
        stack = self._stacks.get(around or "", NO_STACK)
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
