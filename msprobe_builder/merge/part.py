"""What is merged: the graph of one pipeline stage, and the pieces of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from msprobe_builder.dump.read import Dump
from msprobe_builder.graph.assembly import Assembly
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree


@dataclass(frozen=True)
class StageGraph:
    """One pipeline stage after its tensor-parallel ranks were merged.

    ``ranks`` are the ranks it came from. By row of ``table``: ``recipes`` says how a merged value
    was made, ``assemblies`` of which files its data consist, ``unknown`` why it is not known.
    ``origins`` has the ranks of each node where they are not the same for all.
    """

    dump: Dump
    tree: Tree
    table: ParameterTable
    ranks: tuple[int, ...]
    recipes: dict[int, str] = field(default_factory=dict)
    origins: list[tuple[int, ...]] = field(default_factory=list)
    assemblies: dict[int, Assembly] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)

    def ranks_of(self, node: int) -> tuple[int, ...]:
        """The ranks a node came from."""
        return self.origins[node] if self.origins else self.ranks
