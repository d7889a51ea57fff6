"""Which backward calls a gradient comes from, as the graph of gradients tells.

Each node that a recorded call added knows by which of its edges the call sends the gradient of
which input. When a backward pass begins, all edges that it will go along are visited once, so a
node knows who sends to it before it runs. What is known lies in the metadata of the nodes, which
go when their graph does.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch

from msprobe_builder.dump.flow_layout import Maker, Mark, Place
from msprobe_collector.one_pass import loaded
from msprobe_collector.record.gradients import Backward, Graph
from msprobe_collector.record.origins import OUTSIDE, Found, Makers, Origin, Sender, Share, Source

_KEY = "msprobe_collector"
_AccumulateGrad: Any = torch._C._functions.AccumulateGrad  # type: ignore[attr-defined]
_RECEIVED = (("input", int(Place.INPUT)), ("output_gradients", int(Place.OUTPUT_GRADIENTS)))
_INPUT, _OUTPUT = int(Place.INPUT), int(Place.OUTPUT)
_INPUT_GRADIENTS = int(Place.INPUT_GRADIENTS)
_SUM, _INCOMPLETE = int(Mark.SUM), int(Mark.INCOMPLETE)
_NO_SOURCES: dict[int, list[Source]] = {}
_UNKNOWN = Found(Origin(Maker.UNKNOWN), Mark.INCOMPLETE)


class NodeFlow:
    """What a node sends, by edge, and receives, by output of what it computed."""

    __slots__ = ("arriving", "hooked", "pass_number", "shares")

    def __init__(self) -> None:
        self.shares: dict[int, Share] = {}
        self.arriving: dict[int, list[Source]] = _NO_SOURCES
        self.pass_number = 0
        self.hooked: tuple[int, ...] = ()  # outputs whose gradient a hook may replace

    def found(self, output: int) -> Found:
        """The makers of the gradient that arrives for an output."""
        return _sum_of(self.arriving.get(output), output in self.hooked)


_NONE_INSIDE: dict[int, list[Share]] = {}
_made: Any = tuple.__new__  # at once, as there are many


_Gathers: TypeAlias = "NodeFlow | list[Source] | None"
_NO_SHARES: dict[int, Share] = {}


class CallGradients:
    """Where the gradients of a call come from and go to."""

    __slots__ = ("inner", "last", "received", "sender")

    def __init__(self, sender: Sender) -> None:
        self.sender = sender  # by itself: nodes hold it, and are held here
        self.received: dict[int, tuple[NodeFlow, int]] = {}  # by position of the output
        self.last: NodeFlow | None = None  # the node of the first output
        self.inner = _NONE_INSIDE  # by input, what calls inside a module send


class GradientFlow:
    """The edges of the passes that run."""

    def __init__(self) -> None:
        self._passes = 0
        self._leaves: dict[int, tuple[int, list[Source]]] = {}
        self._hooked_leaves: set[int] = set()
        self.reached: dict[int, int] = {}  # leaves, and the thread whose pass reached each
        self._lock = threading.RLock()
        self._compiled = loaded.compiled

    def watch(self, graph: Graph, backward: Backward) -> None:
        """A recorded call added the nodes of ``graph``."""
        call = backward.call
        if self._compiled is not None:
            edges = None if call.path else graph.shares
            found = backward.flow = self._compiled.watch_nodes(
                call.backward_name, graph.outputs, edges, graph.last, _KEY
            )
            if call.path:
                found.inner = _sent_from_inside(graph, found.sender)
            return
        sender = Sender(call.backward_name)
        found = backward.flow = CallGradients(sender)
        received = found.received
        at, flow = None, None  # most calls add one node
        for node, outputs in graph.outputs.items():
            at, flow = node, _flow_of(node)
            for number, position in outputs:
                received[position] = flow, number
            if node is graph.last:
                found.last = flow
        if call.path:
            found.inner = _sent_from_inside(graph, sender)
            return
        for node, shares in graph.shares.items():
            known = (flow if flow is not None and node is at else _flow_of(node)).shares
            for index, positions in shares:
                if index not in known:
                    known[index] = _made(Share, (sender, positions[0]))

    def hook(self, tensor: torch.Tensor) -> None:
        """A hook may replace the gradient of a tensor from now on."""
        node = tensor.grad_fn
        if node is not None:
            _flow_of(node).hooked += (tensor.output_nr,)
        else:
            self._hooked_leaves.add(id(tensor))

    def begin(self, roots: Iterable[torch.Tensor]) -> None:
        """A backward pass begins at these tensors: visit every edge below them."""
        with self._lock:
            self._passes += 1
            if torch._C._current_graph_task_id() == -1:
                self._leaves = {}
            if self._compiled is not None:
                known = [(one.grad_fn, one.output_nr) for one in roots if one.grad_fn is not None]
                self._compiled.visit_edges(
                    known, OUTSIDE, _KEY, self._passes, _AccumulateGrad, self._at_leaf
                )
                return
            # What arrives at each node is gathered in its list, of others in their flow.
            seen: dict[Any, _Gathers] = {}
            waiting: list[tuple[Any, NodeFlow | None]] = []
            for tensor in roots:
                if tensor.grad_fn is not None:
                    self._arrive(tensor.grad_fn, tensor.output_nr, OUTSIDE, seen, waiting)
            while waiting:
                node, flow = waiting.pop()
                shares = _NO_SHARES if flow is None else flow.shares
                for index, (source, number) in enumerate(node.next_functions):
                    if source is not None:
                        share = shares.get(index)
                        sent = Origin(Maker.UNRECORDED, node.name()) if share is None else share
                        self._arrive(source, number, sent, seen, waiting)

    def _arrive(
        self,
        node: Any,
        output: int,
        source: Source,
        seen: dict[Any, _Gathers],
        waiting: list[tuple[Any, NodeFlow | None]],
    ) -> None:
        if node in seen:
            gathers = seen[node]
        elif type(node) is _AccumulateGrad:
            gathers = seen[node] = self._at_leaf(node)
        else:
            flow = node.metadata.get(_KEY)
            if flow is not None and flow.pass_number != self._passes:
                flow.pass_number, flow.arriving = self._passes, {}
            gathers = seen[node] = flow
            waiting.append((node, flow))
        if isinstance(gathers, list):
            gathers.append(source)
        elif gathers is not None:
            arriving = gathers.arriving
            if output in arriving:
                arriving[output].append(source)
            else:
                arriving[output] = [source]

    def _at_leaf(self, node: Any) -> list[Source]:
        key = id(node.variable)
        self.reached[key] = threading.get_ident()
        known = self._leaves.get(key)
        if known is None or known[0] != self._passes:
            # Two passes, one in the other, may both bring gradients to it.
            first = [] if known is None else [*known[1], Origin(Maker.UNKNOWN)]
            known = self._leaves[key] = self._passes, first
        return known[1]

    def of_parameter(self, parameter: Any) -> Found:
        """The makers of the gradient that a hook of a parameter is told of."""
        known = self._leaves.get(id(parameter))
        is_hooked = id(parameter) in self._hooked_leaves
        return _sum_of(None if known is None else known[1], is_hooked)

    def makers(self, backward: Backward, record: dict[str, Any]) -> list[Makers]:
        """Who made the gradients in the record of a call, which is over with it."""
        flow: CallGradients | None = backward.flow
        if flow is None:
            return []
        is_module = bool(backward.call.path)
        by_place = is_module or backward.by_argument
        makers: list[Makers]
        if self._compiled is not None:
            sent = backward.sent
            makers = self._compiled.makers_of(flow, sent, record, by_place, _sum_of, _UNKNOWN)
        else:
            makers = _makers_of(flow, backward.sent, record, by_place)
        if is_module:
            items = record.get("output") or ()
            inner = [sent_inside(flow, n) for n, item in enumerate(items) if item is not None]
            makers.append((_OUTPUT, inner))
        return makers

    def forget(self) -> None:
        self._leaves = {}
        self._hooked_leaves = set()
        self.reached = {}


def _sent_from_inside(graph: Graph, sender: Sender) -> dict[int, list[Share]]:
    """By input of a module, what calls inside send, and where none is recorded the module."""
    inner: dict[int, list[Share]] = {}
    edges: dict[int, list[tuple[NodeFlow, int]]] = {}
    for node, shares in graph.shares.items():
        flow = _flow_of(node)
        for index, positions in shares:
            first = flow.shares.get(index)
            if first is None:
                first = flow.shares[index] = Share(sender, positions[0])
            for position in positions:
                inner.setdefault(position, []).append(first)
                edges.setdefault(position, []).append((flow, index))
    for position, sources in inner.items():
        if any(one.sender is sender for one in sources):
            # Not all that sends from inside is recorded: only the sum is, that of the module.
            sources[:] = [Share(sender, position)]
            for flow, index in edges[position]:
                flow.shares[index] = sources[0]
    return inner


if loaded.compiled is not None:
    loaded.compiled.know_gradients(
        NodeFlow, Share, Sender, CallGradients, _NONE_INSIDE, _NO_SOURCES
    )


def _makers_of(
    flow: CallGradients, sent_items: Sequence[Any], record: dict[str, Any], by_place: bool
) -> list[Makers]:
    """Who made the gradients that a call received; where not ``by_place``, as its last node did."""
    sender = flow.sender
    sent = "input_gradients" if "input_gradients" in record else "output"
    if sent in record:
        if sent == "input_gradients":
            sender.section = _INPUT_GRADIENTS
        if None in sent_items:
            present = [n for n, item in enumerate(sent_items) if item is not None]
            sender.ordinals = {position: n for n, position in enumerate(present)}
        sender.is_over = True
    makers: list[Makers] = []
    for key, section in _RECEIVED:
        received = record.get(key)
        if not received:
            continue
        places = [place for place, item in enumerate(received) if item is not None]
        if by_place or section != _INPUT:
            found = [received_by(flow, place) for place in places]
        elif flow.last is None:
            found = [_UNKNOWN] * len(places)
        else:
            found = [flow.last.found(place) for place in places]
        makers.append((section, found))
    return makers


def received_by(flow: CallGradients, position: int) -> Found:
    """The makers of the gradient of an output."""
    known = flow.received.get(position)
    return _UNKNOWN if known is None else known[0].found(known[1])


def sent_inside(flow: CallGradients, position: int) -> Found | None:
    """Who inside of a module sent the gradient of its input; None for the call itself."""
    sources = flow.inner.get(position)
    if sources is None:
        return _UNKNOWN
    if sources[0].sender is flow.sender:
        return None
    return _sum_of(sources, False)


def _sum_of(sources: Sequence[Source] | None, is_hooked: bool) -> Found:
    if not sources:
        return _UNKNOWN
    if len(sources) == 1 and not is_hooked:
        return _made(Found, (sources[0], 0, ()))
    marks = _SUM if len(sources) > 1 else 0
    if is_hooked or any(isinstance(one, Origin) and not one.kind for one in sources):
        marks |= _INCOMPLETE
    first, *others = dict.fromkeys(sources)
    return Found(first, marks, tuple(others))


def _flow_of(node: Any) -> NodeFlow:
    metadata = node.metadata
    known = metadata.get(_KEY)
    if known is None:
        known = metadata[_KEY] = NodeFlow()
    return known
