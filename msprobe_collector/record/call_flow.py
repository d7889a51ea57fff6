"""Who made what each call is given, and what the call makes of it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from msprobe_builder.dump.flow_layout import Maker, Mark, Place
from msprobe_builder.operators.questions import one_of
from msprobe_builder.operators.table import operator_of, overwrites
from msprobe_collector.record.calls import Call
from msprobe_collector.record.flow import FlowRows
from msprobe_collector.record.gradient_flow import GradientFlow
from msprobe_collector.record.identities import layout_of
from msprobe_collector.record.items import collect_tensors
from msprobe_collector.record.layouts import Layout
from msprobe_collector.record.memories import Looked, Memories
from msprobe_collector.record.origins import Found, Makers, Origin
from msprobe_collector.record.uncompiled import uncompiled_name
from msprobe_collector.record.unread import hands_out_memory

# What they write to without counting it: names and places of these arguments, and of the flag that
# they do it by.
_UNCOUNTED = {
    "batch_norm": (("running_mean", 1), ("running_var", 2), ("training", 5)),
    "instance_norm": (("running_mean", 1), ("running_var", 2), ("use_input_stats", 5)),
}
# The same of lists of tensors; the gradients, too, where they are scaled.
_FUSED = {
    "_fused_adam_": (0, 2, 3, 4),
    "_fused_adamw_": (0, 2, 3, 4),
    "_fused_sgd_": (0, 2),
    "_fused_adagrad_": (0, 2),
}
# Communication that writes nothing here; any other writes its first argument, gather its second.
_SENDS = one_of("send")
_UNWRITTEN = int(Mark.UNINITIALISED | Mark.FROM_UNINITIALISED)
_IN_PLACE = int(Mark.IN_PLACE)
_RECORD, _INPUT, _OUTPUT = int(Maker.RECORD), int(Place.INPUT), int(Place.OUTPUT)
_PARAMETERS = int(Place.PARAMETERS)
_UNINITIALISED, _FROM_UNINITIALISED = int(Mark.UNINITIALISED), int(Mark.FROM_UNINITIALISED)


class CallFlow:
    """What is known of a call that was entered."""

    __slots__ = ("has_written", "is_computed", "looked", "makers", "region", "tensors")

    def __init__(self, found: list[Found], looked: Sequence[Looked]) -> None:
        self.makers: list[Makers] = [(_INPUT, found)]
        self.looked = looked  # what was known of each tensor
        self.tensors: Sequence[Any] = ()  # what an API was given
        self.has_written: Sequence[int] = ()  # positions that a communication writes
        self.region: Layout | None = None  # of the first tensor that the call writes
        self.is_computed = False  # from memory that nobody has written


class TorchFlow:
    """The flow of data of a step. Call inside ``unseen``."""

    def __init__(self) -> None:
        self.rows = FlowRows()
        self.gradients = GradientFlow()
        self._lock = threading.RLock()
        self._memories = Memories(self._lock)
        self._has_unwritten = False  # memory was given out that nobody had written
        self._parameters: dict[str, Any] = {}
        self._named: set[int] = set()  # their identities

    # -- calls --------------------------------------------------------------------------------

    def enter(
        self,
        call: Call,
        inputs: Sequence[torch.Tensor],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        communicates: bool,
    ) -> CallFlow:
        """Who made the tensors ``inputs`` in the arguments of a call."""
        flow = CallFlow(*self._memories.look_all(inputs))
        if call.path or not inputs:
            return flow
        flow.tensors = inputs
        stem = call.label
        if communicates or _kind_of(stem).writes_unseen:
            name = stem.rpartition(".")[2]
            if communicates:
                flow.has_written = _written_by(name, args, kwargs)
            elif name == "__setitem__":
                flow.region = _region(args)
            elif name in _UNCOUNTED:
                flow.has_written = _uncounted(name, inputs, args, kwargs)
            else:
                places = _FUSED[name] if kwargs.get("grad_scale") is None else (*_FUSED[name], 1)
                flow.has_written = _tensors_at(places, args)
        if (
            self._has_unwritten
            and any(one[0].marks & _UNWRITTEN for one in flow.looked)
            and not _reads_nothing(stem)
        ):
            flow.is_computed = _computes(flow, stem, inputs, kwargs)
        return flow

    def leave(self, flow: CallFlow, call: Call, outputs: Sequence[torch.Tensor]) -> None:
        """What the call wrote and put out."""
        name, memories = call.forward_name, self._memories
        with self._lock:
            found: list[Found | None]
            if call.path:
                put_out = memories.put_out_by_module
                found = [put_out(tensor, name, position) for position, tensor in enumerate(outputs)]
            else:
                marks = _FROM_UNINITIALISED if flow.is_computed else 0
                if _kind_of(call.label).hands_out:
                    marks, self._has_unwritten = _UNINITIALISED, True
                given = flow.tensors
                changed = memories.changed(given, flow.looked) if given else ()
                written: Collection[int] = ()
                if changed or flow.has_written:
                    written = self._written(flow, changed, name, outputs, marks)
                found = memories.put_out_all(outputs, name, marks, given, written)
        flow.makers.append((_OUTPUT, found))
        flow.tensors = ()

    def _written(
        self,
        flow: CallFlow,
        changed: Sequence[int],
        name: str,
        outputs: Sequence[torch.Tensor],
        marks: int,
    ) -> set[int]:
        """The storages of what the call was given and wrote to, as ``changed`` counters tell."""
        written: set[int] = set()
        positions = {*changed, *flow.has_written}
        for position, (tensor, looked) in enumerate(zip(flow.tensors, flow.looked, strict=True)):
            if position not in positions:
                continue
            written.add(looked.storage)
            if not any(tensor is output for output in outputs):
                origin = Origin(_RECORD, name, _INPUT, position, marks | _IN_PLACE)
                region = flow.region if position == 0 else None
                self._memories.written(tensor, origin, region)
        return written

    def parameters(self, tensors: Iterable[torch.Tensor]) -> Makers:
        """Who made the parameters of a module."""
        return _PARAMETERS, self._memories.look_all(list(tensors))[0]

    # -- what has a name ----------------------------------------------------------------------

    def name_those_of(self, prefix: str, model: torch.nn.Module) -> None:
        """The parameters and buffers of a model, and the gradients kept beside it."""
        with self._lock:
            for given, parameter in model.named_parameters(prefix):
                name = uncompiled_name(given)
                self._parameters[name] = parameter
                self._named.add(id(parameter))
                self._memories.named(parameter, Maker.PARAMETER, name)
                self._name_gradient(name, parameter)
            for name, buffer in model.named_buffers(prefix):
                self._memories.named(buffer, Maker.BUFFER, uncompiled_name(name))

    def name_own(self, path: str, module: torch.nn.Module) -> None:
        """Parameters that a module has only while it runs, such as gathered ones."""
        with self._lock:
            for name, parameter in module._parameters.items():
                if parameter is None or id(parameter) in self._named:
                    continue
                if self._memories.is_new(parameter):
                    self._memories.named(parameter, Maker.PARAMETER, f"{path}.{name}")

    def name_gradients(self, callers: Mapping[int, int]) -> None:
        """A backward pass is over: what lies beside the parameters is what it brought.

        ``callers`` has the thread that calls the module of a parameter, by the identity of this.
        Where several threads train, one may be about to free what lies beside its own parameters,
        which nobody else may look at: torch would read what is no longer there.
        """
        with self._lock:
            trainers = {**callers, **self.gradients.reached}
            is_alone, own = len(set(trainers.values())) < 2, threading.get_ident()
            for name, parameter in self._parameters.items():
                trainer = trainers.get(id(parameter))
                if trainer is None and callers:
                    continue  # of a model that another thread may be training
                if is_alone or trainer == own:
                    self._name_gradient(name, parameter)

    def _name_gradient(self, name: str, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is not None:
            self._memories.named(gradient, Maker.GRADIENT, name)

    def let_go(self, tensor: torch.Tensor) -> None:
        """Nothing of ours refers to this tensor any more."""
        with self._lock:
            self._memories.let_go(tensor)

    def end_window(self) -> None:
        """Nothing is recorded until the next start."""
        self._parameters, self._named = {}, set()

    def end_step(self) -> None:
        with self._lock:
            self._memories.forget()
            self.gradients.forget()
            self.end_window()
            self._has_unwritten = False


class _Kind(NamedTuple):
    """What is asked of every call of an API."""

    writes_unseen: bool  # what its counters do not tell, or not all of what they tell of
    hands_out: bool  # memory that nobody has written


@cache
def _kind_of(stem: str) -> _Kind:
    name = stem.rpartition(".")[2]
    writes_unseen = name == "__setitem__" or name in _UNCOUNTED or name in _FUSED
    return _Kind(writes_unseen, hands_out_memory(stem))


def _reads_nothing(stem: str) -> bool:
    """Whether no number of its arguments goes into its result."""
    return hands_out_memory(stem) or "reads_nothing" in operator_of(stem).traits


def _computes(
    flow: CallFlow, stem: str, inputs: Sequence[torch.Tensor], kwargs: dict[str, Any]
) -> bool:
    """Whether the call reads memory that nobody has written, not only writes to it."""
    ignored = set(flow.has_written)
    if overwrites(stem) or flow.region is not None:
        ignored.add(0)
    if "out" in kwargs:
        results: list[torch.Tensor] = []
        collect_tensors(kwargs["out"], results)
        ignored |= {n for n, one in enumerate(inputs) if any(one is r for r in results)}
    return any(one[0].marks & _UNWRITTEN for n, one in enumerate(flow.looked) if n not in ignored)


def _region(args: Sequence[Any]) -> Layout | None:
    """What ``tensor[index] = …`` writes, where the index takes a view."""
    if len(args) < 2 or not _takes_view(args[1]):
        return None
    try:
        return layout_of(args[0].__getitem__(args[1]))
    except (RuntimeError, IndexError, TypeError, ValueError):
        return None


def _takes_view(index: Any) -> bool:
    parts = index if type(index) is tuple else (index,)
    return all(type(part) in (int, slice, type(None), type(...)) for part in parts)


def _uncounted(
    name: str, inputs: Sequence[torch.Tensor], args: Sequence[Any], kwargs: dict[str, Any]
) -> Sequence[int]:
    *statistics, flag = (
        kwargs[key] if key in kwargs else args[place] if place < len(args) else None
        for key, place in _UNCOUNTED[name]
    )
    if flag is False or (flag is None and name == "batch_norm"):
        return ()
    return [n for n, one in enumerate(inputs) if any(one is other for other in statistics)]


def _written_by(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[int]:
    """Positions among the tensors of a communication that it writes."""
    values = [*args, *kwargs.values()]
    if not values or _SENDS(operator_of(f"Distributed.{name}")):
        return ()
    if name == "batch_isend_irecv":
        operations = [getattr(one.op, "__name__", "") for one in values[0]]
        return [number for number, one in enumerate(operations) if one == "irecv"]
    return _tensors_at((1 if name == "gather" else 0,), values)


def _tensors_at(places: Collection[int], values: Sequence[Any]) -> Sequence[int]:
    """Positions of the tensors in some of the arguments."""
    found: list[int] = []
    position = 0
    for place, value in enumerate(values):
        tensors: list[torch.Tensor] = []
        collect_tensors(value, tensors)
        if place in places:
            found += range(position, position + len(tensors))
        position += len(tensors)
    return found
