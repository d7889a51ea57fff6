"""One side of a comparison, read and ordered."""

from __future__ import annotations

from dataclasses import dataclass, field

from msprobe_builder.dump.read import Dump
from msprobe_builder.graph.assembly import Assembly
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree


@dataclass(frozen=True)
class Side:
    """A dump, its hierarchy, and its parameters in the order of the hierarchy.

    A side merged from many ranks has the ranks of each node in ``origins``, and says by row of
    the table: in ``recipes`` how a value was made, in ``assemblies`` of which files its data
    consist (None of a side that was not merged), in ``unknown`` why it cannot be compared.
    """

    dump: Dump
    tree: Tree
    table: ParameterTable
    origins: list[tuple[int, ...]] = field(default_factory=list)
    recipes: dict[int, str] = field(default_factory=dict)
    assemblies: dict[int, Assembly] | None = None
    unknown: dict[int, str] = field(default_factory=dict)
