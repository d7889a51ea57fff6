"""Running one saved call again: here, on another device, with another reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from msprobe_operators.call.arguments import before_the_call, map_tensors, tensors
from msprobe_operators.call.operator import find_operator
from msprobe_operators.call.saved import SavedCall, load_call
from msprobe_operators.judge.check import Check, check_by
from msprobe_operators.judge.compare import Limits, Status
from msprobe_operators.live.compare_with_cpu import limits

Operator = OpOverload | OpOverloadPacket | str


def compare_for_single_op(
    inputs: str | Path,
    operator: Operator | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    device: str = "cpu",
    reference: str | None = None,
) -> tuple[bool, tuple[Any, ...], dict[str, Any], Any]:
    """Run a saved call again and check it.

    Returns whether it is right, its arguments on ``device``, its keyword arguments and its
    result. ``operator`` overrides the saved one. Raises SavedCallError for files that hold no
    call or more than data.
    """
    call = _call(inputs, operator)
    args, kwargs, result, check = run(call, device, reference, limits(atol, rtol))
    return check.judgement.status is Status.PASSED, args, kwargs, result


def nan_inf_track_for_single_op(
    inputs: str | Path, operator: Operator | None = None, *, device: str = "cpu"
) -> tuple[bool, tuple[Any, ...], dict[str, Any], Any]:
    """Run a saved call again; the first of what is returned tells that no NaN or infinity came out.

    The rest is as in ``compare_for_single_op``.
    """
    call = _call(inputs, operator)
    args, kwargs, result, _ = run(call, device, None, None)
    is_clean = all(
        bool(torch.isfinite(tensor.float() if tensor.element_size() == 1 else tensor).all())
        for tensor in tensors(result)
        if tensor.is_floating_point() or tensor.is_complex()
    )
    return is_clean, args, kwargs, result


def run(
    call: SavedCall, device: str, reference: str | None, limit: Limits | None
) -> tuple[tuple[Any, ...], dict[str, Any], Any, Check]:
    """Arguments on the device, keyword arguments, result and the check of a saved call."""
    target = torch.device(device)
    args = map_tensors(call.args, lambda tensor: tensor.to(target))
    kwargs = {
        key: target if isinstance(value, torch.device) else value
        for key, value in map_tensors(call.kwargs, lambda tensor: tensor.to(target)).items()
    }
    before = before_the_call(call.operator, args, kwargs)
    state = torch.get_rng_state()
    try:
        if call.random_state is not None:
            torch.set_rng_state(call.random_state)
        with torch.no_grad():
            result = call.operator(*args, **kwargs)
    finally:
        torch.set_rng_state(state)
    check = check_by(call.operator, before, (args, kwargs), result, reference, limit)
    return args, kwargs, result, check


def _call(inputs: str | Path, operator: Operator | None) -> SavedCall:
    """The call of a file; of a packet the overload is meant that the file's operator is."""
    if operator is None:
        return load_call(Path(inputs))
    if isinstance(operator, str):
        return load_call(Path(inputs), find_operator(operator))
    if isinstance(operator, OpOverload):
        return load_call(Path(inputs), operator)
    call = load_call(Path(inputs))
    overload = call.operator._overloadname
    if overload not in operator.overloads():
        overload = operator.overloads()[0]
    return replace(call, operator=getattr(operator, overload))
