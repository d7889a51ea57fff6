"""One side of a comparison: hierarchy, parameters, and calls as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree


@dataclass(frozen=True)
class Part:
    """The hierarchy and the parameters of one side."""

    tree: Tree
    table: ParameterTable

    @property
    def calls(self) -> Calls:
        """The nodes as columns."""
        return self.tree.calls


def rows_of(table: ParameterTable, node: int) -> range:
    """All rows of a node: they stand in the order of nodes."""
    first = table.first
    return range(first[node], first[node + 1]) if node + 1 < len(first) else range(0)


def inputs_of(table: ParameterTable, node: int) -> NDArray[np.int64]:
    """The rows of the tensors that a node is given, without its parameters."""
    rows, first = table.given
    here = slice(first[node], first[node + 1]) if node + 1 < len(first) else slice(0)
    return rows[here].astype(np.int64)


def tensors_of(table: ParameterTable, node: int, section: int) -> NDArray[np.int64]:
    """The rows of the tensors of a section of a node."""
    rows = rows_of(table, node)
    here = slice(rows.start, rows.stop)
    chosen = table.is_tensor[here] & (table.section[here] == int(section))
    return np.asarray(rows.start + chosen.nonzero()[0])


def outermost(part: Part) -> NDArray[np.bool_]:
    """Nodes that stand in no module and in no call."""
    parent = part.tree.parent
    return np.asarray((parent <= 0) | (part.calls.kind[parent] == Kind.COLLECTION))


def put_out_by(part: Part, nodes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rows that some nodes put out."""
    return np.asarray(nodes[part.table.node] & (part.table.section == Section.OUTPUT))
