"""Running one call again: on the CPU, in float64, or by another kernel of the same operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._ops import OpOverload

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.operators.operator import Kind
from msprobe_operators.call.arguments import map_tensors
from msprobe_operators.call.operator import row_of

# Where a call is run again.
REFERENCES = ("cpu", "float64", "decomposition")

_HALF_PRECISION = (torch.float16, torch.bfloat16)
_LOW = (*_HALF_PRECISION, torch.float32)
# Their dtype argument says what the result is, not how it is computed.


@dataclass(frozen=True)
class Rerun:
    """What running a call again gave: a result, or why there is none."""

    result: Any = None
    reason: Fact | None = None
    note: Fact | None = None  # how it was run, when not as asked for


def run_again(
    operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], reference: str
) -> Rerun:
    """Run a call of an ATen operator as ``reference`` says; the arguments are not written to.

    ``cpu`` keeps dtypes and falls back to float32 where the CPU cannot compute in half precision;
    ``float64`` stays on the tensors' device; ``decomposition`` is float64 through a composition
    of other operators, for those that have one. Random state is left as it was. Errors of the
    operator become the reason of a missing result.
    """
    if reference == "decomposition":
        function = other_kernel(operator)
        if function is None:
            return Rerun(reason=fact("operator.no_decomposition"))
        return attempt(function, *in_float64(operator, args, kwargs))
    if reference == "float64":
        return attempt(operator, *in_float64(operator, args, kwargs))
    here = map_tensors(args, on_cpu), map_tensors(on_cpu_device(kwargs), on_cpu)
    found = attempt(operator, *here)
    if found.reason is None or not _lacks_half(found.reason):
        return found
    upcast = attempt(
        operator, map_tensors(here[0], _float32), _wider(operator, here[1], torch.float32)
    )
    note = fact("operator.converted", error=found.reason)
    return Rerun(upcast.result, upcast.reason, note)


def attempt(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Rerun:
    """Call a function; whatever it raises is the reason why there is no result."""
    try:
        with torch.no_grad(), random_state_kept():
            return Rerun(function(*args, **kwargs))
    except Exception as error:  # a kernel may raise anything; training must go on
        text = " ".join(str(error).split())[:300] or type(error).__name__
        return Rerun(reason=fact("operator.error", error=text))


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Leave the CPU's generator as it was."""
    state = torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_rng_state(state)


def other_kernel(operator: OpOverload) -> Callable[..., Any] | None:
    """A second way to compute an operator that does not run its own kernel, if there is one."""
    from torch._decomp import decomposition_table

    name = operator.name()
    composite = "CompositeExplicitAutograd"
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if not name.startswith("aten::") and has(name, composite):
        return lambda *args, **kwargs: operator._op_dk(
            DispatchKey.CompositeExplicitAutograd, *args, **kwargs
        )
    return decomposition_table.get(operator)


def in_float64(
    operator: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with every floating tensor as a float64 copy; complex ones as complex128."""
    wide = _wider(operator, (map_tensors(args, _float64), map_tensors(kwargs, _float64)))
    return wide[0], wide[1]


def on_cpu(tensor: Tensor) -> Tensor:
    """A copy in the CPU's memory."""
    return tensor.detach().to("cpu", copy=True)


def on_cpu_device(value: Any) -> Any:
    """The same arguments with devices replaced by the CPU."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, dict):
        return {key: on_cpu_device(item) for key, item in value.items()}
    return value


def _float64(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return tensor.detach().to(torch.complex128, copy=True)
    if tensor.is_floating_point():
        return tensor.detach().to(torch.float64, copy=True)
    return tensor.detach().clone()


def _float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.float32) if tensor.dtype in _HALF_PRECISION else tensor


def _wider(operator: OpOverload, value: Any, dtype: torch.dtype = torch.float64) -> Any:
    """Arguments that ask for a lower dtype ask for ``dtype``, but where that is the result."""
    row = row_of(operator)
    if row.kind is Kind.CAST or row.name == "copy":
        return value
    if isinstance(value, torch.dtype):
        return dtype if value in _LOW else value
    if isinstance(value, tuple):
        return tuple(_wider(operator, item, dtype) for item in value)
    if isinstance(value, dict):
        return {
            # A float64 input has nothing to be widened to.
            key: False if key == "half_to_float" else _wider(operator, item, dtype)
            for key, item in value.items()
        }
    return value


def _lacks_half(reason: Fact) -> bool:
    error = str(reason["error"])
    return "not implemented for" in error and ("Half" in error or "BFloat16" in error)
