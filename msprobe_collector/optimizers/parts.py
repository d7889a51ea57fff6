"""Which elements of which parameter an optimizer changes, whatever it keeps them in."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

_SPLIT = ("_hp_mapping", "ds_id", "main_param_sharded")  # DeepSpeed's, and Megatron's


@dataclass(frozen=True, eq=False)
class Part:
    """What a tensor that an optimizer changes holds of one parameter."""

    name: str
    parameter: nn.Parameter | None  # of the model, where it is known
    changed: torch.Tensor
    start: int | None = None  # in ``changed``, laid out in one row; None for all of it
    count: int = 0

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Its elements of a tensor laid out like ``changed``; a shard stays wrapped."""
        if self.start is None:
            return tensor
        return tensor.reshape(-1)[self.start : self.start + self.count]


def parts_of(
    optimizer: torch.optim.Optimizer,
    parameters: Mapping[nn.Parameter, str],
    numbers: Sequence[int],
) -> list[Part]:
    """The parts in the order of the optimizer's groups, which have these numbers.

    A tensor that belongs to no parameter of the model has the number of its group and its place
    in it, unless it is clear what the other tensors hold.
    """
    changed = {
        tensor: f"group{number}.{place}"
        for number, group in zip(numbers, optimizer.param_groups, strict=True)
        for place, tensor in enumerate(group["params"])
    }
    if all(one in parameters for one in changed):
        return [Part(parameters[one], one, one) for one in changed]
    found: dict[torch.Tensor, list[Part]] = {one: [] for one in changed}
    for part in _known(changed, parameters):
        found[part.changed].append(part)
    if not any(found.values()) and not is_split(parameters):
        return [Part(name, None, tensor) for tensor, name in changed.items()]
    return [part for parts in found.values() for part in parts]


def is_split(parameters: Iterable[nn.Parameter]) -> bool:
    """Whether an optimizer has said of a parameter that it cuts it: other tensors only pad."""
    return any(hasattr(one, name) for one in parameters for name in _SPLIT)


def _known(
    changed: Mapping[torch.Tensor, str], parameters: Mapping[nn.Parameter, str]
) -> Iterator[Part]:
    rows, own = _Memory(changed), _Memory(parameters)
    unknown = {one for one in changed if one not in parameters}
    for one in changed:
        if one in parameters:
            yield Part(parameters[one], one, one)  # type: ignore[index, arg-type]
    for parameter, name in parameters.items():
        main = getattr(parameter, "main_param", None)  # Megatron's copy in float32
        if isinstance(main, torch.Tensor) and main in unknown:
            unknown.discard(main)
            yield Part(name, parameter, main)
        fragment = getattr(getattr(parameter, "_hp_mapping", None), "hp_fragment", None)
        if isinstance(fragment, torch.Tensor):  # DeepSpeed, ZeRO 1 and 2, bfloat16
            row, start = rows.around(fragment)
            if row is not None and row in unknown:
                yield Part(name, parameter, row, start, fragment.numel())
        if hasattr(parameter, "ds_id"):
            yield from _partition(name, parameter, changed)
    for tensor in changed:
        whole, _ = own.around(tensor) if tensor in unknown else (None, 0)
        if whole is not None:  # a view of it, as Megatron's distributed optimizer has
            yield Part(parameters[whole], whole, tensor)  # type: ignore[index, arg-type]


def _partition(name: str, parameter: Any, changed: Mapping[torch.Tensor, str]) -> Iterator[Part]:
    """DeepSpeed, ZeRO 3: the optimizer knows where this rank's part lies."""
    optimizer: Any = getattr(parameter, "_z3_optimizer", None)
    place = getattr(optimizer, "grad_position", {}).get(parameter.ds_id)
    if place is None:
        return
    row = optimizer.fp32_partitioned_groups_flat[place[0]]
    count = _own_count(parameter, place[2])
    if row in changed and count:
        yield Part(name, parameter, row, place[1], count)


def _own_count(parameter: Any, length: int) -> int:
    """How many of the elements of a part are not padding: parts of all ranks are of one length."""
    before = dist.get_rank(parameter.ds_process_group) * length
    return min(max(parameter.ds_numel - before, 0), length)


class _Memory:
    """Finds the tensor in whose memory another lies."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        plain = [
            (one.data_ptr(), one)
            for one in tensors
            if type(one) in (torch.Tensor, nn.Parameter)
            and one.layout is torch.strided
            and one.numel()
            and one.is_contiguous()
        ]
        self._sorted = sorted(plain, key=lambda pair: pair[0])
        self._starts = [start for start, _ in self._sorted]

    def around(self, tensor: torch.Tensor) -> tuple[torch.Tensor | None, int]:
        """It, and the element at which the other begins; None where there is none."""
        if type(tensor) not in (torch.Tensor, nn.Parameter) or not tensor.numel():
            return None, 0
        if tensor.layout is not torch.strided:
            return None, 0
        place = bisect_right(self._starts, tensor.data_ptr()) - 1
        if place < 0:
            return None, 0
        start, whole = self._sorted[place]
        same = whole.device == tensor.device and whole.dtype is tensor.dtype
        begin, rest = divmod(tensor.data_ptr() - start, whole.itemsize)
        fits = not rest and tensor.is_contiguous() and begin + tensor.numel() <= whole.numel()
        return (whole, begin) if same and fits and start else (None, 0)


def weight_of(parameter: nn.Parameter) -> torch.Tensor:
    """The parameter, or of ZeRO 3 this rank's part of it."""
    part = getattr(parameter, "ds_tensor", None)
    if not isinstance(part, torch.Tensor):
        return parameter
    return part.reshape(-1)[: _own_count(parameter, part.numel())]


def gradients(
    parts: Sequence[Part], parameters: Mapping[nn.Parameter, str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The gradients that an optimizer is about to use, by the names of parts.

    Where it changes copies, those of the copies; where they have none, the model's own.
    """
    names = set()
    for part in parts:
        gradient = gradient_of(part.changed)
        if gradient is None and part.start is None and part.parameter is not None:
            gradient = None if is_split([part.parameter]) else gradient_of(part.parameter)
        if gradient is not None:
            names.add(part.name)
            yield part.name, part.of(gradient)
    if parts and all(part.parameter is None for part in parts):
        for parameter, name in parameters.items():
            gradient = None if name in names else gradient_of(parameter)
            if gradient is not None:
                yield name, gradient


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """As it is, a shard still wrapped; Megatron accumulates in ``main_grad``."""
    main = getattr(tensor, "main_grad", None)
    return main if isinstance(main, torch.Tensor) else tensor.grad
