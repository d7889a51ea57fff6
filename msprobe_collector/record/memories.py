"""Who wrote the memory of each tensor: followed by storage, layout and version counter.

A storage is known by the address of its record in torch, which a weak reference keeps from being
given to another; its bytes are freed as ever. Within it each tensor that a call put out is known
by its layout until something overlapping is written. The version counter tells of writes that no
recorded call made; those that it does not count are not seen.

Most tensors are given to a call as the very objects that another put out or was given, so what was
found of one is kept with a weak reference to it, while its memory is as it was.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import torch

from msprobe_builder.dump.flow_layout import Maker, Mark, Place
from msprobe_collector.one_pass import loaded
from msprobe_collector.record.identities import (
    counter_of,
    part_of,
    plain_of,
    storage_of,
    version_of,
)
from msprobe_collector.record.layouts import Layout
from msprobe_collector.record.memory import NO_TENSORS, NO_WRITES, Memory
from msprobe_collector.record.origins import (
    OUTSIDE,
    UNKNOWN,
    UNSEEN_WRITE,
    Found,
    Origin,
)

_Storage: Any = torch.UntypedStorage
_REMEMBERED = 8192  # storages, before those that are gone are let go of
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_NO_LAYOUT: Layout = (0, (), (), 0)
# Plain numbers, as flags take long to combine.
_VIEW, _IN_PLACE, _SAME = int(Mark.VIEW), int(Mark.IN_PLACE), int(Mark.SAME)
_UNINITIALISED, _INCOMPLETE = int(Mark.UNINITIALISED), int(Mark.INCOMPLETE)
_UNWRITTEN = _UNINITIALISED | int(Mark.FROM_UNINITIALISED)
_RECORD, _OUTPUT = int(Maker.RECORD), int(Place.OUTPUT)


class Looked(NamedTuple):
    """A tensor of which it was found who made it."""

    found: Found
    storage: int  # the address of its record
    counter: int  # of writes, with those of what it stands for
    tensor: Any  # a weak reference; None where it is looked at anew each time
    version: int
    address: int
    memory: Memory | None
    changes: int  # of the memory
    layout: Layout
    under: Found | None  # of a view: who made what others see at its places


# As many are made as there are tensors: what a class of named fields adds takes twice the time.
_made: Any = tuple.__new__
_NO_MEMORY = Looked(UNKNOWN, 0, -1, None, -1, 0, None, -1, _NO_LAYOUT, None)


class Memories:
    """The memories of a step. Call inside ``unseen``."""

    def __init__(self, lock: threading.RLock) -> None:
        """``lock`` is held by whoever calls anything but ``look`` and ``given``."""
        self._lock = lock
        self._known: dict[int, Memory] = {}
        self._limit = _REMEMBERED
        self._seen: dict[int, Looked] = {}  # by identity of the tensor
        self._compiled = loaded.compiled

    def forget(self) -> None:
        known, self._known = self._known, {}
        for key in known:
            _Storage._free_weak_ref(key)
        self._seen.clear()

    def let_go(self, tensor: torch.Tensor) -> None:
        """Nothing of ours refers to this tensor any more."""
        self._seen.pop(id(tensor), None)

    def given(self, tensor: torch.Tensor) -> Found:
        """Who made a tensor that somebody has now."""
        return self.look(tensor)[0]

    def look(self, tensor: torch.Tensor) -> Looked:
        """Who made a tensor, where it lies, and its counter of writes."""
        seen = self._seen.get(id(tensor))
        if seen is not None:
            _, _, _, reference, version, address, memory, changes, layout, _ = seen
            if reference() is not tensor or version != tensor._version:
                seen = None
            elif (
                changes == memory.changes  # type: ignore[union-attr]
                # It may have been put into other memory (``data``).
                and address == tensor.data_ptr()
                and layout[1] == tensor.shape
                and layout[2] == tensor.stride()
            ):
                return seen
        return self._look_up(tensor, seen)

    def look_all(self, tensors: Sequence[torch.Tensor]) -> tuple[list[Found], list[Looked]]:
        """As ``look`` of each: who made them, and all that is known."""
        if self._compiled is not None:
            return self._compiled.look_all(self._seen, tensors, self._look_up)
        looked = [self.look(tensor) for tensor in tensors]
        return [one[0] for one in looked], looked

    def changed(self, tensors: Sequence[torch.Tensor], looked: Sequence[Looked]) -> list[int]:
        """The positions of those that were written to since they were looked at."""
        if self._compiled is not None:
            return self._compiled.changed(tensors, looked, counter_of)
        counters = [
            version_of(tensor) if type(tensor) in _PLAIN else counter_of(tensor)
            for tensor in tensors
        ]
        pairs = zip(counters, looked, strict=True)
        return [position for position, (now, one) in enumerate(pairs) if now != one[2]]

    def _look_up(self, tensor: torch.Tensor, seen: Looked | None) -> Looked:
        with self._lock:
            return self._find(tensor, seen)

    def _find(self, tensor: torch.Tensor, seen: Looked | None) -> Looked:
        """As ``look``; ``seen`` is what was found of it before, if nothing wrote to it itself."""
        part = part_of(tensor)
        if part is None:
            return _NO_MEMORY._replace(counter=counter_of(tensor))
        plain, storage, version, layout = part
        key = storage._cdata
        memory = self._known.get(key)
        under = None
        if memory is None:
            origin = _first_seen(tensor)
            memory = self._learn(storage, version, origin)
            found = memory.found = _made(Found, (origin, 0, ()))
            memory.first = layout
        else:
            if not memory.is_at(version):
                memory.write(None, _unseen_write(tensor), version, 0)
                memory.others = ()
            found = memory.find(layout)
            if seen is not None and seen.memory is memory and seen.under is found:
                under, found = found, seen.found
        if plain is tensor:
            return self._keep(tensor, found, key, version, memory, layout, under)
        looked = _made(
            Looked, (found, key, counter_of(tensor), None, -1, 0, memory, -1, layout, under)
        )
        if under is not None and version_of(tensor) >= 0:
            # What a wrapper stands for is looked at each time.
            self._seen[id(tensor)] = looked._replace(
                tensor=weakref.ref(tensor), version=version_of(tensor)
            )
        return looked

    def _keep(
        self,
        tensor: torch.Tensor,
        found: Found,
        key: int,
        version: int,
        memory: Memory,
        layout: Layout,
        under: Found | None,
    ) -> Looked:
        """Know a plain tensor again by itself."""
        if version < 0:  # in inference mode nothing tells of writes
            return _made(Looked, (found, key, version, None, version, 0, memory, -1, layout, under))
        address, changes, reference = tensor.data_ptr(), memory.changes, weakref.ref(tensor)
        looked: Looked = _made(
            Looked,
            (found, key, version, reference, version, address, memory, changes, layout, under),
        )
        self._seen[id(tensor)] = looked
        return looked

    def is_new(self, tensor: torch.Tensor) -> bool:
        """Whether nothing is known of its memory."""
        plain = plain_of(tensor)
        storage = None if plain is None else storage_of(plain)
        return storage is not None and storage._cdata not in self._known

    def put_out_by_module(self, tensor: torch.Tensor, name: str, position: int) -> Found | None:
        """A module put out a tensor: mostly that of a call inside, which made it."""
        seen = self._seen.get(id(tensor))
        if seen is not None and seen[3]() is tensor and seen[4] == tensor._version:
            return self.look(tensor)[0]
        plain = plain_of(tensor)
        storage = None if plain is None else storage_of(plain)
        if plain is None or storage is None:
            return UNKNOWN
        memory = self._known.get(storage._cdata)
        if memory is not None and memory.is_at(version_of(plain)):
            return self.look(tensor)[0]
        return self.put_out(tensor, name, position, 0, (), ())

    def named(self, tensor: torch.Tensor, kind: int, name: str) -> None:
        """What is known by a name, unless a record wrote it as it is now."""
        part = part_of(tensor)
        if part is None:
            return
        _, storage, version, layout = part
        memory = self._known.get(storage._cdata)
        if memory is None:
            self._learn(storage, version).begin(layout, Origin(kind, name))
            return
        if memory.is_at(version) and (known := memory.known(layout)) is not None:
            first = known.first
            if not isinstance(first, Origin) or first.kind not in (Maker.OUTSIDE, Maker.GRADIENT):
                return
        memory.write(layout, Origin(kind, name), version, storage.nbytes())

    def written(self, tensor: torch.Tensor, origin: Origin, region: Layout | None = None) -> None:
        """A call wrote to a tensor that it was given, or to the region of it alone."""
        part = part_of(tensor)
        if part is None:
            return
        _, storage, version, layout = part
        memory = self._known.get(storage._cdata)
        if memory is None:
            memory = self._learn(storage, version, _first_seen(tensor))
        memory.write(region or layout, origin, version, storage.nbytes())

    def put_out_all(
        self,
        tensors: Sequence[torch.Tensor],
        name: str,
        marks: int,
        given: Sequence[torch.Tensor],
        written: Collection[int],
    ) -> list[Found | None]:
        """As ``put_out`` of each, by position."""
        if self._compiled is not None:
            known, most, seen = self._known, self._limit, self._seen
            return self._compiled.put_out_all(
                self, known, most, seen, tensors, name, marks, given, written
            )
        return [
            self.put_out(tensor, name, position, marks, given, written)
            for position, tensor in enumerate(tensors)
        ]

    def put_out(
        self,
        tensor: torch.Tensor,
        name: str,
        position: int,
        marks: int,
        given: Sequence[torch.Tensor],
        written: Collection[int],
    ) -> Found | None:
        """The record ``name`` put out a tensor; None if it is its own in memory of its own.

        ``given`` are the tensors that it was given, ``written`` are the storages of what it was
        given and wrote to, ``marks`` those of its result.
        """
        part = part_of(tensor)
        if part is None:
            return UNKNOWN
        plain, storage, version, layout = part
        key = storage._cdata
        memory = self._known.get(key)
        if memory is None:
            origin = _made(Origin, (_RECORD, name, _OUTPUT, position, marks))
            memory = self._learn(storage, version, origin)
            if marks & _UNINITIALISED:
                memory.unwritten = storage.nbytes()
            found = memory.found = _made(Found, (origin, marks, ()))
            memory.first = layout
            if plain is tensor:
                self._keep(tensor, found, key, version, memory, layout, None)
            return found if marks else None
        if key in written or not memory.is_at(version):
            known = memory.known(layout)
            if known is not None and known.first == (_RECORD, name, _OUTPUT, position, marks):
                return known  # the same tensor once more
            origin = Origin(_RECORD, name, _OUTPUT, position, marks | _IN_PLACE)
            memory.write(layout, origin, version, storage.nbytes())
            return Found(origin, origin.marks)
        if any(tensor is one for one in given):
            found = self.given(tensor)
            return found._replace(marks=found.marks | _SAME)
        under = memory.known(layout)
        kept = (under or memory.find(layout)).marks & _UNWRITTEN
        origin = Origin(_RECORD, name, _OUTPUT, position, kept)
        found = Found(origin, kept)
        if under is None:
            under = found
            memory.know(layout, found)
        # What lies at the same places is told apart by the tensor itself.
        if plain is tensor:
            self._keep(tensor, found, key, version, memory, layout, under)
        elif version_of(tensor) >= 0:
            own = weakref.ref(tensor), version_of(tensor), 0, memory, -1, layout, under
            self._seen[id(tensor)] = _made(Looked, (found, key, version, *own))
        return Found(origin, kept | _VIEW)

    def _learn(
        self, storage: torch.UntypedStorage, version: int, origin: Origin | None = None
    ) -> Memory:
        """A memory that nothing was known of, and who wrote all of it."""
        if len(self._known) >= self._limit:
            gone = [key for key in self._known if _Storage._expired(key)]
            for key in gone:
                del self._known[key]
                _Storage._free_weak_ref(key)
            for key in [key for key, one in self._seen.items() if one.tensor() is None]:
                del self._seen[key]
            self._limit = max(_REMEMBERED, 2 * len(self._known))
        # It is the address of the storage's record, which it keeps from being given to another.
        address: int = _Storage._weak_ref(storage)
        memory = self._known[address] = Memory(version, origin)
        return memory


if loaded.compiled is not None:
    loaded.compiled.know_makers(Origin, Found, Looked, torch.Tensor, torch.nn.Parameter)
    loaded.compiled.know_memories(Memory, NO_TENSORS, NO_WRITES, _Storage._weak_ref)


def _first_seen(tensor: torch.Tensor) -> Origin:
    node = tensor.grad_fn
    if node is not None:
        return Origin(Maker.UNRECORDED, node.name())
    if isinstance(tensor, torch.nn.Parameter):
        return Origin(Maker.PARAMETER)
    return OUTSIDE


def _unseen_write(tensor: torch.Tensor) -> Origin:
    node = tensor.grad_fn
    return UNSEEN_WRITE if node is None else UNSEEN_WRITE._replace(name=node.name())
