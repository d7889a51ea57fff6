"""Compares a training with a recorded run while it runs, and saves the first calls that differ.

Whenever records are written, the calls since then are compared: by sketches where both runs have
them, else by statistics.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from msprobe_builder.base.errors import BuildError
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.operators.questions import is_uninitialised
from msprobe_builder.operators.table import operator_of
from msprobe_builder.sketch.layout import ROW
from msprobe_collector.errors import CollectorError
from msprobe_collector.signals import pass_on_if_of_signal
from msprobe_collector.watch.differing import (
    Difference,
    Pair,
    are_same_bits,
    difference_of,
    has_numbers,
    have_checksums,
    is_by_checksum,
    shares_of,
)
from msprobe_collector.watch.following import Following, Lines, size_fact
from msprobe_collector.watch.reference import Reference, folder_of, shown_in

_log = logging.getLogger("msprobe_collector")
_MANY = 0.1  # share of records whose names the dump does not know


class Watch(Following):
    """Compares the records of one process with those of another run."""

    def __init__(self, dump: Path, most: int, level: str, framework: str) -> None:
        """Compare with ``dump``; save ``most`` calls that differ, as many in which it begins."""
        super().__init__(most, level, framework)
        self._dump = dump
        self._reference: Reference | None = None
        self._folder = Path()
        self._partners: dict[str, str] | None = None  # by record, None until they are needed
        self._unaligned: tuple[Path, Path] | None = None  # steps that tell them

    # -- a step -------------------------------------------------------------------------------

    def open_step(self, directory: Path) -> None:
        """The step that is written into ``directory`` begins, or goes on."""
        if self._directory == directory:
            return
        self._directory = directory
        self._forget()
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

    def _forget(self) -> None:
        super()._forget()
        self._waiting: list[tuple[str, Mapping[str, Any]]] = []
        self._rows: list[npt.NDArray[Any]] = []
        self._seen = self._strange = 0  # records of this step, those that the dump does not name
        self._differing: set[str] = set()  # names of calls, and of modules around them
        self._altered: set[str] = set()  # the same of other bits

    @property
    def _compares(self) -> bool:
        return self._reference is not None

    def end_step(self) -> None:
        """Say what was found in it."""
        self._finish_files()
        if self._first is not None:
            self.found.append(self._first)
        if self._partners is None and self._strange > _MANY * self._seen:
            self._partners, self._unaligned = {}, (self._directory, self._folder)
        self._directory = Path()
        self._forget()

    # -- what is recorded ---------------------------------------------------------------------

    def add(self, name: str, record: Mapping[str, Any]) -> None:
        """A record was made; its numbers may be on their way."""
        if self._reference is not None:
            self._waiting.append((name, record))

    def take(self, rows: npt.NDArray[Any]) -> None:
        """The sketches that come next."""
        self._rows.append(rows)

    # -- comparing ----------------------------------------------------------------------------

    def compare(self, lines: Lines, is_over: bool) -> None:  # noqa: ARG002 - of the protocol
        """Compare what came since the last time; ``lines`` gives the text of a stack."""
        waiting, self._waiting = self._waiting, []
        try:
            self._compare(waiting, lines)
        except Exception as error:
            pass_on_if_of_signal(error)
            self.missing += len(waiting)
            self._give_up(error)
        self._let_go()

    def _give_up(self, error: Exception) -> None:
        said = error if isinstance(error, BuildError | CollectorError) else repr(error)[:200]
        _log.warning("%s is not watched: %s", self._directory.parent.name, said)
        self._reference = None

    def _compare(self, waiting: list[tuple[str, Mapping[str, Any]]], lines: Lines) -> None:
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
            shares = iter(
                shares_of([one for _, of_call in calls for one in of_call], rows, reference)
            )
            for (name, pairs), record in zip(calls, records, strict=True):
                own = [next(shares) for _ in pairs]
                self._look_at_bits(name, pairs, own, lines)
                difference = difference_of(name, pairs, own)
                if difference is not None:
                    self._tell(name, record, pairs, difference, lines)
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
        pairs = list(zip(own, other, strict=True))
        bare = [(mine.item, its.item) for mine, its in pairs if is_by_checksum(its.item)]
        return pairs if all(have_checksums(*one) for one in bare) else None

    def _look_at_bits(
        self, name: str, pairs: list[Pair], shares: list[float], lines: Lines
    ) -> None:
        """Whether a call makes other bits of the same, as one that is not deterministic does."""
        same = [
            are_same_bits(own.item, other.item, share)
            for (own, other), share in zip(pairs, shares, strict=True)
        ]
        if all(same):
            return
        forward = name.replace(".backward", ".forward")
        is_first = not self.bits and forward not in self._altered
        self._note_with_modules(name, self._altered)
        given = [is_same for (own, _), is_same in zip(pairs, same, strict=True) if not own.is_made]
        known = all(own.is_made or has_numbers(own.item) for own, _ in pairs)
        makes_any = is_uninitialised(
            operator_of(forward.partition(".forward")[0].rpartition(".")[0])
        )
        if not is_first or not known or makes_any or not all(given):
            return
        if ".parameters_grad" not in name:
            where = next(own.where for (own, _), one in zip(pairs, same, strict=True) if not one)
            self.bits.append(self._bits_fact(name, where, True, lines))

    def _note_with_modules(self, name: str, names: set[str]) -> None:
        """Note a call and the modules around it, whose results are made of its."""
        names.add(name)
        parent = self._parents.get(name.replace(".backward", ".forward"))
        while parent is not None and parent not in names:
            names.add(parent)
            parent = self._parents.get(parent)

    def _bits_fact(self, name: str, where: str, is_given_the_same: bool, lines: Lines) -> Fact:
        return fact(
            "run.other_bits",
            place=f"{self._directory.parent.name}/{self._directory.name}",
            call=name,
            dump=str(self._dump),
            tensor=where,
            given=fact("run.given_the_same" if is_given_the_same else "run.given_otherwise"),
            line=self._line(name, lines),
        )

    def _tell(
        self,
        name: str,
        record: Mapping[str, Any],
        pairs: list[Pair],
        difference: Difference,
        lines: Lines,
    ) -> None:
        if name.replace(".backward", ".forward") in self._differing:
            difference = difference._replace(begins=False)  # of what forward, or a call in it, made
        self._note_with_modules(name, self._differing)
        if difference.begins and not self._begun:
            self._first = self._fact(name, pairs, difference, lines)
            _log.warning("%s", tell(self._first, ENGLISH))
        elif self._first is None:
            self._first = self._fact(name, pairs, difference, lines)
        self._take_down(name, record, difference.begins, lines)

    def _fact(self, name: str, pairs: list[Pair], difference: Difference, lines: Lines) -> Fact:
        by_checksum = [own.where for own, other in pairs if is_by_checksum(other.item)]
        if difference.where in by_checksum:
            return self._bits_fact(name, difference.where, difference.begins, lines)
        return fact(
            "run.first_that_differs",
            place=f"{self._directory.parent.name}/{self._directory.name}",
            call=name,
            dump=str(self._dump),
            tensor=difference.where,
            size=size_fact(difference.share),
            given=fact("run.given_the_same" if difference.begins else "run.given_otherwise"),
            line=self._line(name, lines),
        )
