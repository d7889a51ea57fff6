"""What recording asks of PyTorch."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from msprobe_collector.record.call_flow import TorchFlow
from msprobe_collector.record.framework import Edge, Item
from msprobe_collector.record.items import Items, collect_tensors
from msprobe_collector.record.nested import held
from msprobe_collector.record.statistics import is_capturing, local_part
from msprobe_collector.record.watcher import Watcher
from msprobe_collector.unseen import become_visible, unseen
from msprobe_collector.write.tensor_files import TensorFiles

_AccumulateGrad: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]


class PyTorch:
    """:class:`~msprobe_collector.record.framework.Framework` for torch."""

    name = "pytorch"
    tensor_kind = torch.Tensor
    shows_last_node = True
    unseen = staticmethod(unseen)
    become_visible = staticmethod(become_visible)
    is_capturing = staticmethod(is_capturing)
    collect_tensors = staticmethod(collect_tensors)

    def __init__(self, watcher: Watcher | None = None) -> None:
        """``watcher`` holds the tensors that are described."""
        self._watcher = watcher

    def make_files(self, one_file: bool) -> TensorFiles:
        return TensorFiles(one_file)

    def make_describer(self, summary_mode: str, files: TensorFiles, measures: bool) -> Items:
        items = Items(summary_mode, files, measures)
        items.watcher = self._watcher
        return items

    def make_flow(self) -> TorchFlow:
        return TorchFlow()

    def held(self, value: Any, changes: bool) -> Any:
        with torch.no_grad():
            return held(Items.opener, value, _copied if changes else _same)

    # -- the graph of gradients ---------------------------------------------------------------

    def edges_of(self, tensors: Sequence[torch.Tensor]) -> list[Edge | None]:
        return [_edge_of(tensor) for tensor in tensors]

    def results_of(self, tensors: Sequence[torch.Tensor]) -> list[Edge | None]:
        return [(t.grad_fn, t.output_nr) if t.grad_fn is not None else None for t in tensors]

    def leaf_key(self, node: Any) -> Edge | None:
        return (id(node.variable), -1) if type(node) is _AccumulateGrad else None

    def takes_gradient(self, tensor: torch.Tensor) -> bool:
        return tensor.requires_grad

    def next_node(self) -> int:
        return torch._C._autograd._get_sequence_nr()

    def builds_graph(self) -> bool:
        return torch.is_grad_enabled()

    def as_established(self, name: str, gradients: list[Item | None]) -> list[Item | None]:  # noqa: ARG002
        return gradients

    def sum_of(self, before: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor | None:
        if type(before) is type(gradient) is torch.Tensor:
            return before + gradient
        # Tensors that stand for others have no memory: adding those crashes inside ``unseen``.
        mine, other = local_part(before), local_part(gradient)
        if mine is None or other is None:
            return before if mine is None else gradient  # a record says no values of it either
        if mine is before and other is gradient:
            return before + gradient
        layout = getattr(gradient, "_spec", None)
        if layout is None or layout != getattr(before, "_spec", None):
            return None
        kind: Any = type(gradient)
        return kind(mine + other, layout, requires_grad=False)

    # -- passes -------------------------------------------------------------------------------

    def current_pass(self) -> int:
        return torch._C._current_graph_task_id()

    def after_pass(self, call: Callable[[], None]) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(call)

    def after_callbacks(self, call: Callable[[], None]) -> None:
        self.after_pass(call)  # one that is queued by another comes last

    def is_recomputing(self) -> bool:
        return torch._C._current_graph_task_id() != -1 and torch.is_grad_enabled()

    def runs_backward(self) -> bool:
        """Checkpointing either calls the engine again from a node made in Python, or only
        repeats the forward pass for what had not been saved.
        """
        node: Any = torch._C._current_autograd_node()
        return node is None or isinstance(node, torch.autograd.function.BackwardCFunction)

    def watch_value(
        self, tensor: torch.Tensor, arrive: Callable[[torch.Tensor], None]
    ) -> RemovableHandle | None:
        with torch._C.DisableTorchFunction():
            if not tensor.requires_grad:
                return None
            if tensor.grad_fn is None:
                return tensor.register_hook(partial(_hand_over, arrive))
            pick = partial(_pick, arrive, tensor.output_nr)
            return tensor.grad_fn.register_prehook(pick)

    # -- parameters ---------------------------------------------------------------------------

    def own_parameters(self, module: torch.nn.Module) -> dict[str, Any]:
        return dict(module.named_parameters(recurse=False))

    def may_watch(self, parameter: torch.nn.Parameter) -> bool:
        return not is_lazy(parameter) and parameter.requires_grad

    def watch_parameter(
        self, parameter: torch.nn.Parameter, arrive: Callable[[torch.Tensor], None]
    ) -> RemovableHandle | None:
        return parameter.register_hook(arrive) if parameter.is_leaf else None

    def gradient_of(self, parameter: torch.nn.Parameter) -> torch.Tensor | None:
        return parameter.grad

    def identity(self, gradient: torch.Tensor | None) -> tuple[int, int] | None:
        if gradient is None:
            return None
        # What a distributed tensor holds is added to without its notice.
        return id(gradient), getattr(gradient, "_local_tensor", gradient)._version


def is_lazy(parameter: torch.nn.Parameter) -> bool:
    """Whether the first forward call has yet to give the parameter its shape."""
    return torch.nn.parameter.is_lazy(parameter)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of what can be saved; nothing else is read."""
    return tensor if local_part(tensor) is None else tensor.clone()


def _hand_over(arrive: Callable[[torch.Tensor], None], gradient: torch.Tensor) -> None:
    with torch._C.DisableTorchFunction():
        arrive(gradient.detach())


def _pick(
    arrive: Callable[[torch.Tensor], None],
    number: int,
    gradients: tuple[torch.Tensor | None, ...],
) -> None:
    gradient = gradients[number] if number < len(gradients) else None
    if gradient is not None:
        _hand_over(arrive, gradient)


def _edge_of(tensor: torch.Tensor) -> Edge | None:
    if not tensor.requires_grad:
        return None
    node = tensor.grad_fn
    return (id(tensor), -1) if node is None else (node, tensor.output_nr)
