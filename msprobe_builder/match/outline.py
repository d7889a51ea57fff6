"""One side of a comparison as matching sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Kind
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.signature import Signatures, signatures

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Outline:
    """A hierarchy with what matching needs to know of each node.

    ``host`` is the parent, seen through collections: the module that makes the call, the root
    for a call between modules. ``host`` of the root and of its children is the root.
    """

    tree: Tree
    signatures: Signatures
    kind: Int
    host: Int

    def __len__(self) -> int:
        return len(self.tree)


def outline_of(tree: Tree, table: ParameterTable) -> Outline:
    """Prepare one side."""
    kind = tree.calls.kind.astype(np.int64)
    parent = np.maximum(tree.parent, 0)
    in_collection = kind[parent] == Kind.COLLECTION
    host = np.where(in_collection, parent[parent], parent)
    return Outline(tree, signatures(table, len(tree)), kind, host)


def levels(depth: Int, nodes: Int) -> Iterator[Int]:
    """``nodes`` in groups of equal depth, the nearest to the root first."""
    if not len(nodes):
        return
    order = nodes[np.argsort(depth[nodes], kind="stable")]
    yield from np.split(order, np.flatnonzero(np.diff(depth[order])) + 1)
