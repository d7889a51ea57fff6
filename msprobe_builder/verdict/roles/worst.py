"""The worst that each node was given or has put out, in arrays."""

from __future__ import annotations

from array import array


class Worst:
    """An error of each node and the finding it stems from, -1 for none.

    As pairs of Python's own they would take ten times the room.
    """

    def __init__(self, nodes: int) -> None:
        self.error = array("d", bytes(8 * nodes))
        self.root = array("i", [-1]) * nodes

    def __getitem__(self, node: int) -> tuple[float, int]:
        return self.error[node], self.root[node]

    def __setitem__(self, node: int, worst: tuple[float, int]) -> None:
        self.error[node], self.root[node] = worst
