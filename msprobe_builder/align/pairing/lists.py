"""What modules hold as lists, of thousands of modules at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Items:
    """The items of lists, list after list, each in the order of the program.

    ``depth`` tells how many modules were dissolved to reach one, ``of`` the number of its list.
    """

    nodes: Int
    depth: Int
    of: Int

    @property
    def number(self) -> int:
        """How many lists there are, up to the last that holds anything."""
        return int(self.of.max(initial=-1)) + 1

    def of_list(self, number: int) -> Items:
        """The items of one list."""
        which = slice(*np.searchsorted(self.of, [number, number + 1]))
        return Items(self.nodes[which], self.depth[which], self.of[which])


@dataclass(frozen=True)
class Lists:
    """The nodes of one direction by the module that makes them, collections seen through."""

    side: Traits
    nodes: Int
    hosts: Int

    @staticmethod
    def of(side: Traits, takes_part: Bool) -> Lists:
        """The nodes that take part, by host and then in order."""
        nodes = np.flatnonzero(takes_part)
        nodes = nodes[np.argsort(side.outline.host[nodes], kind="stable")]
        return Lists(side, nodes, side.outline.host[nodes])

    def inside(self, hosts: Int) -> Items:
        """What modules hold, in order: a list for each."""
        begin, end = np.searchsorted(self.hosts, hosts), np.searchsorted(self.hosts, hosts + 1)
        size = end - begin
        of = np.repeat(np.arange(len(hosts)), size)
        nodes = self.nodes[np.arange(len(of)) + (begin - np.cumsum(size) + size)[of]]
        return Items(nodes, np.zeros_like(of), of)

    def tops(self) -> Items:
        """What stands in no module: a list for each micro-step."""
        nodes = self.inside(np.zeros(1, dtype=np.int64)).nodes
        step = self.side.outline.tree.micro_step[nodes]
        order = np.argsort(step, kind="stable")
        return Items(nodes[order], np.zeros_like(nodes), step[order])

    def opened(self, items: Items, partner: Int, dissolved: Bool) -> Items:
        """Items with dissolved modules without a partner replaced by what they hold."""
        while (closed := dissolved[items.nodes] & (partner[items.nodes] < 0)).any():
            held = self.inside(items.nodes[closed])
            depth, of = items.depth[closed][held.of] + 1, items.of[closed][held.of]
            nodes = np.r_[items.nodes[~closed], held.nodes]
            depth, of = np.r_[items.depth[~closed], depth], np.r_[items.of[~closed], of]
            order = np.lexsort((nodes, of))
            items = Items(nodes[order], depth[order], of[order])
        return items
