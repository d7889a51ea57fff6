"""Call arguments as the records of dump.json."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch

from msprobe_collector.record.framework import Item
from msprobe_collector.record.known import Known
from msprobe_collector.record.nested import NestedDescriber, collect, extend
from msprobe_collector.record.plain_values import (
    describe_plain,
    group_id,
    group_ranks,
    is_p2p,
)
from msprobe_collector.record.statistics import (
    Measured,
    Row,
    checksum,
    fetch,
    is_in_memory,
    local_part,
    measure,
    plain_part,
)
from msprobe_collector.unseen import unseen
from msprobe_collector.write.records import Leaf
from msprobe_collector.write.tensor_files import TensorFiles


class _TypeNames(dict[torch.dtype, str]):
    def __missing__(self, dtype: torch.dtype) -> str:
        return self.setdefault(dtype, str(dtype))


_TYPE_NAMES = _TypeNames()
_NOTHING = (None, None, None, None)
_UNMEASURED = Measured(_NOTHING, None)


class Items(NestedDescriber):
    """Describes values; a tensor that did not change since is not measured again."""

    kind = torch.Tensor
    module_kind = torch.nn.Module

    def __init__(self, with_checksum: bool, files: TensorFiles, measures: bool = True) -> None:
        self._with_checksum = with_checksum and measures
        # Whether a tensor is what was saved, to the last bit, only a checksum tells.
        self._identifies = self._with_checksum or files.one_file
        self._stored: dict[int, tuple[Item, str]] = {}  # records and the names they are saved as
        self._measures = measures
        self.estimate = False  # count what would be saved instead of saving it
        self.described_bytes = 0
        self._files = files
        self._known = Known(self._identifies)
        self._waiting: list[tuple[Item, Row]] = []

    # -- what may have changed unnoticed ------------------------------------------------------

    def expose(self, tensor: torch.Tensor) -> None:
        """Whatever shares this tensor's memory can be written to by others from now on."""
        self._known.expose(tensor)

    def forget(self) -> None:
        """Something may have written to tensors behind the version counter."""
        self._known.forget()

    def forget_step(self) -> None:
        self._known.clear()
        self._stored.clear()

    def tensor(self, tensor: torch.Tensor, path: str | None = None, born: bool = False) -> Item:
        """The record of one tensor; call inside :func:`unseen`."""
        item = self._remembered(tensor, born) if self._measures else _outline(tensor)
        if self.estimate:
            self._count(tensor)
        elif path is not None:
            item = self.saved(tensor, item, path)
        return item

    def _count(self, tensor: torch.Tensor) -> None:
        plain = local_part(tensor)
        if plain is not None:
            self.described_bytes += plain.numel() * plain.element_size()

    def _remembered(self, tensor: torch.Tensor, born: bool) -> Item:
        known = self._known
        found = known.item_of(tensor)
        if found is not None:
            return found
        plain = plain_part(tensor)
        if plain is None:
            return self._make(tensor, None, _UNMEASURED, "")
        memory = plain.untyped_storage()
        size = memory.nbytes()
        if not is_in_memory(plain, size):
            return self._make(tensor, None, _UNMEASURED, "")
        before = known.numbers_at(plain, memory)
        if before is not None:
            item = before.item
            if not before.shows(tensor, plain):
                item = self._make(tensor, plain, before.measured, before.digest)
            known.remember(tensor, plain, before, item)
            return item
        measured = measure(plain)
        digest = ""
        if self._with_checksum or (self._identifies and plain.is_cpu):
            digest = checksum(plain)
        item = self._make(tensor, plain, measured, digest)
        numbers = known.numbers(plain, memory, measured, digest, item, born)
        if numbers is not None:
            known.remember(tensor, plain, numbers, item)
        return item

    def _make(
        self,
        tensor: torch.Tensor,
        plain: torch.Tensor | None,
        measured: Measured | Row,
        digest: str,
    ) -> Item:
        """A new record of what was measured."""
        is_waiting = type(measured) is Row
        high, low, mean, norm = _NOTHING if is_waiting else measured.values  # type: ignore[union-attr]
        item: Item = Leaf(
            type=_type_name(tensor),
            dtype=_TYPE_NAMES[tensor.dtype],
            shape=_shape(tensor),
            Max=high,
            Min=low,
            Mean=mean,
            Norm=norm,
            requires_grad=tensor.requires_grad,
        )
        mesh = None if plain is tensor else getattr(tensor, "device_mesh", None)
        if mesh is not None:
            sharded: Any = tensor
            item["device_mesh"] = mesh.mesh.tolist()
            item["placements"] = [str(placement) for placement in sharded.placements]
        if self._with_checksum:
            item["md5"] = digest
        if isinstance(measured, Row):
            self._waiting.append((item, measured))
        return item

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
                fetch(waiting)

    def single(self, value: Any, path: str | None, leaves: list[Any]) -> Item | None:
        if isinstance(value, torch.Size):
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
    collect(Items.kind, Items.module_kind, value, found)
