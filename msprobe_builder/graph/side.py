"""One side of a comparison, read and ordered."""

from __future__ import annotations

from dataclasses import dataclass

from msprobe_builder.dump.read import Dump
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.tree import Tree


@dataclass(frozen=True)
class Side:
    """A dump, its hierarchy, and its parameters in the order of the hierarchy.

    A side merged from many ranks says where they came from; any other has no ``provenance``.
    """

    dump: Dump
    tree: Tree
    table: ParameterTable
    provenance: Provenance | None = None
