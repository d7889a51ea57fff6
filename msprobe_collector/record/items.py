"""Call arguments as the records of dump.json."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch

from msprobe_builder.sketch.layout import NO_ROW
from msprobe_collector.config.narrowing import Slice, positions
from msprobe_collector.config.settings import MD5, SKETCH, XOR
from msprobe_collector.one_pass.passes import fingerprint_of, pass_over
from msprobe_collector.record.checksums import checksum, words_joined
from msprobe_collector.record.device_rows import DeviceRows, Row
from msprobe_collector.record.framework import Item
from msprobe_collector.record.nested import NestedDescriber, collect, extend
from msprobe_collector.record.parts import Opener
from msprobe_collector.record.plain_values import (
    describe_plain,
    group_id,
    group_ranks,
    is_p2p,
)
from msprobe_collector.record.sketches import Sketches
from msprobe_collector.record.statistics import (
    FIELDS,
    SHORT,
    Measured,
    bits_of,
    is_in_memory,
    is_unchanged,
    local_part,
    measure,
    memory_of,
    plain_part,
)
from msprobe_collector.record.unread import means_nothing
from msprobe_collector.record.watcher import Watcher
from msprobe_collector.unseen import unseen
from msprobe_collector.write.records import Leaf
from msprobe_collector.write.tensor_files import TensorFiles


class _TypeNames(dict[torch.dtype, str]):
    def __missing__(self, dtype: torch.dtype) -> str:
        return self.setdefault(dtype, str(dtype))


_TYPE_NAMES = _TypeNames()
_REMEMBERED = 8192
_NO_NUMBERS = (None, None, None, None)
_UNMEASURED = Measured(_NO_NUMBERS, None)


class _Known(NamedTuple):
    """What was found when a tensor was measured; valid while nothing has written to it."""

    tensor: Any  # a weak reference
    version: int
    address: int
    size: int  # of its storage, which may have been shrunk and lie where it lay
    total: float | None  # the sum of its numbers on the host, to be checked
    bits: int | bytes | None  # instead of the sum, also of what is short: see bits_of
    digest: str  # instead of both where it is known
    fingerprint: int | None  # instead of all where the compiled module is
    item: Item
    is_plain: bool  # no wrapper around the numbers


class _Made(NamedTuple):
    """A new record, and what tells its numbers from others: see :class:`_Known`."""

    item: Item
    total: float | None
    digest: str
    fingerprint: int | None


class Items(NestedDescriber):
    """Describes values; a tensor that did not change since is not measured again.

    The version counter tells of most writes, never of all: fused optimizers, loss scalers,
    aliases by ``numpy()`` or ``data``, operators that do not declare it. On the host a sum decides
    whether a tensor is what it was: of its numbers while only calls that were seen know its
    memory, of their bits where others may write to it, too. On an accelerator nobody can look
    without waiting, and kernels of other people write unseen, so there each is measured anew.
    """

    opener = Opener(torch.Tensor, torch.nn.Module)

    def __init__(self, summary_mode: str, files: TensorFiles, measures: bool = True) -> None:
        self._with_checksum = measures and summary_mode == MD5
        self._with_words = measures and summary_mode == XOR
        # Whether a tensor is what was saved, to the last bit, only a checksum tells.
        self._identifies = self._with_checksum or self._with_words or files.one_file
        self._stored: dict[int, tuple[Item, str]] = {}  # records and the names they are saved as
        self._measures = measures
        self.sketches = Sketches() if measures and summary_mode == SKETCH else None
        self.watcher: Watcher | None = None  # holds what would be saved
        self.estimate = False  # count what would be saved instead of saving it
        self.described_bytes = 0
        self.slices: Sequence[Slice] = ()
        self._files = files
        self._known: dict[int, _Known] = {}
        self._beside: dict[int, tuple[_Known, tuple[int, ...]]] = {}  # gradients, by address
        self._foreign: set[int] = set()  # storages that others may hold, too
        self._waiting: list[tuple[Item, Row]] = []
        self._there = DeviceRows()

    # -- what may have changed unnoticed ------------------------------------------------------

    def expose(self, tensor: torch.Tensor) -> None:
        """Whatever shares this tensor's memory can be written to by others from now on."""
        if tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_nested:
            self._known.pop(id(tensor), None)
            self._foreign.add(tensor.untyped_storage()._cdata)

    def let_go(self, tensor: torch.Tensor) -> None:
        """Nothing of ours refers to this tensor any more."""
        self._known.pop(id(tensor), None)

    def forget_step(self) -> None:
        self._known.clear()
        self._beside.clear()
        self._foreign.clear()
        self._stored.clear()

    def tensor(self, tensor: torch.Tensor, path: str | None = None, born: bool = False) -> Item:
        """The record of one tensor; call inside :func:`unseen`."""
        if type(tensor) is torch.Tensor and means_nothing(tensor, self.within, born):
            return self._make(tensor, None).item if self._measures else _outline(tensor)
        whole = tensor
        if self.slices:
            tensor = _cut(tensor, self.slices)
        if tensor is whole:
            item = self._remembered(tensor, born) if self._measures else _outline(tensor)
        else:
            item = self._make(tensor, tensor).item if self._measures else _outline(tensor)
            item.update(type=_type_name(whole), requires_grad=whole.requires_grad)
        if self.watcher is not None and path is not None:
            self.watcher.hold(path, tensor, item)
        elif self.estimate:
            self._count(tensor, item)
            if path is not None:
                item = Leaf(item, data_name=f"{path}.pt")  # for the size of its record
        elif path is not None:
            item = self.saved(tensor, item, path)
        return item

    def _count(self, tensor: torch.Tensor, item: Item) -> None:
        """As :meth:`saved`: what is the same on the host is there once."""
        plain = local_part(tensor)
        if plain is None or (plain.is_cpu and id(item) in self._stored):
            return
        self._stored[id(item)] = (item, "")
        self.described_bytes += plain.numel() * plain.element_size()

    def _remembered(self, tensor: torch.Tensor, born: bool) -> Item:
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            plain = tensor if known.is_plain else plain_part(tensor)
            if plain is not None and self._still_holds(known, tensor, plain):
                return known.item
        else:
            plain = plain_part(tensor)
        memory = None if plain is None else memory_of(plain)
        if plain is None or memory is None:
            return self._make(tensor, None).item
        size = memory.nbytes()
        if not is_in_memory(plain, size):
            return self._make(tensor, None).item
        made = None if born or not self._beside else self._as_beside(tensor, plain)
        item, total, digest, fingerprint = made or self._make(tensor, plain)
        if not plain.is_cpu:
            return item
        bits = None
        try:
            storage = memory._cdata
            if not born:
                self._foreign.add(storage)
            is_foreign = storage in self._foreign
            if fingerprint is None:
                if not self._identifies and (is_foreign or total is None or size <= SHORT):
                    bits = bits_of(plain)
                    if bits is None:
                        return item
                elif total is None and not digest:
                    return item
            version = plain._version
            address = plain.data_ptr()
        except (RuntimeError, NotImplementedError):
            return item  # inference mode, or no memory
        if len(self._known) >= _REMEMBERED:
            self._known = {
                key: entry for key, entry in list(self._known.items()) if entry.tensor() is not None
            }
        is_plain = plain is tensor
        self._known[id(tensor)] = _Known(
            weakref.ref(tensor),
            version,
            address,
            size,
            total,
            bits,
            digest,
            fingerprint,
            item,
            is_plain,
        )
        return item

    def keep_beside(self, gradient: torch.Tensor) -> None:
        """It will lie beside its parameter as another tensor in the same memory."""
        known = self._known.get(id(gradient))
        if known is not None and known.is_plain and known.fingerprint is not None:
            self._beside[known.address] = known, gradient.stride()

    def _as_beside(self, tensor: torch.Tensor, plain: torch.Tensor) -> _Made | None:
        """What is known of a gradient that an optimizer is given, if it is as it came."""
        known, stride = self._beside.get(plain.data_ptr(), (None, ()))
        if known is None or plain is not tensor or stride != plain.stride():
            return None
        item = known.item
        if (
            item["shape"] != list(plain.shape)
            or item["dtype"] != _TYPE_NAMES[plain.dtype]
            or item["requires_grad"] != plain.requires_grad
            or known.fingerprint != fingerprint_of(plain)
        ):
            return None
        return _Made(item, None, known.digest, known.fingerprint)

    def _still_holds(self, known: _Known, tensor: torch.Tensor, plain: torch.Tensor) -> bool:
        _, version, address, size, total, bits, digest, fingerprint, item, _ = known
        memory = plain.untyped_storage()
        if (
            version != plain._version
            or address != plain.data_ptr()
            or size != memory.nbytes()
            or item["requires_grad"] != tensor.requires_grad
        ):
            return False
        if fingerprint is not None:
            return fingerprint == fingerprint_of(plain)
        if digest:
            return digest == checksum(plain)
        if bits is not None:
            return bits == bits_of(plain)
        if memory._cdata in self._foreign:
            return False  # it has become so since
        return is_unchanged(plain, total)

    def _make(self, tensor: torch.Tensor, plain: torch.Tensor | None) -> _Made:
        """A new record, and what tells the numbers from others."""
        measured: Measured | Row = _UNMEASURED
        digest = ""
        passed = None
        sketches = self.sketches
        if plain is not None:
            is_here = plain.is_cpu
            passed = pass_over(plain, sketches is not None) if is_here else None
            if passed is None:
                measured = measure(plain, self._there)
            if self._with_checksum or (self._identifies and is_here and passed is None):
                digest = checksum(plain)
        if passed is not None:
            numbers = passed[0]
        else:
            numbers = _NO_NUMBERS if isinstance(measured, Row) else measured.values
        item = Leaf(
            type=_type_name(tensor),
            dtype=_TYPE_NAMES[tensor.dtype],
            shape=_shape(tensor),
            Max=numbers[0],
            Min=numbers[1],
            Mean=numbers[2],
            Norm=numbers[3],
            requires_grad=tensor.requires_grad,
        )
        mesh = None if plain is tensor else getattr(tensor, "device_mesh", None)
        if mesh is not None:
            sharded: Any = tensor
            item["device_mesh"] = mesh.mesh.tolist()
            item["placements"] = [str(placement) for placement in sharded.placements]
        if self._with_checksum:
            item["md5"] = digest
        elif self._with_words:
            item["md5"] = "" if plain is None else words_joined(plain)
        if passed is not None:
            _, fingerprint, row = passed
            if sketches is not None and row is not None:
                item.row = sketches.append(row)
            return _Made(item, None, digest, fingerprint)
        is_there = isinstance(measured, Row)
        if sketches is not None and plain is not None:
            item.row = sketches.add(plain, None if is_there else numbers)
        if isinstance(measured, Row):
            self._waiting.append((item, measured))
            return _Made(item, None, digest, None)
        return _Made(item, measured.total, digest, None)

    def saved(self, tensor: torch.Tensor, item: Item, path: str) -> Item:
        with unseen():
            plain = local_part(tensor)
            if plain is None:
                return item
            before = self._stored.get(id(item))
            if before is not None and plain.is_cpu:
                name = self._files.save_again(path, before[1])
            else:
                name = self._files.save(plain, path)
                if self._files.one_file and plain.is_cpu:
                    self._stored[id(item)] = (item, name)
        saved = Leaf(item, data_name=name)
        saved.row = getattr(item, "row", NO_ROW)
        self._waiting.extend((saved, row) for held, row in self._waiting if held is item)
        return saved

    @property
    def is_settled(self) -> bool:
        """Whether no record waits for its statistics."""
        return not self._waiting

    def settle(self) -> None:
        """Fill in the statistics that are still on an accelerator."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            with unseen():
                self._there.fetch(waiting, FIELDS)

    def single(self, value: Any, path: str | None, leaves: list[Any]) -> Item | None:
        if type(value) is torch.Size:
            return {"type": "torch.Size", "value": list(value)}
        if is_p2p(value):
            return self._describe_p2p(value, path, leaves)
        return describe_plain(value)

    def _describe_p2p(self, value: Any, path: str | None, leaves: list[torch.Tensor]) -> Item:
        return {
            "class_type": "torch.distributed.P2POp",
            "tensor": self.describe(value.tensor, extend(path, "tensor"), leaves),
            "op": value.op.__name__,
            "peer": value.peer,
            "tag": value.tag,
            "group_id": group_id(group_ranks(value.group)),
        }


def _cut(tensor: torch.Tensor, slices: Sequence[Slice]) -> torch.Tensor:
    """The part of a tensor that is asked for; all of one whose numbers lie elsewhere."""
    if plain_part(tensor) is not tensor or tensor.layout is not torch.strided or tensor.is_nested:
        return tensor
    taken = positions(tensor.shape, slices)
    return tensor if taken is None else tensor.detach()[taken]


def _outline(tensor: torch.Tensor) -> Item:
    """What is known of a tensor without reading it."""
    return Leaf(
        type=_type_name(tensor),
        dtype=_TYPE_NAMES[tensor.dtype],
        shape=_shape(tensor),
        requires_grad=tensor.requires_grad,
    )


def _shape(tensor: torch.Tensor) -> list[int]:
    """The length of each dimension, -1 where the rows differ in length."""
    if not tensor.is_nested:
        return list(tensor.shape)
    with suppress(RuntimeError):  # the older layout knows its first dimension only
        return [int(length) if type(length) is int else -1 for length in tensor.shape]
    return [tensor.size(0)] + [-1] * (tensor.dim() - 1)


def _type_name(tensor: torch.Tensor) -> str:
    kind = type(tensor)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return "torch.Tensor"
    if isinstance(tensor, torch.nn.Parameter) and not hasattr(tensor, "device_mesh"):
        return "torch.Tensor"
    return f"{kind.__module__}.{kind.__qualname__}"


def collect_tensors(value: Any, found: list[torch.Tensor]) -> None:
    """The tensors in nested arguments, in the order in which they would be described."""
    collect(Items.opener, value, found)
