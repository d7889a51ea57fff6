"""The gradients of a call's inputs and outputs.

A call adds nodes to the autograd graph between its inputs and its outputs. The node of an output
receives the whole gradient of that output; a node with an edge to an input sends this call's
contribution to the gradient of that input. Both are read by hooks on these nodes: no tensor is
viewed, copied or marked, and a tensor that is used elsewhere, too, keeps the shares apart.

The established dumps show of an API what its *last* node, that of the first output, receives and
sends. So both are collected; they differ where a call adds several nodes, or orders its gradients
in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

from msprobe_collector.record.calls import Call
from msprobe_collector.record.framework import Edge, Framework, Item

Gradients: TypeAlias = "tuple[Any, ...]"  # None where there is none
_NONE: frozenset[Any] = frozenset()


class Backward:
    """Collects the gradients of one call until its last node has run."""

    __slots__ = (
        "__weakref__",
        "_add",
        "_at_last_node",
        "_describe",
        "_missing",
        "_sums",
        "_unknown",
        "by_argument",
        "call",
        "done",
        "elsewhere",
        "flow",
        "is_over",
        "last_received",
        "last_sent",
        "received",
        "sent",
        "task",
        "waiting_nodes",
    )

    def __init__(
        self,
        call: Call,
        inputs: int,
        outputs: int,
        describe: Callable[[Any, str], Item | None],
        add: Callable[[Any, Any], Any],
        by_argument: bool,
    ) -> None:
        self.call = call
        self.received: list[Item | None] = [None] * outputs
        self.sent: list[Item | None] = [None] * inputs
        self.last_received: Sequence[Item | None] = ()
        self.last_sent: Sequence[Item | None] = ()
        self.is_over = False  # but a call inside it is not
        self.by_argument = by_argument  # of nothing else is a record made
        self.task = -1  # of the autograd engine, once it began
        self.flow: Any = None  # who sends what it receives, where that is recorded
        self.done = False
        self.waiting_nodes = 0
        self._describe = describe
        self._add = add
        self._missing: dict[int, int] = {}
        self._sums: dict[int, Any] = {}
        self._unknown: frozenset[int] = _NONE  # inputs whose shares cannot be added here
        self.elsewhere: frozenset[str] = _NONE  # sides of which not all is at the last node
        # What the last node handles while it runs, so that nothing is described twice.
        self._at_last_node: dict[tuple[str, int], list[Item]] = {}

    def pass_last_node(self, sent: Gradients, received: Gradients, is_own: bool) -> None:
        """What the last node of an API received and sent, as the established dumps have it.

        A call that only hands its input on has no node of its own: what comes goes on.
        """
        self.last_received = self._describe_all(received, "input", "output_gradients")
        if not is_own:
            sent = received
        self.last_sent = self._describe_all(sent, "output", "input_gradients")

    def _describe_all(self, gradients: Gradients, key: str, side: str) -> list[Item | None]:
        found = []
        for position, gradient in enumerate(gradients):
            item = None
            if gradient is not None:
                item = self._describe(gradient, f"{key}.{position}")
                if item is not None:
                    self._at_last_node.setdefault((side, id(gradient)), []).append(item)
            found.append(item)
        return found

    def leave_last_node(self) -> None:
        self._at_last_node.clear()

    def _item(self, gradient: Any, side: str, position: int) -> Item | None:
        """The record of a gradient of an output or an input; that at the last node if it is one."""
        known = self._at_last_node.get((side, id(gradient)))
        if known:  # a tensor that is sent twice is there twice
            return known.pop(0) if len(known) > 1 else known[0]
        if self.by_argument:
            side = "input" if side == "output_gradients" else "output"
        else:
            self.elsewhere |= {side}
        return self._describe(gradient, f"{side}.{position}")

    def expect(self, position: int) -> None:
        self._missing[position] = self._missing.get(position, 0) + 1

    def receive(self, position: int, gradient: Any) -> None:
        self.received[position] = self._item(gradient, "output_gradients", position)

    def send(self, position: int, gradient: Any) -> None:
        """One edge's share of the gradient of an input; the shares are added in turn."""
        left = self._missing.get(position, 1) - 1
        self._missing[position] = left
        if gradient is not None:
            before = self._sums.pop(position, None)
            if before is not None:
                gradient = self._add(before, gradient)
                if gradient is None:
                    self._unknown |= {position}
            if left:
                self._sums[position] = gradient
                return
        else:
            gradient = None if left else self._sums.pop(position, None)
        if gradient is not None and position not in self._unknown:
            self.sent[position] = self._item(gradient, "input_gradients", position)

    def settle(self) -> None:
        """Take what has come as the result: no more nodes will run."""
        for position, gradient in self._sums.items():
            if gradient is None or position in self._unknown:
                continue
            self.sent[position] = self._item(gradient, "input_gradients", position)
        self._sums.clear()
        self.done = True


