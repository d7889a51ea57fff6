"""Weights that two pipeline stages hold alike: the embedding tied to the output layer.

Or the one that words pass in the first stage, and in the last one the words that follow them. Each
stage has but its share of such a weight's gradient. The stages add them up afterwards, in a call
that says nothing of single tensors, so the gradients are marked unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from msprobe_builder.dump.names import parse_gradients
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.merge.flow.parallel_layers import module_stem
from msprobe_builder.merge.join.stages import MergedNode
from msprobe_builder.merge.join.tied_weights import tied_modules, used_elsewhere
from msprobe_builder.merge.ranks.part import StageGraph

_ALL_MISSING = 0b1111
_WHY = fact("unmerged.tied")


class _Shown(NamedTuple):
    """A node at its place in the order of the whole model, and the list that holds it."""

    place: int
    siblings: list[MergedNode]
    node: MergedNode


def join_gradients(top: list[MergedNode]) -> None:
    """One gradient of each weight for each micro-batch, where its last share is added.

    Stages that call one module in other places each show a gradient of it there.
    """
    shares: dict[str, dict[int, list[_Shown]]] = {}
    for shown in _gradients(top):
        [stem, _] = parse_gradients(shown.node.name.stem) or ("", None)
        for stage in {call.stage for call in shown.node.calls}:
            shares.setdefault(stem, {}).setdefault(stage, []).append(shown)
    for by_stage in shares.values():
        if len({len(own) for own in by_stage.values()}) > 1:
            continue
        for several in zip(*by_stage.values(), strict=True):
            *others, kept = sorted(several, key=lambda one: one.place)
            if any(one.node is kept.node for one in others):
                continue  # was joined already
            kept.node.calls = sorted(call for one in several for call in one.node.calls)
            kept.node.is_split = len(kept.node.calls) > 1
            for one in others:
                one.siblings[:] = [node for node in one.siblings if node is not one.node]


def _gradients(top: list[MergedNode]) -> Iterator[_Shown]:
    """Nodes of gradients of parameters in order."""
    pending = [(top, node) for node in reversed(top)]
    place = 0
    while pending:
        siblings, node = pending.pop()
        place += 1
        if parse_gradients(node.name.stem):
            yield _Shown(place, siblings, node)
        pending += [(node.children, child) for child in reversed(node.children)]


def without_tied_gradients(
    table: ParameterTable,
    provenance: Provenance,
    nodes: Sequence[MergedNode],
    stages: Sequence[StageGraph],
) -> tuple[ParameterTable, Provenance]:
    """The rows with the gradients of tied weights marked unknown."""
    copies = tied_modules(stages)
    tied = {*copies, *copies.values(), *used_elsewhere(stages)}
    joined = {
        index
        for index, node in enumerate(nodes)
        if node.is_split and parse_gradients(node.name.stem)
    }
    if not tied and not joined:
        return table, provenance
    gradients = table.section == Section.PARAMETERS_GRAD
    rows = {
        row
        for row in np.flatnonzero(gradients).tolist()
        if int(table.node[row]) in joined
        or any(
            (stage, module_stem(stages[stage].tree.parsed[node])) in tied
            for stage, node in nodes[table.node[row]].calls
        )
    }
    missing, statistics = table.missing.copy(), table.statistics.copy()
    missing[[*rows]] = _ALL_MISSING
    statistics[:, [*rows]] = np.nan
    table = replace(
        table,
        missing=missing,
        statistics=statistics,
        md5={row: text for row, text in table.md5.items() if row not in rows},
        file={row: text for row, text in table.file.items() if row not in rows},
    )
    return table, provenance.without(rows, _WHY)
