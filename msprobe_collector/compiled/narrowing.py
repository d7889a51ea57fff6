"""Which call of a compiled region departs from eager, and which part of the compiler did it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node

from msprobe_builder.facts.fact import Fact, fact
from msprobe_collector.compiled.backends import Region
from msprobe_collector.compiled.comparing import (
    Departure,
    copy_of,
    departures,
    generators_kept,
)
from msprobe_collector.signals import pass_on_if_of_signal

# Parts of the compiler, one more each: what torch.compile captures is never at fault in the first.
_STAGES = (
    ("aot_eager", fact("run.operators_made")),
    ("aot_eager_decomp_partition", fact("run.operators_decomposed")),
)
_MOST_CALLS = 200  # that are compiled one by one


@dataclass(frozen=True)
class Culprit:
    """A call that departs when it is compiled."""

    node: Node
    is_backward: bool
    alone: bool  # it does so without the rest of the region
    departure: Departure


def compiled(graph: GraphModule, backend: Any) -> Callable[..., Any]:
    """A graph compiled anew."""
    return torch.compile(graph, backend=backend, dynamic=False)


def part_at_fault(region: Region, args: Sequence[Any], drawn: bool) -> Fact:
    """What the compiler does that departs first; the backend's own work if nothing before."""
    for name, does in _STAGES:
        if name == region.backend:
            break
        if departures(region.graph, compiled(_copied(region.graph), name), args, drawn=drawn):
            return fact("run.part_of_compiler", does=does, name=name)
    name = getattr(region.backend, "compiler_name", region.backend)
    shown = name if isinstance(name, str) else fact("run.backend")
    return fact("run.part_of_backend", name=shown)


def culprit(region: Region, args: Sequence[Any], drawn: bool) -> Culprit | None:
    """The first call whose result departs; of gradients, the call that departs by itself."""
    opened, nodes = _with_all_values(region.graph)
    run = compiled(_copied(opened), region.backend)
    found = departures(opened, run, args, backward=False, drawn=drawn)
    if found:
        first = min(found, key=lambda one: one.position)
        return Culprit(nodes[first.position], False, False, first)
    return next(_alone(region, args, drawn), None)


def _alone(region: Region, args: Sequence[Any], drawn: bool) -> Iterator[Culprit]:
    """Calls that depart when they are compiled by themselves, the last first."""
    values = _Values(region.graph)
    with torch.no_grad(), generators_kept():
        values.run(*[copy_of(one) for one in args])
    known: set[str] = set()
    for node in list(reversed(region.calls))[:_MOST_CALLS]:
        graph, given = _graph_of(region.graph, node, values.found)
        kind = f"{node.target} {[_kind_of(one) for one in given]} {node.args} {node.kwargs}"
        if graph is None or kind in known:
            continue
        known.add(kind)
        try:
            with torch.enable_grad():
                run = compiled(_copied(graph), region.backend)
                found = departures(graph, run, given, drawn=drawn)
        except Exception as error:  # it cannot be compiled without the rest
            pass_on_if_of_signal(error)
            continue
        if found:
            yield Culprit(node, found[0].is_gradient, True, found[0])


def _kind_of(value: Any) -> Any:
    return (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else value


class _Values(Interpreter):
    """Runs a graph and keeps copies of what its calls are given."""

    def __init__(self, graph: GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.found: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        self.found[n] = result.clone() if isinstance(result, torch.Tensor) else result
        return result


def _graph_of(
    module: GraphModule, node: Node, values: dict[Node, Any]
) -> tuple[GraphModule | None, list[Any]]:
    """A graph of one call alone and what it was given, None if no tensor was."""
    graph = Graph()
    given: list[Any] = []
    inputs: dict[Node, Any] = {}
    for one in node.all_input_nodes:
        value = values[one]
        if isinstance(value, torch.Tensor):
            inputs[one] = graph.placeholder(f"input_{len(given)}")
            takes_gradient = getattr(_example(one), "requires_grad", False)
            given.append(value.detach().requires_grad_(takes_gradient))
        else:
            inputs[one] = value
    if not given or any(isinstance(one, list | tuple) for one in inputs.values()):
        return None, []
    made = graph.node_copy(node, lambda one: inputs[one])
    graph.output((made,))
    return GraphModule(module, graph), given


def _with_all_values(module: GraphModule) -> tuple[GraphModule, list[Node]]:
    """The graph that returns all tensors that its calls make, and which call made each."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    made: list[Node] = []
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        copies[node] = graph.node_copy(node, lambda one: copies[one])
        if node.op != "placeholder" and isinstance(_example(node), torch.Tensor):
            made.append(node)
    graph.output(tuple(copies[node] for node in made))
    return GraphModule(module, graph), made


def _example(node: Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def _copied(module: GraphModule) -> GraphModule:
    return GraphModule(module, copy.deepcopy(module.graph))
