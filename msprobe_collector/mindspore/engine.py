"""What recording asks of MindSpore, in PyNative mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mindspore
from mindspore.common.api import _pynative_executor

from msprobe_collector.mindspore.array_files import ArrayFiles
from msprobe_collector.mindspore.arrays import Arrays
from msprobe_collector.mindspore.graph import Graph
from msprobe_collector.record.calls import ThreadState
from msprobe_collector.record.framework import NO_PASS, Item, Removable
from msprobe_collector.record.nested import collect, held


class Unseen:
    """Calls made inside are no part of the training."""

    __slots__ = ("_before", "_threads")

    def __init__(self, threads: ThreadState) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._before = self._threads.hides_calls
        self._threads.hides_calls = True

    def __exit__(self, *_error: object) -> None:
        self._threads.hides_calls = self._before


class MindSpore(Graph):
    """:class:`~msprobe_collector.record.framework.Framework` for MindSpore."""

    name = "mindspore"
    tensor_kind: type[Any] = mindspore.Tensor
    shows_last_node = False

    def __init__(self) -> None:
        super().__init__()
        self.threads = ThreadState()  # until the session has its own

    def unseen(self) -> Unseen:
        return Unseen(self.threads)

    def become_visible(self) -> None:
        self.threads.hides_calls = False

    def make_files(self, one_file: bool) -> ArrayFiles:
        return ArrayFiles(one_file)

    def make_flow(self) -> None:
        """Arrays have no storage to follow."""

    def make_describer(self, summary_mode: str, files: ArrayFiles, measures: bool) -> Arrays:
        return Arrays(summary_mode, files, measures)

    def collect_tensors(self, value: Any, found: list[Any]) -> None:
        collect(Arrays.opener, value, found)

    def held(self, value: Any, changes: bool) -> Any:
        with self.unseen():
            return held(Arrays.opener, value, _copied if changes else _same)

    def is_capturing(self) -> bool:
        return False

    # -- the graph of gradients ---------------------------------------------------------------

    def takes_gradient(self, tensor: Any) -> bool:
        return tensor._grad_node is not None

    def builds_graph(self) -> bool:
        return bool(_pynative_executor.requires_grad())

    def as_established(self, name: str, gradients: list[Item | None]) -> list[Item | None]:
        """Those of Primitives stand in reverse, without gaps."""
        if not name.startswith("Primitive."):
            return gradients
        return [gradient for gradient in reversed(gradients) if gradient is not None]

    def sum_of(self, before: Any, gradient: Any) -> Any:
        return before + gradient

    # -- passes -------------------------------------------------------------------------------

    def current_pass(self) -> int:
        number = int(_pynative_executor.get_current_autodiff_engine_id())
        return NO_PASS if number < 0 else number

    def after_pass(self, call: Callable[[], None]) -> None:
        _pynative_executor.queue_backward_final_callback(call)

    def after_callbacks(self, call: Callable[[], None]) -> None:
        call()  # nothing else brings gradients

    def is_recomputing(self) -> bool:
        return self.current_pass() != NO_PASS and self.builds_graph()

    def runs_backward(self) -> bool:
        return True

    # -- parameters ---------------------------------------------------------------------------

    def own_parameters(self, module: Any) -> dict[str, Any]:
        return {name: value for name, value in module._params.items() if value is not None}

    def may_watch(self, parameter: Any) -> bool:
        return bool(parameter.requires_grad)

    def watch_parameter(self, parameter: Any, arrive: Callable[[Any], None]) -> Removable | None:
        handle: Removable = parameter.register_hook(partial(_hand_over, arrive))
        return handle

    def watch_value(self, tensor: Any, arrive: Callable[[Any], None]) -> Removable | None:
        if tensor._grad_node is None:
            return None
        handle: Removable = tensor.register_hook(partial(_hand_over, arrive))
        return handle

    def gradient_of(self, parameter: Any) -> Any:  # noqa: ARG002
        return None

    def identity(self, gradient: Any) -> tuple[int, int] | None:
        return None if gradient is None else (id(gradient), 0)


def _hand_over(arrive: Callable[[Any], None], gradient: Any) -> Any:
    arrive(gradient)
    return gradient


def _same(tensor: Any) -> Any:
    return tensor


def _copied(tensor: Any) -> Any:
    return mindspore.Tensor(tensor.asnumpy().copy(), tensor.dtype)
