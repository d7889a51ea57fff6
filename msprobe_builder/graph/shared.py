"""What dumps that are read one after the other have alike stands once, and is made once.

Both sides of a comparison, and ranks that share out a model, mostly have the same calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.dump.construct import Construct
from msprobe_builder.dump.latest import Latest
from msprobe_builder.dump.names import parse_name
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.dump.read import Dump
from msprobe_builder.dump.stack import Stacks
from msprobe_builder.graph.parameter_table import ParameterTable, order_parameters
from msprobe_builder.graph.tree import LARGE, Tree, build_tree


@dataclass(frozen=True)
class _Calls:
    """All that a tree follows from; equal where the same calls are recorded in the same order."""

    construct: Construct
    records: dict[str, int]
    recomputed: frozenset[int]
    is_merged: bool

    def equal(self, other: _Calls) -> bool:
        one, two = self.construct, other.construct
        return (
            (self.is_merged, self.recomputed, one.micro_steps)
            == (other.is_merged, other.recomputed, two.micro_steps)
            and _equal(one.parent, two.parent)
            and _equal(self.records, other.records)
            and _equal(one.micro_step, two.micro_step)
        )


class Shared:
    """Hierarchies and columns of parameters, those of the latest dump where they are equal."""

    def __init__(self) -> None:
        self.latest = Latest()
        self._calls: _Calls | None = None
        self._tree: tuple[Tree, list[Diagnostic]] | None = None
        self._table: ParameterTable | None = None
        self._read = Stacks()
        self._stacks = self._read.compact()

    def tree(self, dump: Dump) -> tuple[Tree, list[Diagnostic]]:
        """What :func:`build_tree` gives."""
        calls = _Calls(dump.construct, dump.records, dump.recomputed, dump.is_merged)
        if self._tree is None or self._calls is None or not calls.equal(self._calls):
            self._tree = build_tree(dump)
            if len(self._tree[0]) >= LARGE:
                # It holds no names, and any that stays keeps a megabyte around it.
                parse_name.cache_clear()
        self._calls = calls
        tree, found = self._tree
        return tree, list(found)

    def stacks(self, stacks: Stacks) -> Stacks:
        """The same in little memory, with the numbers of the latest dump where they are equal."""
        if stacks is not self._read:
            if _equal(stacks.of_name, self._read.of_name):
                self._stacks = replace(stacks, of_name=self._stacks.of_name)
            else:
                self._stacks = stacks.compact()
                if len(stacks.of_name) >= LARGE:
                    parse_name.cache_clear()
            self._read = stacks
        return self._stacks

    def table(self, tree: Tree, parameters: Parameters) -> ParameterTable:
        """What :func:`order_parameters` gives."""
        self._table = order_parameters(tree, parameters, self._table)
        return self._table


def _equal(one: Mapping[str, object] | None, other: Mapping[str, object] | None) -> bool:
    """Whether two dicts have the same keys and values in the same order."""
    if one is other or one is None or other is None:
        return one is other
    return list(one) == list(other) and list(one.values()) == list(other.values())
