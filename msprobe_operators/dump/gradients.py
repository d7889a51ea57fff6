"""Recorded gradients of the operands of a call, where they say what a second run can say."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from msprobe_builder.dump.argument_gradients import by_argument
from msprobe_operators.call.arguments import tensors
from msprobe_operators.dump.calls import RecordedCall
from msprobe_operators.dump.operands import CannotRebuildError, Source, rebuild


def tells_all(call: RecordedCall) -> bool:
    """Whether the record has the gradient of each argument, as our collector writes it.

    The established keys hold what the last autograd node sent, which are the gradients of the
    arguments only where it is the only one.
    """
    return call.backward is not None and by_argument(call.backward) is not call.backward


def is_one_step(results: list[Any]) -> bool:
    """Whether the backward of a call is one autograd node, right behind copies of its operands."""
    nodes = {one.grad_fn for one in tensors(results) if one.grad_fn is not None}
    if len(nodes) != 1:
        return False
    behind = [node for node, _ in nodes.pop().next_functions if node is not None]
    return all(node.name() == "CloneBackward0" for node in behind)


def _stands_twice(operands: Any) -> bool:
    """Whether one tensor is passed more than once: its gradient is recorded as one sum."""
    asking = [one for one in tensors(operands) if one.requires_grad]
    return any(
        one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)
        for place, one in enumerate(asking)
        for other in asking[:place]
    )


def recorded_gradients(
    call: RecordedCall, operands: Any, gradients: list[Tensor | None], source: Source
) -> list[Tensor | None] | None:
    """Gradients in the dump's files, in the places of those of a second run.

    None when the dump lacks one of them, of the results or of the operands, or has others, or
    when an operand is passed twice.
    """
    assert call.backward is not None
    if _stands_twice(operands):
        return None
    came = _real(call, "input", source)
    went = _real(call, "output", source)
    wanted = [one for one in gradients if one is not None]
    if not came or went is None or [t.shape for t in went] != [t.shape for t in wanted]:
        return None
    rest = iter(went)
    return [None if one is None else next(rest) for one in gradients]


def _real(call: RecordedCall, side: str, source: Source) -> list[Tensor] | None:
    leaves = by_argument(call.backward or {}).get(side)
    found = []
    for number, leaf in enumerate(leaves if isinstance(leaves, list) else []):
        if leaf is None:
            continue
        if not isinstance(leaf, dict) or not isinstance(leaf.get("data_name"), str):
            return None
        try:
            tensor, _ = rebuild(leaf, f"{call.name}.backward.{side}.{number}", source)
        except CannotRebuildError:
            return None
        found.append(tensor.detach())
    return found
