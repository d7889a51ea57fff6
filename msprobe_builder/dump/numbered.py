"""The records of a dump in the order in which they are read, each with a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msprobe_builder.dump.argument_gradients import by_argument
from msprobe_builder.dump.examples import Several, Written, apart
from msprobe_builder.dump.json_stream import DumpReader
from msprobe_builder.dump.latest import Latest
from msprobe_builder.dump.names import ROOT, is_gradients, parse_gradients
from msprobe_builder.dump.parameters import Parameters


class Numbering:
    """The numbers of records, in the order in which they are read.

    As long as the names are those of the latest dump nothing is looked up: each place in a large
    dict is far away.
    """

    def __init__(self, latest: Latest) -> None:
        self._latest = latest.records
        self._names = latest.names
        self._expected = list(latest.records)
        self._own: dict[str, int] | None = None  # once a name was another one
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, name: str) -> bool:
        return name in self._departed()

    def add(self, name: str) -> bool:
        """Give a name the next number; False where it has one already."""
        if self._own is None and self._expected[self._count : self._count + 1] == [name]:
            self._count += 1
            return True
        own = self._departed()
        if own.setdefault(self._names.setdefault(name, name), self._count) < self._count:
            return False
        self._count += 1
        return True

    def add_all(self, names: Sequence[str]) -> bool:
        """The same of many, of which none is numbered where one has a number already."""
        first, end = self._count, self._count + len(names)
        if self._own is not None or self._expected[first:end] != names:
            own, known = self._departed(), self._names
            several = list(map(known.setdefault, names, names))
            numbers = list(map(own.setdefault, several, range(first, end)))
            if numbers != list(range(first, end)):
                for name, number in zip(several, numbers, strict=True):
                    if number >= first:
                        own.pop(name, None)
                return False
        self._count = end
        return True

    def _departed(self) -> dict[str, int]:
        """The numbers so far, from now on of this dump alone."""
        if self._own is None:
            self._own = dict(zip(self._expected[: self._count], range(self._count), strict=True))
        return self._own

    def finish(self) -> dict[str, int]:
        """All numbers; those of the latest dump where they are the same."""
        is_same = self._own is None and self._count == len(self._expected) > 0
        return self._latest if is_same else self._departed()


@dataclass
class Numbered:
    """The records read so far; ``malformed`` are the names of those that are none."""

    parameters: Parameters
    numbers: Numbering
    gradients_by_argument: bool
    recomputed: set[int] = field(default_factory=set)
    malformed: list[str] = field(default_factory=list)

    def read(self, reader: Iterable[tuple[str, Any]]) -> None:
        """Take in all records of a dump."""
        for name, read in reader:
            if type(read) is not Several:
                self._add(name, read, reader)
            elif not self._add_all(read, reader):
                for one, record in apart(read):
                    self._add(one, record, reader)

    def _add_all(self, several: Several, reader: Iterable[tuple[str, Any]]) -> bool:
        """Take in records with examples; nothing, and False, if a name needs to be looked at."""
        first, names = len(self.numbers), several.names
        if ROOT in names or not self.numbers.add_all(names):
            return False
        gradients = [is_gradients(name) for name in names]
        for number, one in enumerate(several.alike):
            if one.is_recompute and not gradients[number]:
                self.recomputed.add(first + number)
        assert isinstance(reader, DumpReader)
        self.parameters.add_several(first, several, gradients, reader, self.gradients_by_argument)
        return True

    def _add(self, name: str, read: Any, reader: Iterable[tuple[str, Any]]) -> None:
        written = type(read) is Written
        data = read.alike.record if written else read
        is_record, number = isinstance(data, dict) and name != ROOT, len(self.numbers)
        if not is_record or not self.numbers.add(name):
            name = self._of_later_pass(name)
            if not is_record or not self.numbers.add(name):
                self.malformed.append(name)
                return
        is_gradient = is_gradients(name)
        if data.get("is_recompute") is True and not is_gradient:
            self.recomputed.add(number)
        if written and isinstance(reader, DumpReader):
            self.parameters.add_written(
                number, read, reader, is_gradient, self.gradients_by_argument
            )
        elif is_gradient:
            self.parameters.add_gradients(number, data)
        else:
            data = by_argument(data) if self.gradients_by_argument else data
            self.parameters.add_record(number, data)

    def _of_later_pass(self, name: str) -> str:
        """The name of a gradient, with the next number if one of a pass before has it already.

        Schedules that put off gradients of weights bring those of several passes at once, and
        recorders number them all alike.
        """
        stem, number = (parse_gradients(name) if name in self.numbers else None) or ("", None)
        if number is None:
            return name
        while f"{stem}.parameters_grad.{number}" in self.numbers:
            number += 1
        return f"{stem}.parameters_grad.{number}"