class Events(NamedTuple):
    """What is told of a call's backward, and how failures are."""

    began: Callable[[Backward], None]
    ended: Callable[[Backward], None]
    report: Callable[[str, BaseException], None]
    unseen: Callable[[], AbstractContextManager[None]]


class Graph:
    """The nodes that a call added: whose hooks tell what."""

    __slots__ = ("last", "last_is_own", "outputs", "passed_on", "shares")

    def __init__(self) -> None:
        self.last: Any = None  # the node of the first output
        self.last_is_own = False  # it was made by this call
        # node → (index among its gradients, position of the output)
        self.outputs: dict[Any, list[tuple[int, int]]] = {}
        # node → (index of its edge, positions of the input)
        self.shares: dict[Any, list[tuple[int, list[int]]]] = {}
        # position of an output → positions of the input that is the same tensor
        self.passed_on: dict[int, list[int]] = {}


def trace(
    framework: Framework,
    inputs: Sequence[Edge | None],
    outputs: Sequence[Edge | None],
    first_node: int,
) -> Graph:
    """Find the nodes between ``inputs`` and ``outputs``, made since number ``first_node``."""
    graph = Graph()
    positions: dict[Edge, list[int]] = {}
    for position, key in enumerate(inputs):
        if key is not None:
            positions.setdefault(key, []).append(position)
    waiting: list[Any] = []
    for position, key in enumerate(outputs):
        if key is None:
            continue
        node = key[0]
        if graph.last is None:
            graph.last = node
            graph.last_is_own = key not in positions
        if key in positions:
            graph.passed_on[position] = positions[key]
        elif node not in graph.outputs and node._sequence_nr() >= first_node:
            waiting.append(node)
        graph.outputs.setdefault(node, []).append((key[1], position))
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        for index, (source, number) in enumerate(node.next_functions):
            if source is None:
                continue
            leaf = framework.leaf_key(source)
            if leaf is not None:
                found = positions.get(leaf)
            else:
                found = positions.get((source, number))
                if found is None and source not in seen and source._sequence_nr() >= first_node:
                    seen.add(source)
                    waiting.append(source)
            if found is not None:
                graph.shares.setdefault(node, []).append((index, found))
    _tell_twins_apart(graph)
    return graph


def _tell_twins_apart(graph: Graph) -> None:
    """``x @ x``: a single node with as many edges to a tensor as it is an argument."""
    if len(graph.shares) != 1:
        return
    (shares,) = graph.shares.values()
    if all(len(positions) == 1 for _, positions in shares):
        return
    edges: dict[tuple[int, ...], list[int]] = {}
    for index, (_, positions) in enumerate(shares):
        edges.setdefault(tuple(positions), []).append(index)
    for twins, indexes in edges.items():
        if len(twins) == len(indexes):
            for position, index in zip(twins, indexes, strict=True):
                shares[index] = (shares[index][0], [position])


