"""What recording asks of the framework that trains; one implementation for each of them.

An *edge* says where a tensor's gradient goes: a node of the graph of gradients, and which of its
outputs the tensor is. A leaf has no node that runs; its edge is a key of its own with index -1.
A *pass* is one run of the engine that computes gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from msprobe_collector.config.narrowing import Slice
from msprobe_collector.record.origins import Found, Makers

Edge: TypeAlias = "tuple[Any, int]"
Item: TypeAlias = "dict[str, Any]"
NO_PASS = -1


class Removable(Protocol):
    """What a hook is taken off with."""

    def remove(self) -> None: ...


class Files(Protocol):
    """Where the tensors of a step go."""

    directory: Any  # Path | None
    saved_bytes: int
    one_file: bool

    def flush(self) -> None:
        """Let readers find what has been written."""

    def drain(self) -> None:
        """Wait until every tensor is on disk."""

    def end_step(self) -> None: ...

    def close(self) -> None: ...


class SketchRows(Protocol):
    """The sketches of a step, numbered from 0."""

    def take(self) -> Any:
        """The rows of ``sketch.bin``, an array, that came since the last call."""

    def end_step(self) -> None:
        """Number from 0 again."""


class Describer(Protocol):
    """Turns values into records; all but ``settle`` are called inside ``unseen``."""

    estimate: bool
    described_bytes: int
    slices: Sequence[Slice]  # what is taken of each tensor
    within: str  # the name of the call whose tensors are described

    @property
    def sketches(self) -> SketchRows | None:
        """None where none are asked for."""

    @property
    def is_settled(self) -> bool:
        """Whether all records made so far have their numbers."""

    def describe(
        self, value: Any, path: str | None, leaves: list[Any], depth: int = 0, born: bool = False
    ) -> Any:
        """The record of ``value``; its tensors are appended to ``leaves`` in order."""

    def tensor(self, tensor: Any, path: str | None = None, born: bool = False) -> Item:
        """The record of one tensor, which is saved as ``path``."""

    def attach(self, record: Any, value: Any, path: str) -> Any:
        """Save the tensors of ``value``, which ``record`` describes."""

    def settle(self) -> None:
        """Fill in the numbers that are still on a device."""

    def expose(self, tensor: Any) -> None:
        """Whatever shares this tensor's memory can be written to by others from now on."""

    def let_go(self, tensor: Any) -> None:
        """Nothing of ours refers to this tensor any more."""

    def keep_beside(self, gradient: Any) -> None:
        """A described gradient will lie beside its parameter, as another tensor in its memory."""

    def forget_step(self) -> None: ...


class Gradients(Protocol):
    """Who sends gradients to whom; see gradient_flow.py."""

    def watch(self, graph: Any, backward: Any) -> None:
        """A recorded call added the nodes of ``graph``, whose backward is ``backward``."""

    def makers(self, backward: Any, record: Item) -> list[Makers]:
        """Who made the gradients in the record of a backward call that is over."""

    def of_parameter(self, parameter: Any) -> Found:
        """Who made the gradient that arrives for a parameter."""

    def begin(self, roots: Any) -> None:
        """A backward pass begins at the tensors in ``roots``."""

    def hook(self, tensor: Any) -> None:
        """A hook may replace the gradient of a tensor from now on."""


