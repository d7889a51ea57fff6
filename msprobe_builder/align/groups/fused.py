"""Which operations are written as one call or as many: a hint, and a name for what is found."""

from __future__ import annotations

from functools import cache
from importlib import resources

from msprobe_builder.align.evidence.operators import forms
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind
from msprobe_builder.graph.tree import Tree
from msprobe_builder.operators.table import paired_name, row_of


@cache
def fusions() -> tuple[tuple[str, frozenset[str], frozenset[str]], ...]:
    """The table ``fused.tsv``: operation, names of one call of it, what it cannot do without."""
    text = resources.files(__package__).joinpath("fused.tsv").read_text("utf-8")
    lines = [line.split(":") for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(
        (name.strip(), frozenset(one.split()), frozenset(many.split())) for name, one, many in lines
    )


def name_of(pairs: Pairs, npu: list[int], bench: list[int]) -> str:
    """What all calls of a group do: its one telling call, or what the table says."""
    sides = [
        operators_of(pairs.npu.outline.tree, npu),
        operators_of(pairs.bench.outline.tree, bench),
    ]
    for one, many in (sides, sides[::-1]):
        for name, calls, parts in fusions():
            if calls & set(one) and parts <= set(many) and len(many) >= len(one):
                return name
    telling = [[name for name in side if not forms(row_of(name))] for side in sides]
    shorter, longer = sorted(telling, key=len)
    for names in (shorter, longer):
        if len(set(names)) == 1:
            return names[0]
    for name, _, parts in fusions():
        if parts <= set(longer) or parts <= set(shorter):
            return name
    for names in (shorter, longer, *sides):
        if names:
            return names[-1]
    return "call"


def operators_of(tree: Tree, nodes: list[int]) -> list[str]:
    """The operation of each call, the class of each module without calls."""
    names = [tree.parsed[node] for node in nodes]
    return [
        paired_name(name.stem) if name.kind is Kind.API else name.stem.rpartition(".")[2].lower()
        for name in names
    ]