def watch(graph: Graph, backward: Backward, events: Events) -> None:
    """Hook the nodes of ``graph``; ``events`` tell where the backward of the call begins and ends.

    A module begins before its first node runs, because recomputed calls must find it open. An
    API needs no more than one hook per node.
    """
    for shares in graph.shares.values():
        for _, positions in shares:
            for position in positions:
                backward.expect(position)
    nodes = dict.fromkeys((*graph.outputs, *graph.shares))
    backward.waiting_nodes = len(nodes)
    is_module = bool(backward.call.path)
    if is_module and not graph.shares:
        # Nothing tells when the last node inside runs: the module stays open to the end of the
        # pass, so that what is recomputed inside finds it.
        backward.waiting_nodes += 1
    for node in nodes:
        run = _NodeRun(backward, events, graph, node)
        if is_module and run.outputs:
            node.register_prehook(run.before_node)
            if run.shares:
                node.register_hook(run.after_entered_node)
        else:
            node.register_hook(run.after_node)


class _NodeRun:
    """The hooks of one node. There are many: each is a single object until it has run."""

    __slots__ = ("backward", "events", "is_last", "last_is_own", "outputs", "passed_on", "shares")

    def __init__(self, backward: Backward, events: Events, graph: Graph, node: Any) -> None:
        self.backward = backward
        self.events = events
        self.outputs: Sequence[tuple[int, int]] = graph.outputs.get(node, ())
        self.shares: Sequence[tuple[int, list[int]]] = graph.shares.get(node, ())
        self.passed_on = graph.passed_on
        self.is_last = node is graph.last and not backward.by_argument  # of an API
        self.last_is_own = graph.last_is_own

    def before_node(self, received: Gradients) -> None:
        backward, events = self.backward, self.events
        if backward.done:
            return
        try:
            with events.unseen():
                events.began(backward)
                self._receive(received)
                if not self.shares:
                    self._count()
        except Exception as error:
            self._fail(error)

    def after_entered_node(self, sent: Gradients, _received: Gradients) -> None:
        if self.backward.done:
            return
        try:
            with self.events.unseen():
                self._send(sent)
                self._count()
        except Exception as error:
            self._fail(error)

    def after_node(self, sent: Gradients, received: Gradients) -> None:
        backward, events = self.backward, self.events
        if backward.done:
            return
        try:
            with events.unseen():
                events.began(backward)
                if self.is_last:
                    backward.pass_last_node(sent, received, self.last_is_own)
                self._receive(received)
                self._send(sent)
                if self.is_last:
                    backward.leave_last_node()
                self._count()
        except Exception as error:
            self._fail(error)

    def _receive(self, received: Gradients) -> None:
        for index, position in self.outputs:
            gradient = received[index] if index < len(received) else None
            if gradient is not None:
                self.backward.receive(position, gradient)
                for source in self.passed_on.get(position, ()):
                    self.backward.send(source, gradient)

    def _send(self, sent: Gradients) -> None:
        for index, positions in self.shares:
            gradient = sent[index] if index < len(sent) else None
            for position in positions:
                self.backward.send(position, gradient)

    def _count(self) -> None:
        self.backward.waiting_nodes -= 1
        if self.backward.waiting_nodes == 0:
            self.events.ended(self.backward)

    def _fail(self, error: Exception) -> None:
        """This record cannot be made; the pass goes on."""
        self.backward.done = True
        self.events.report(self.backward.call.backward_name, error)


class OpenBackwards:
    """Backward calls that have begun and wait for more gradients, oldest first."""

    def __init__(self) -> None:
        self._open: dict[Backward, None] = {}

    def add(self, backward: Backward) -> None:
        self._open[backward] = None

    def remove(self, backward: Backward) -> None:
        self._open.pop(backward, None)

    def of_task(self, task: int) -> list[Backward]:
        return [backward for backward in list(self._open) if backward.task == task]

    def all(self) -> list[Backward]:
        return list(self._open)

    def has_inside(self, call: Call) -> bool:
        """Whether a call that ``call`` made is open."""
        return any(backward.call.parent is call for backward in list(self._open))

    def waiting_for(self, call: Call) -> Backward | None:
        """The module around ``call`` if it is over but for what is inside."""
        for backward in list(self._open):
            if backward.is_over and backward.call is call.parent:
                return backward
        return None

    def enclosing(self, path: str) -> Call | None:
        """The module whose backward runs around a call at ``path`` ("" for an API)."""
        for backward in reversed(list(self._open)):
            candidate = backward.call
            if candidate.path and (not path or path.startswith(candidate.path + ".")):
                return candidate
        return None