class Flow(Protocol):
    """Who made each tensor of a step; see call_flow.py. Call inside ``unseen``."""

    rows: Any
    gradients: Any

    def enter(
        self,
        call: Any,
        inputs: Sequence[Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        communicates: bool,
    ) -> Any:
        """Who made what a call is given; to be handed to ``leave``."""

    def leave(self, flow: Any, call: Any, outputs: Sequence[Any]) -> None:
        """The call put these out."""

    def parameters(self, tensors: Any) -> Makers:
        """Who made the parameters of a module."""

    def name_those_of(self, prefix: str, model: Any) -> None:
        """Know the parameters and buffers of a model by their names."""

    def name_own(self, path: str, module: Any) -> None:
        """The same of parameters that a module has only while it runs."""

    def name_gradients(self, callers: Mapping[int, int]) -> None:
        """A backward pass is over; ``callers`` are the threads of parameters, by identity."""

    def let_go(self, tensor: Any) -> None:
        """Nothing of ours refers to this tensor any more."""

    def end_window(self) -> None: ...

    def end_step(self) -> None: ...


class Framework(Protocol):
    """The part of recording that differs between frameworks."""

    name: str  # as dump.json says it
    tensor_kind: type[Any]
    shows_last_node: bool  # in the established records of backward calls

    def unseen(self) -> AbstractContextManager[None]:
        """Calls made inside are neither recorded nor differentiated."""

    def become_visible(self) -> None:
        """Leave ``unseen``, after an interrupt that came while it was left, too."""

    def make_files(self, one_file: bool) -> Files: ...

    def make_describer(self, summary_mode: str, files: Any, measures: bool) -> Describer: ...

    def make_flow(self) -> Flow | None:
        """What follows the flow of data; None where nothing can."""

    def collect_tensors(self, value: Any, found: list[Any]) -> None:
        """The tensors in nested arguments, in the order in which they would be described."""

    def held(self, value: Any, changes: bool) -> Any:
        """Arguments as they are now, copied when the call ``changes`` them."""

    def is_capturing(self) -> bool:
        """Whether calls are captured now to run later."""

    # -- the graph of gradients ---------------------------------------------------------------

    def edges_of(self, tensors: Sequence[Any]) -> list[Edge | None]:
        """Where the gradients of a call's inputs go; None for those that take none."""

    def results_of(self, tensors: Sequence[Any]) -> list[Edge | None]:
        """Where the gradients of a call's outputs come from; None for those no node made."""

    def leaf_key(self, node: Any) -> Edge | None:
        """The edge of the tensor that a node stands for if that is a leaf."""

    def takes_gradient(self, tensor: Any) -> bool: ...

    def next_node(self) -> int:
        """The number of the next node to be made."""

    def builds_graph(self) -> bool: ...

    def as_established(self, name: str, gradients: list[Item | None]) -> list[Item | None]:
        """The order that established records give to the gradients of a call's arguments,
        where they show arguments instead of the last node.
        """

    def sum_of(self, before: Any, gradient: Any) -> Any:
        """Two shares of a gradient added up; None where ranks would have to talk for it. Called
        inside ``unseen``.
        """

    # -- passes -------------------------------------------------------------------------------

    def current_pass(self) -> int:
        """The pass that is running in this thread, or NO_PASS."""

    def after_pass(self, call: Callable[[], None]) -> None:
        """Call when the running pass is over."""

    def after_callbacks(self, call: Callable[[], None]) -> None:
        """From such a call: call when those of others have run, too."""

    def is_recomputing(self) -> bool:
        """A forward call inside a pass that builds a graph repeats an earlier one."""

    def runs_backward(self) -> bool:
        """Whether what is built inside a pass will run backward itself."""

    def watch_value(self, tensor: Any, arrive: Callable[[Any], None]) -> Removable | None:
        """Hand over the gradient of any tensor when a pass computes it; None if none will."""

    # -- parameters ---------------------------------------------------------------------------

    def own_parameters(self, module: Any) -> dict[str, Any]:
        """The parameters of a module without those of its parts, by their names in it."""

    def may_watch(self, parameter: Any) -> bool:
        """Whether gradients can come to a parameter, whose shape is known."""

    def watch_parameter(
        self, parameter: Any, arrive: Callable[[Any], None]
    ) -> Removable | None: ...

    def gradient_of(self, parameter: Any) -> Any:
        """The gradient that is kept beside a parameter; None where the framework keeps none."""

    def identity(self, gradient: Any) -> tuple[int, int] | None:
        """Changes whenever a kept gradient does."""
