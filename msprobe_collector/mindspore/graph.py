"""MindSpore's graph of gradients, with nodes that are equal when they are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msprobe_collector.record.framework import Edge


class GraphNode:
    """One node; MindSpore hands out a new object for it each time it is asked."""

    __slots__ = ("_node", "_number")

    def __init__(self, node: Any) -> None:
        self._node = node
        self._number: int = node._sequence_nr()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GraphNode) and other._number == self._number

    def __hash__(self) -> int:
        return hash(self._number)

    @property
    def next_functions(self) -> list[tuple[GraphNode | None, int]]:
        """Where the gradients go that it computes, and to which output there."""
        return [
            (None if node is None else GraphNode(node), index)
            for node, index in self._node.next_functions
        ]

    def leaf_name(self) -> str | None:
        """Of the tensor it stands for, None if it computes something."""
        return str(self._node.name()) if self._node.is_leaf() else None

    def _sequence_nr(self) -> int:
        return self._number

    def register_prehook(self, hook: Callable[[Any], None]) -> Any:
        return self._node.register_prehook(hook)

    def register_hook(self, hook: Callable[[Any, Any], None]) -> Any:
        """Call ``hook`` with what the node sends and received.

        Arguments that are no tensors have places among what it sends; the last ones are cut off.
        """
        places = 1 + max((n for n, (node, _) in enumerate(self.next_functions) if node), default=-1)

        def cut(sent: Any, received: Any) -> None:
            hook(sent[:places], received)

        return self._node.register_hook(cut)


class Graph:
    """Edges of tensors, and the number up to which nodes are known."""

    def __init__(self) -> None:
        self._next = 0

    def edges_of(self, tensors: Sequence[Any]) -> list[Edge | None]:
        return [self._edge_of(tensor, with_leaf=True) for tensor in tensors]

    def results_of(self, tensors: Sequence[Any]) -> list[Edge | None]:
        return [self._edge_of(tensor, with_leaf=False) for tensor in tensors]

    def next_node(self) -> int:
        """Above all nodes that were seen: MindSpore counts, but does not say how far."""
        return self._next

    def leaf_key(self, node: GraphNode) -> Edge | None:
        name = node.leaf_name()
        return None if name is None else (f"leaf {name}", -1)

    def _edge_of(self, tensor: Any, with_leaf: bool) -> Edge | None:
        raw = tensor._grad_node
        if raw is None:
            return None
        node = GraphNode(raw)
        leaf = self.leaf_key(node)
        if leaf is not None:
            return leaf if with_leaf else None
        self._next = max(self._next, node._sequence_nr() + 1)
        return node, tensor._output_index
