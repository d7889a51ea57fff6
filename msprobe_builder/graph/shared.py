"""What dumps that are read one after the other have alike stands once, and is made once.

Both sides of a comparison, and ranks that share out a model, mostly have the same calls.
"""

from __future__ import annotations

from dataclasses import replace
from operator import eq

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.dump.read import Dump
from msprobe_builder.dump.stack import Stacks
from msprobe_builder.graph.parameter_table import ParameterTable, order_parameters
from msprobe_builder.graph.tree import Tree, build_tree


class Shared:
    """Hierarchies and columns of parameters, those of the latest dump where they are equal."""

    def __init__(self) -> None:
        self._latest: tuple[Dump, Tree, list[Diagnostic]] | None = None
        self._table: ParameterTable | None = None
        self._stacks = Stacks()
        self.names: dict[str, str] = {}  # of all calls, each text once

    def tree(self, dump: Dump) -> tuple[Tree, list[Diagnostic]]:
        """What :func:`build_tree` gives."""
        if self._latest is None or not _are_alike(self._latest[0], dump):
            rest = replace(dump, parameters=dump.parameters.without_rows(), stacks=Stacks())
            self._latest = rest, *build_tree(dump)
        _, tree, found = self._latest
        return tree, list(found)

    def stacks(self, stacks: Stacks) -> Stacks:
        """The same stacks, or those of the latest dump where they are equal."""
        if stacks != self._stacks:
            self._stacks = stacks
        return self._stacks

    def table(self, tree: Tree, parameters: Parameters) -> ParameterTable:
        """What :func:`order_parameters` gives."""
        self._table = order_parameters(tree, parameters, self._table)
        return self._table


def _are_alike(one: Dump, other: Dump) -> bool:
    """Whether two dumps record the same calls in the same order; all that a tree depends on."""
    return (
        one.construct == other.construct
        and one.recomputed == other.recomputed
        and one.is_merged == other.is_merged
        and all(
            len(left) == len(right) and all(map(eq, left, right))
            for left, right in (
                (one.construct.parent, other.construct.parent),
                (one.records, other.records),
            )
        )
    )
