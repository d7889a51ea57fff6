"""Who wrote the memory of each tensor: followed by storage, layout and version counter.

A storage is known by the address of its record in torch, which a weak reference keeps from being
given to another; its bytes are freed as ever. Within it each tensor that a call put out is known
by its layout until something overlapping is written. The version counter tells of writes that no
recorded call made; those that it does not count are not seen.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any, NamedTuple, TypeAlias

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from msprobe_builder.dump.flow_layout import Maker, Mark
from msprobe_collector.record.layouts import Layout, covers, overlap
from msprobe_collector.record.origins import (
    OUTSIDE,
    UNKNOWN,
    UNSEEN_WRITE,
    Found,
    Origin,
)
from msprobe_collector.record.statistics import plain_part

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_REMEMBERED = 8192  # storages, before those that are gone are let go of
_MOST_WRITES = 256  # to parts of one memory
Where: TypeAlias = tuple[int, Layout]  # the storage of a tensor, and where in it
_NOWHERE: Where = (0, Layout(0, (), (), 0))
_UNWRITTEN = Mark.UNINITIALISED | Mark.FROM_UNINITIALISED


class Memory:
    """One storage: the tensors in it, and who wrote which part of it, the latest last."""

    __slots__ = ("others", "tensors", "unwritten", "version", "weak", "writes")

    def __init__(self, weak: Any, version: int) -> None:
        self.weak = weak
        self.version = version
        self.others: set[int] = set()  # counters of aliases such as those by ``data``
        self.tensors: dict[Layout, Found] = {}
        self.writes: list[tuple[Layout | None, Origin]] = []  # None: all of it
        self.unwritten = 0  # bytes that nobody has written, of what was given out empty

    def is_at(self, version: int) -> bool:
        """Whether nobody wrote to it unseen, as a tensor with this counter tells."""
        if version == self.version or version in self.others:
            return True
        if version < self.version:
            self.others.add(version)  # another counter, as counters do not go back
            return True
        return False

    def find(self, layout: Layout) -> Found:
        """Who made a tensor that lies there."""
        known = self.tensors.get(layout)
        if known is None:
            known = self.tensors[layout] = self._search(layout)
        return known

    def _search(self, layout: Layout) -> Found:
        found: list[Origin] = []
        marks = 0
        for place, origin in reversed(self.writes):
            if place is not None and not overlap(place, layout):
                continue
            found.append(origin)
            marks |= origin.marks & _UNWRITTEN
            if place is None or covers(place, layout):
                break
        else:
            marks |= Mark.INCOMPLETE
        if not found:
            return Found(OUTSIDE, Mark.INCOMPLETE)
        if len(found) > 1 and self.unwritten <= 0 and found[-1].marks & Mark.UNINITIALISED:
            found.pop()  # others wrote all of it since
            marks &= ~Mark.UNINITIALISED
        marks |= found[0].marks & Mark.IN_PLACE
        return Found(found[0], marks | Mark.VIEW, tuple(dict.fromkeys(found[1:])))

    def write(self, layout: Layout | None, origin: Origin, version: int, size: int) -> None:
        """Somebody wrote there, all of it where nothing is said."""
        self.version = version
        if layout is None or (layout.is_dense() and _bytes_of(layout) >= size):
            self.writes, self.tensors, self.unwritten = [(layout, origin)], {}, 0
        else:
            if self.unwritten and not any(
                place is not None and overlap(place, layout) for place, _ in self.writes[1:]
            ):
                self.unwritten -= _bytes_of(layout)
            self.tensors = {
                place: one for place, one in self.tensors.items() if not overlap(place, layout)
            }
            self.writes = [one for one in self.writes if one[0] != layout]
            if len(self.writes) >= _MOST_WRITES:
                self.writes = self.writes[-_MOST_WRITES // 2 :]
            self.writes.append((layout, origin))
        if layout is not None:
            self.tensors[layout] = Found(origin, origin.marks & (_UNWRITTEN | Mark.IN_PLACE))


class _View(NamedTuple):
    """A tensor that a call put out in memory that was there before."""

    tensor: Any  # a weak reference
    version: int
    found: Found


class Memories:
    """The memories of a step. Call inside ``unseen``."""

    def __init__(self) -> None:
        self._known: dict[int, Memory] = {}
        self._views: dict[int, _View] = {}  # by identity of the tensor

    def forget(self) -> None:
        self._known.clear()
        self._views.clear()

    def given(self, tensor: torch.Tensor) -> Found:
        """Who made a tensor that somebody has now."""
        return self.look(tensor)[0]

    def look(self, tensor: torch.Tensor) -> tuple[Found, Where, int]:
        """Who made a tensor, where it lies, and its counter of writes."""
        plain = _plain(tensor)
        storage = None if plain is None else _storage_of(plain)
        if plain is None or storage is None:
            return UNKNOWN, _NOWHERE, 0
        key = storage._cdata
        memory = self._known.get(key)
        version = version_of(plain)
        layout = layout_of(plain)
        if memory is None:
            memory = self._learn(storage, version)
            memory.writes = [(None, _first_seen(tensor))]
            found = memory.tensors[layout] = Found(memory.writes[0][1])
            return found, (key, layout), version
        if not memory.is_at(version):
            memory.write(None, _unseen_write(tensor), version, 0)
            memory.others.clear()
        view = self._views.get(id(tensor))
        if view is not None and view.version == version and view.tensor() is tensor:
            return view.found, (key, layout), version
        return memory.find(layout), (key, layout), version

    def version(self, tensor: torch.Tensor) -> int:
        """The counter of writes to a tensor now; 0 where it has no memory."""
        plain = _plain(tensor)
        return 0 if plain is None or _storage_of(plain) is None else version_of(plain)

    def is_new(self, tensor: torch.Tensor) -> bool:
        """Whether nothing is known of its memory."""
        plain = _plain(tensor)
        storage = None if plain is None else _storage_of(plain)
        return storage is not None and storage._cdata not in self._known

    def put_out_by_module(self, tensor: torch.Tensor, name: str, position: int) -> Found | None:
        """A module put out a tensor: mostly that of a call inside, which made it."""
        plain = _plain(tensor)
        storage = None if plain is None else _storage_of(plain)
        if plain is None or storage is None:
            return UNKNOWN
        memory = self._known.get(storage._cdata)
        if memory is not None and memory.is_at(version_of(plain)):
            return memory.find(layout_of(plain))
        return self.put_out(tensor, name, position, 0, False, ())

    def named(self, tensor: torch.Tensor, kind: int, name: str) -> None:
        """What is known by a name, unless a record wrote it as it is now."""
        plain = _plain(tensor)
        storage = None if plain is None else _storage_of(plain)
        if plain is None or storage is None:
            return
        memory = self._known.get(storage._cdata)
        version = version_of(plain)
        layout = layout_of(plain)
        if memory is None:
            memory = self._learn(storage, version)
        elif memory.is_at(version) and layout in memory.tensors:
            known = memory.tensors[layout].first
            if not isinstance(known, Origin) or known.kind not in (Maker.OUTSIDE, Maker.GRADIENT):
                return
        memory.write(layout, Origin(kind, name), version, storage.nbytes())

    def written(self, tensor: torch.Tensor, origin: Origin, region: Layout | None = None) -> None:
        """A call wrote to a tensor that it was given, or to the region of it alone."""
        plain = _plain(tensor)
        storage = None if plain is None else _storage_of(plain)
        if plain is None or storage is None:
            return
        memory = self._known.get(storage._cdata)
        version = version_of(plain)
        if memory is None:
            memory = self._learn(storage, version)
            memory.writes = [(None, _first_seen(tensor))]
        memory.write(region or layout_of(plain), origin, version, storage.nbytes())

    def put_out(
        self,
        tensor: torch.Tensor,
        name: str,
        position: int,
        marks: int,
        is_given: bool,
        written: Collection[int],
    ) -> Found | None:
        """The record ``name`` put out a tensor; None if it is its own in memory of its own.

        ``is_given`` says that it was given this tensor, ``written`` are the storages of what it was
        given and wrote to, ``marks`` those of its result.
        """
        plain = _plain(tensor)
        storage = None if plain is None else _storage_of(plain)
        if plain is None or storage is None:
            return UNKNOWN
        key = storage._cdata
        memory = self._known.get(key)
        version, layout = version_of(plain), layout_of(plain)
        if memory is None:
            memory = self._learn(storage, version)
            origin = Origin(Maker.RECORD, name, position=position, marks=marks)
            memory.writes = [(None, origin)]
            if marks & Mark.UNINITIALISED:
                memory.unwritten = storage.nbytes()
            memory.tensors[layout] = Found(origin, marks)
            return Found(origin, marks) if marks else None
        if key in written or not memory.is_at(version):
            known = memory.tensors.get(layout)
            if known is not None and known.first == (Maker.RECORD, name, 1, position, marks):
                return known  # the same tensor once more
            origin = Origin(Maker.RECORD, name, position=position, marks=marks | Mark.IN_PLACE)
            memory.write(layout, origin, version, storage.nbytes())
            return Found(origin, origin.marks)
        if is_given:
            found = self.given(tensor)
            return found._replace(marks=found.marks | Mark.SAME)
        is_first = layout not in memory.tensors
        kept = memory.find(layout).marks & _UNWRITTEN
        origin = Origin(Maker.RECORD, name, position=position, marks=kept)
        found = Found(origin, kept)
        if is_first:
            memory.tensors[layout] = found
        # What lies at the same places is told apart by the tensor itself.
        self._views[id(tensor)] = _View(weakref.ref(tensor), version, found)
        return Found(origin, kept | Mark.VIEW)

    def _learn(self, storage: torch.UntypedStorage, version: int) -> Memory:
        if len(self._known) >= _REMEMBERED and len(self._known) % 1024 == 0:
            self._known = {
                key: memory for key, memory in self._known.items() if not memory.weak.expired()
            }
        weak = StorageWeakRef(storage)
        memory = self._known[weak.cdata] = Memory(weak, version)
        return memory


def layout_of(tensor: torch.Tensor) -> Layout:
    offset: Any = tensor.storage_offset()
    return Layout(offset, tensor.shape, tensor.stride(), tensor.itemsize)


def version_of(tensor: torch.Tensor) -> int:
    """The counter of writes; -1 in inference mode, which has none."""
    try:
        return tensor._version
    except RuntimeError:
        return -1


def _plain(tensor: torch.Tensor) -> torch.Tensor | None:
    if type(tensor) in _PLAIN:
        return tensor
    waiting = getattr(tensor, "elem", None)  # of a collective: its memory is there already
    if isinstance(waiting, torch.Tensor):
        return _plain(waiting)
    return plain_part(tensor)


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        return tensor.untyped_storage()
    except RuntimeError:
        return None


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


def _bytes_of(layout: Layout) -> int:
    size = layout.itemsize
    for length in layout.shape:
        size *= length
    return size
