"""What is merged: the graph of one pipeline stage, and the pieces of it."""

from __future__ import annotations

from dataclasses import dataclass

from msprobe_builder.dump.read import Dump
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.tree import Tree


@dataclass(frozen=True)
class StageGraph:
    """One pipeline stage after its tensor-parallel ranks were merged.

    ``ranks`` are the ranks it came from, of all nodes for which the provenance names no others.
    """

    dump: Dump
    tree: Tree
    table: ParameterTable
    ranks: tuple[int, ...]
    provenance: Provenance = Provenance()

    def ranks_of(self, node: int) -> tuple[int, ...]:
        """The ranks a node came from."""
        origins = self.provenance.origins
        return origins[node] if origins else self.ranks
