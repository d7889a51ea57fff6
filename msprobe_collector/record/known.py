"""Which numbers in memory have been measured, and whether they still are what they were.

The version counter tells of most writes, never of all: fused optimizers, loss scalers, aliases by
``numpy()`` or ``data``, operators that do not declare it. On the host a sum decides whether a
tensor is what it was: of its numbers while only calls that were seen know its memory, of their
bits where others may write to it, too. On an accelerator nobody can look without waiting, so only
tensors that were born under our eyes are trusted, and only until something happens that may write
unseen.

Several tensors may show the same numbers: a view in another shape, ``detach()``, the gradient that
a pass leaves beside a parameter. On the host they are measured once.
"""

from __future__ import annotations

import weakref
from typing import Any, TypeAlias

import torch

from msprobe_collector.record.framework import Item
from msprobe_collector.record.statistics import (
    Measured,
    Row,
    bits_of,
    checksum,
    is_unchanged,
    plain_part,
)

_REMEMBERED = 8192
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


class Numbers:
    """What was found when a piece of memory was measured."""

    __slots__ = (
        "address",
        "bits",
        "digest",
        "epoch",
        "item",
        "measured",
        "size",
        "storage",
        "strides",
        "total",
        "version",
    )

    def __init__(
        self,
        plain: torch.Tensor,
        memory: Any,
        measured: Measured | Row,
        digest: str,
        item: Item,
        bits: int | bytes | None,
        epoch: int,
    ) -> None:
        self.storage = weakref.ref(memory)
        self.version = plain._version
        self.address = plain.data_ptr()
        self.size = memory.nbytes()  # it may be shrunk and lie where it lay
        self.strides = plain.stride()
        self.measured = measured
        self.total = measured.total if type(measured) is Measured else None  # to be checked
        self.bits = bits  # instead of the sum: see bits_of
        self.digest = digest  # instead of both where it is known
        self.epoch = epoch
        self.item = item

    def shows(self, tensor: torch.Tensor, plain: torch.Tensor) -> bool:
        """Whether the record that was made first is that of ``tensor``, too."""
        return (
            plain is tensor
            and type(tensor) in _PLAIN_TYPES
            and self.item["type"] == "torch.Tensor"
            and self.strides == tensor.stride()
            and self.item["shape"] == list(tensor.shape)
            and self.item["requires_grad"] is tensor.requires_grad
        )


# A tensor that has a record: weakly, its numbers, the record, whether nothing wraps the numbers.
_Seen: TypeAlias = tuple[Any, Numbers, Item, bool]


class Known:
    """The numbers of one step. Where tensors are saved or have checksums, it ``identifies`` them
    to the last bit.
    """

    def __init__(self, identifies: bool) -> None:
        self._identifies = identifies
        self._seen: dict[int, _Seen] = {}
        self._numbers: dict[tuple[int, int, torch.dtype], Numbers] = {}
        self._foreign: set[int] = set()  # storages that others may hold, too
        self._epoch = 0

    def expose(self, tensor: torch.Tensor) -> None:
        """Whatever shares this tensor's memory can be written to by others from now on."""
        if tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_nested:
            self._seen.pop(id(tensor), None)
            self._foreign.add(tensor.untyped_storage()._cdata)

    def forget(self) -> None:
        """Something may have written to tensors behind the version counter."""
        self._epoch += 1

    def clear(self) -> None:
        """A step is over."""
        self._seen.clear()
        self._numbers.clear()
        self._foreign.clear()

    def item_of(self, tensor: torch.Tensor) -> Item | None:
        """The record of a tensor that has not changed since it was made."""
        seen = self._seen.get(id(tensor))
        if seen is None:
            return None
        reference, numbers, item, is_plain = seen
        if reference() is not tensor or item["requires_grad"] is not tensor.requires_grad:
            return None
        plain = tensor if is_plain else plain_part(tensor)
        if plain is None or not self._still_holds(numbers, plain, plain.untyped_storage()):
            return None
        return item

    def numbers_at(self, plain: torch.Tensor, memory: Any) -> Numbers | None:
        """Of a tensor on the host: what is known of the numbers it shows."""
        if not plain.is_cpu:
            return None
        try:
            found = self._numbers.get((plain.data_ptr(), plain.numel(), plain.dtype))
            if found is None or found.storage() is not memory or not _is_dense(plain):
                return None
            return found if self._still_holds(found, plain, memory) else None
        except (RuntimeError, NotImplementedError):
            return None  # inference mode, or no memory

    def _still_holds(self, numbers: Numbers, plain: torch.Tensor, memory: Any) -> bool:
        if (
            numbers.version != plain._version
            or numbers.address != plain.data_ptr()
            or numbers.size != memory.nbytes()
        ):
            return False
        if not plain.is_cpu:
            return numbers.epoch == self._epoch
        if numbers.digest:
            return numbers.digest == checksum(plain)
        if numbers.bits is not None:
            return numbers.bits == bits_of(plain)
        if memory._cdata in self._foreign:
            return False  # it has become so since
        return is_unchanged(plain, numbers.total)

    def numbers(
        self,
        plain: torch.Tensor,
        memory: Any,
        measured: Measured | Row,
        digest: str,
        item: Item,
        born: bool,
    ) -> Numbers | None:
        """What was measured, None if nothing would tell that it has changed."""
        try:
            bits = None
            storage = memory._cdata
            if not born:
                self._foreign.add(storage)
            is_foreign = storage in self._foreign
            if plain.is_cpu:
                is_summed = type(measured) is Measured and measured.total is not None
                if not self._identifies and (is_foreign or not is_summed):
                    bits = bits_of(plain)
                    if bits is None:
                        return None
                elif not is_summed and not digest:
                    return None
            elif is_foreign:
                return None
            numbers = Numbers(plain, memory, measured, digest, item, bits, self._epoch)
            if plain.is_cpu and _is_dense(plain):
                self._numbers[numbers.address, plain.numel(), plain.dtype] = numbers
        except (RuntimeError, NotImplementedError):
            return None  # inference mode, or no memory
        return numbers

    def remember(
        self, tensor: torch.Tensor, plain: torch.Tensor, numbers: Numbers, item: Item
    ) -> None:
        """The record of ``tensor``, whose numbers these are."""
        if len(self._seen) >= _REMEMBERED:
            self._seen = {
                key: seen for key, seen in list(self._seen.items()) if seen[0]() is not None
            }
        if len(self._numbers) >= _REMEMBERED:
            self._numbers = {
                key: kept for key, kept in list(self._numbers.items()) if kept.storage() is not None
            }
        self._seen[id(tensor)] = (weakref.ref(tensor), numbers, item, plain is tensor)


def _is_dense(plain: torch.Tensor) -> bool:
    """Whether the numbers lie side by side, in whatever order."""
    if plain.is_contiguous():
        return True
    expected = 1
    for step, length in sorted(zip(plain.stride(), plain.shape, strict=True)):
        if length != 1:
            if step != expected:
                return False
            expected *= length
    return True
