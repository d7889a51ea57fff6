"""Holds a compiled region against the same graph without a compiler, by float64.

Both run with the inputs of the training, on copies: what they make, and the gradients of inputs
for one and the same random gradient of outputs. What float64 makes of it tells whose rounding is
whose: a region departs from eager where it is off by much more than eager is.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_map_only

from msprobe_builder.facts.fact import Fact, fact

_ALLOWED = 16.0  # times what eager is off by
_LEAST = 8.0  # units of roundoff that eager is taken to be off by, where it is off by less
# Where float64 tells nothing, eager itself is the measure.
_WITHOUT_FLOAT64 = 256.0
_LOW = frozenset({torch.float32, torch.float16, torch.bfloat16})
_SEED = 46
_GRADIENT = "run.gradient_of_input"


@dataclass(frozen=True)
class Departure:
    """A value that a compiled region makes otherwise than eager."""

    what: Fact  # output 0, gradient of input 2
    position: int  # of it among the values that are made
    times: float  # what is allowed; infinite where one side alone has no number

    @property
    def is_gradient(self) -> bool:
        return self.what.code == _GRADIENT


@dataclass(frozen=True)
class Made:
    """What a region makes, by name: outputs, inputs that it writes to, gradients of inputs."""

    values: dict[Fact, torch.Tensor]


def departures(
    graph: GraphModule,
    run: Callable[..., Any],
    args: Sequence[Any],
    backward: bool = True,
    drawn: bool = False,
) -> list[Departure]:
    """What ``run``, which was compiled from ``graph``, makes otherwise; the largest first.

    With ``drawn`` random numbers, which float64 draws otherwise, eager is the measure.
    """
    made = made_by(run, args, backward)
    eager = made_by(graph, args, backward)
    exact: Made | None = None
    try:
        if not drawn:
            exact = made_by(_InFloat64(graph).run, args, backward, as_float64=True)
    except Exception:  # an operator that has no float64
        exact = None
    return sorted(_told(made, eager, exact), key=lambda one: -one.times)


def made_by(
    run: Callable[..., Any], args: Sequence[Any], backward: bool, as_float64: bool = False
) -> Made:
    """Run on copies; the training's generators and tensors stay as they are."""
    copies = [copy_of(one, as_float64) for one in args]
    given = [one for one in copies if isinstance(one, torch.Tensor)]
    before = [one._version for one in given]
    values: dict[Fact, torch.Tensor] = {}
    with generators_kept(), torch.set_grad_enabled(torch.is_grad_enabled() and backward):
        found = run(*copies)
        outputs = [one for one in _flat(found) if isinstance(one, torch.Tensor)]
        values |= {fact("run.output", number=n): one.detach() for n, one in enumerate(outputs)}
        for place, (one, version) in enumerate(zip(given, before, strict=True)):
            if one._version != version:
                values[fact("run.input_after", number=place)] = one.detach().clone()
        ends = [one for one in outputs if one.requires_grad]
        wanted = {n: one for n, one in enumerate(given) if one.requires_grad and one.is_leaf}
        if ends and wanted:
            gradients = torch.autograd.grad(
                ends, list(wanted.values()), _cotangents(ends), allow_unused=True
            )
            for place, gradient in zip(wanted, gradients, strict=True):
                if gradient is not None:
                    values[fact(_GRADIENT, number=place)] = gradient
    return Made(values)


def _flat(found: Any) -> Sequence[Any]:
    return found if isinstance(found, list | tuple) else (found,)


def _cotangents(ends: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(_SEED)
    return [torch.randn(one.shape, generator=generator).to(one.device, one.dtype) for one in ends]


def draws(graph: GraphModule, args: Sequence[Any]) -> bool:
    """Whether a graph draws random numbers."""
    with generators_kept():
        before = _states()
        graph(*[copy_of(one) for one in args])
        after = _states()
    return any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))


def _states() -> list[torch.Tensor]:
    return [torch.get_rng_state(), *_device_states()]


def _device_states() -> list[torch.Tensor]:
    return torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []


@contextmanager
def generators_kept() -> Iterator[None]:
    before, on_devices = torch.get_rng_state(), _device_states()
    try:
        yield
    finally:
        torch.set_rng_state(before)
        if on_devices:
            torch.cuda.set_rng_state_all(on_devices)


def copy_of(value: Any, as_float64: bool = False) -> Any:
    """Of its own memory, strides and all, unless it shows one number at several places."""
    if not isinstance(value, torch.Tensor):
        return value
    plain = value.detach()
    if as_float64 and plain.dtype in _LOW:
        plain = plain.double()
    elif all(plain.stride()) or not plain.numel():
        same = torch.empty_strided(
            plain.shape, plain.stride(), dtype=plain.dtype, device=plain.device
        )
        plain = same.copy_(plain)
    return plain.requires_grad_(value.requires_grad)


class _InFloat64(Interpreter):
    """The graph with what it casts to, and keeps, in float64."""

    def run_node(self, n: Node) -> Any:
        if n.target is torch.amp.autocast_mode._enter_autocast:
            return None
        if n.target is torch.amp.autocast_mode._exit_autocast:
            return None
        return super().run_node(n)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = super().fetch_args_kwargs_from_env(n)
        return tree_map_only(torch.dtype, _widened, given)

    def fetch_attr(self, target: str) -> Any:
        found = super().fetch_attr(target)
        is_low = isinstance(found, torch.Tensor) and found.dtype in _LOW
        return found.double() if is_low else found


def _widened(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in _LOW else dtype


def _told(made: Made, eager: Made, exact: Made | None) -> Iterator[Departure]:
    truth = (exact or eager).values
    for position, (what, other) in enumerate(eager.values.items()):
        own = made.values.get(what)
        if own is None:
            yield Departure(fact("run.missing", what=what), position, math.inf)
            continue
        times = _times(own, other, truth.get(what, other))
        if times > 1.0:
            yield Departure(what, position, times)


def _times(own: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> float:
    """By how many times what is allowed ``own`` is off."""
    if own.shape != eager.shape or own.dtype != eager.dtype or exact.shape != eager.shape:
        return math.inf if own.shape != eager.shape else 0.0
    if not own.numel():
        return 0.0
    if not own.is_floating_point():
        return 0.0  # masks and places tip over by rounding
    mine, other, right = own.double(), eager.double(), exact.double()
    if not torch.equal(mine.isfinite(), other.isfinite()):
        return math.inf
    kept = mine.isfinite() & right.isfinite()
    if not bool(kept.any()):
        return 0.0
    mine, other, right = mine[kept], other[kept], right[kept]
    size = float(right.square().mean().sqrt())
    unit = torch.finfo(own.dtype).eps / 2
    off = float((mine - right).square().mean().sqrt())
    if exact is eager:
        return off / (_WITHOUT_FLOAT64 * unit * size) if size else math.inf * bool(off)
    allowed = _ALLOWED * (float((other - right).square().mean().sqrt()) + _LEAST * unit * size)
    return off / allowed if allowed else math.inf if off else 0.0
