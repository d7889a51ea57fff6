"""Numbers the calls of optimizers: a step of the training is a call, or several."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from msprobe_collector.optimizers.parts import Part, parts_of


@dataclass(frozen=True)
class Call:
    """One call of an optimizer that changes followed parameters, or copies of them."""

    step: int  # from 0 on
    parts: Sequence[Part]
    groups: Sequence[int]  # the number of each group of parameters


@dataclass
class _Count:
    step: int = -1
    changed: set[int] = field(default_factory=set)  # in this step, by identity
    groups: list[dict[str, Any]] = field(default_factory=list)
    first_group: int = 0  # their numbers begin after those of optimizers seen before
    has_parameters: bool = False


class Calls:
    """Counts for each optimizer.

    A call that changes nothing that the call before did goes on with its step: DeepSpeed calls
    the same optimizer once for each of its groups.
    """

    def __init__(self) -> None:
        self._counts: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Count] = (
            weakref.WeakKeyDictionary()
        )

    @property
    def next_step(self) -> int:
        """The step that what is seen now belongs to, as far as the calls until now tell."""
        return max((one.step for one in self._counts.values()), default=-1) + 1

    def begin(
        self, optimizer: torch.optim.Optimizer, parameters: Mapping[nn.Parameter, str]
    ) -> Call | None:
        """Call it before the optimizer's step; None for an optimizer of something else."""
        count = self._counts.get(optimizer)
        if count is None:
            count = _Count(first_group=sum(len(one.groups) for one in self._counts.values()))
        changed = {id(one) for group in optimizer.param_groups for one in group["params"]}
        is_next = not changed or not changed.isdisjoint(count.changed) or count.step < 0
        numbers = _numbers(count, optimizer.param_groups, is_next)
        parts = parts_of(optimizer, parameters, numbers)
        count.has_parameters |= any(one.parameter is not None for one in parts)
        if not count.has_parameters and any(one.has_parameters for one in self._counts.values()):
            return None
        count.step += is_next
        count.changed = changed if is_next else count.changed | changed
        self._counts[optimizer] = count
        return Call(count.step, parts, numbers)


def _numbers(count: _Count, groups: Sequence[dict[str, Any]], is_next: bool) -> list[int]:
    """In the order in which groups are seen; a state that is loaded brings other groups."""
    if is_next and any(all(one is not known for known in count.groups) for one in groups):
        count.groups = []
    for group in groups:
        if all(group is not known for known in count.groups):
            count.groups.append(group)
    return [
        count.first_group + place
        for group in groups
        for place, known in enumerate(count.groups)
        if known is group
    ]
