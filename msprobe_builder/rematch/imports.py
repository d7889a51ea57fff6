"""Matches from a match file, made in a database that is already there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msprobe_builder.database.read.graphs import BENCH, NPU, read_graphs
from msprobe_builder.database.read.groups import group_of_both
from msprobe_builder.database.read.matches import partner_of
from msprobe_builder.database.read.names import find_nodes
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.match.match_file import ChosenPair, as_known
from msprobe_builder.rematch.edits import REJECT, Edits, end, make, reject_group
from msprobe_builder.rematch.graphs import GraphPair


@dataclass(frozen=True)
class Imported:
    """What became of one pair of the file: in how many graphs it was made or there already, of a
    rejected one in how many it was ended or not there."""

    pair: ChosenPair
    matched: int
    present: int
    swapped: bool  # its names belong to the other sides
    problem: Fact | None  # why it was left out, at least in one graph


@dataclass
class _Found:
    """Nodes by name, and who took them in this import."""

    nodes: dict[tuple[int, str], int]  # by first node of the graph
    taken: dict[int, str]

    def known(self, first: int) -> Callable[[str], bool]:
        """Whether the graph that begins with the node ``first`` has a node of a name."""
        return lambda name: (first, name) in self.nodes


def import_pairs(
    edits: Edits, pairs: list[GraphPair], chosen: list[ChosenPair], *, replace: bool
) -> list[Imported]:
    """Match the pairs of a file; the first pair of a node counts."""
    names = {name for pair in chosen for name in (pair.npu, pair.bench)}
    nodes = find_nodes(edits.connection, names)
    first = {graph.graph_id: graph.first for graph in read_graphs(edits.connection)}
    found = _Found(
        {(first[graph], name): node for name, places in nodes.items() for graph, node in places},
        {},
    )
    return [_import(edits, pairs, one, found, replace) for one in chosen]


def _import(
    edits: Edits, pairs: list[GraphPair], chosen: ChosenPair, found: _Found, replace: bool
) -> Imported:
    matched = present = 0
    swapped = False
    problems: list[Fact] = []
    for pair in _places(pairs, chosen):
        npu, bench = pair.npu.first, pair.bench.first
        *names, is_swapped = as_known(chosen, found.known(npu), found.known(bench))
        i, j = found.nodes.get((npu, names[0])), found.nodes.get((bench, names[1]))
        if chosen.rejected and i is not None and j is not None:
            swapped |= is_swapped
            if partner_of(edits.connection, NPU, i) == j:
                end(edits, i, j, "file", REJECT)
                matched += 1
            elif (group := group_of_both(edits.connection, i, j)) is not None:
                reject_group(edits, group, i, j, "file")
                matched += 1
            else:
                present += 1
            continue
        problem = _problem(edits, pair, names, i, j, found, replace)
        if problem is not None:
            place = {"step": pair.step, "rank": pair.rank}
            problems.append(fact("import_problem.place", **place, why=problem))
            continue
        assert i is not None
        assert j is not None
        found.taken |= {i: names[1], j: names[0]}
        swapped |= is_swapped
        if partner_of(edits.connection, NPU, i) == j:
            present += 1
        else:
            make(edits, i, j, "file")
            matched += 1
    if not matched and not present and not problems:
        problems = [fact("import_problem.no_place")]
    return Imported(chosen, matched, present, swapped, _shortened(problems))


def _places(pairs: list[GraphPair], chosen: ChosenPair) -> Iterator[GraphPair]:
    for pair in pairs:
        if chosen.step in (None, pair.step) and chosen.rank in (None, pair.rank):
            yield pair


def _problem(
    edits: Edits,
    pair: GraphPair,
    names: list[str],
    i: int | None,
    j: int | None,
    found: _Found,
    replace: bool,
) -> Fact | None:
    """Why two nodes cannot be matched; None when they can."""
    if i is None:
        return fact("import_problem.no_npu_node", name=names[0])
    if j is None:
        return fact("import_problem.no_bench_node", name=names[1])
    if (i == pair.npu.first) != (j == pair.bench.first):
        return fact("import_problem.root")
    for node, name in zip((i, j), names, strict=True):
        if node in found.taken:
            return fact("import_problem.earlier", name=name, other=found.taken[node])
    if replace or partner_of(edits.connection, NPU, i) == j:
        return None
    if partner_of(edits.connection, NPU, i) is not None:
        return fact("import_problem.matched", name=names[0])
    if partner_of(edits.connection, BENCH, j) is not None:
        return fact("import_problem.matched", name=names[1])
    return None


def _shortened(problems: list[Fact]) -> Fact | None:
    if len(problems) > 1:
        return fact("import_problem.more", why=problems[0], more=len(problems) - 1)
    return next(iter(problems), None)
