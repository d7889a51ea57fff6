"""What the split of layers over ranks explains, against the rules of it in plain words."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.observations import surprise
from msprobe_builder.verdict.ranks import layers
from tests.builder.verdict.drawn_ranks import GATHER, LAYERS, TALKS, ranks_drawn

Known: TypeAlias = "dict[tuple[int, Section], list[int]]"
TRIED = range(24)


@pytest.fixture(params=TRIED)
def drawn(request: pytest.FixtureRequest) -> tuple[Evidence, Provenance]:
    evidence, _, provenance = ranks_drawn(request.param)
    return evidence, provenance


def of_node(part: Part, node: int, section: Section) -> list[int]:
    """The rows of its tensors in a section."""
    table = part.table
    return [
        row
        for row in np.flatnonzero(table.is_tensor).tolist()
        if table.node[row] == node and table.section[row] == section
    ]


def agrees(evidence: Evidence, node: int, section: Section = Section.OUTPUT) -> bool:
    rows = of_node(evidence.runs.npu, node, section)
    known = [row for row in rows if not np.isnan(evidence.seen.size[row])]
    return bool(known) and not any(evidence.off[row] for row in known)


def above(part: Part, node: int) -> str:
    """The class of the module that a node stands in."""
    parent = int(part.tree.parent[node])
    name = part.tree.names[parent] if parent > 0 else ""
    return name.split(".")[2] if name.startswith("Module.") else ""


def test_what_agrees_is_known_and_all_alike(drawn: tuple[Evidence, Provenance]) -> None:
    evidence, _ = drawn
    for node in range(len(evidence.runs.npu.tree)):
        for section in (Section.INPUT, Section.OUTPUT, Section.PARAMETERS):
            assert layers.agrees(evidence, node, section) == agrees(evidence, node, section)


def test_flags_of_parallel_layers_are_explained_where_what_comes_out_agrees(
    drawn: tuple[Evidence, Provenance],
) -> None:
    evidence, _ = drawn
    flags = {
        node
        for node, several in evidence.arguments.items()
        if above(evidence.runs.npu, node) in LAYERS
        and all(sorted((one.npu, one.bench)) == ["False", "True"] for one in several)
    }
    found = layers.flags_of_layers(evidence)
    assert found == {node: evidence.arguments[node] for node in flags}
    assert layers.explained_flags(evidence, found).keys() == {
        node for node in flags if agrees(evidence, node)
    }
    assert layers.telling_flags(evidence, found).keys() == {
        node
        for node in flags
        if agrees(evidence, node, Section.INPUT) and not agrees(evidence, node)
    }


def talks(name: str) -> bool:
    return name.startswith(TALKS)


def module_of(part: Part, node: int) -> int:
    """The module that a call stands in, whatever calls stand around it there."""
    parent = int(part.tree.parent[node])
    while parent > 0 and not part.tree.names[parent].startswith("Module"):
        parent = int(part.tree.parent[parent])
    return parent


def passes_otherwise(evidence: Evidence) -> list[tuple[int, int]]:
    """Passes of modules that talk inside where the reference's do not, with the one forward."""
    runs = evidence.runs
    names, bench = runs.npu.tree.names, runs.bench.tree
    found = []
    for module in sorted({module_of(runs.npu, at) for at, one in enumerate(names) if talks(one)}):
        other = int(runs.partner[module]) if module > 0 else -1
        if other < 0 or names[module].split(".")[2] in LAYERS:
            continue
        inside = bench.names[other + 1 : int(bench.subtree_end[other]) + 1]
        if not any(talks(name) for name in inside):
            stem = names[module].rsplit(".", 2)[0]
            found += [(at, module) for at, one in enumerate(names) if one.rsplit(".", 2)[0] == stem]
    return sorted(set(found))


def told_of_pass(evidence: Evidence, at: int, forward: int) -> dict[int, float] | None:
    """By row that a pass puts out what is expected of it, None where nothing is known."""
    runs = evidence.runs
    given = [row for one in {at, forward} for row in of_node(runs.npu, one, Section.INPUT)]
    errors = [evidence.expected.latent[row] for row in given]
    errors = [one for one in errors if not np.isnan(one)]
    rows = of_node(runs.npu, at, Section.OUTPUT)
    rows = [row for row in rows if not np.isnan(evidence.seen.size[row])]
    if not errors or not rows:
        return None
    units = runs.coarse if runs.is_mixed else runs.fine
    total = sum(one**2 for one in errors)
    return {row: 4 * (total + max(units[row], evidence.noise[at]) ** 2) ** 0.5 for row in rows}


def test_passes_that_ranks_go_through_block_by_block_are_judged_as_one_call(
    drawn: tuple[Evidence, Provenance],
) -> None:
    evidence, _ = drawn
    npu = evidence.runs.npu
    found = layers.done_otherwise(evidence)
    passes = dict(passes_otherwise(evidence))
    expected = {at: told_of_pass(evidence, at, forward) for at, forward in passes.items()}
    for node, name in enumerate(npu.tree.names):
        inside = -1 if name.startswith("Module") else module_of(npu, node)
        assert found.around[node] == (inside if inside in passes else -1)
        assert found.known[node] == (inside in passes and expected[inside] is not None)
    told = {
        (at, row): one
        for at, rows in expected.items()
        for row, one in (rows or {}).items()
        if surprise(evidence.seen, np.array([row]), np.array([one]))[0] > 7
    }
    assert {(one.node, one.row): one.expected for one in found.clues} == pytest.approx(told)
    for one in found.clues:
        assert one.cause is Cause.OUTPUT
        assert one.score > 7
        assert one.score <= 20 or not has_unknown(evidence, one.node)
    accused = {one.node for one in found.clues}
    for row in range(-1, len(npu.table.node)):
        for side, node in ((0, 2), (1, 2), (0, len(found.known) - 8)):
            at = int(npu.table.node[row]) if row >= 0 else node
            for cause in (Cause.OUTPUT, Cause.ARGUMENT, Cause.EXTRA):
                is_told = cause is not Cause.EXTRA and found.around[at] in accused
                is_told &= agrees(evidence, at, Section.INPUT)
                right = bool(found.known[at]) and not is_told and not (side == 1 and row < 0)
                assert found.explains(evidence, Clue(9.0, side, node, cause, row)) == right


def test_shares_are_taken_where_unsummed_gradients_come_back_from_gathering(
    drawn: tuple[Evidence, Provenance],
) -> None:
    evidence, provenance = drawn
    runs = evidence.runs
    right = [
        node
        for node, name in enumerate(runs.npu.tree.names)
        if name.startswith(GATHER)
        and name.endswith("backward")
        and runs.partner[node] < 0
        and any(row in provenance.unknown for row in of_node(runs.npu, node, Section.INPUT))
    ]
    assert layers.shares_taken(runs, provenance) == right
    assert layers.shares_taken(runs, None) == []


def has_unknown(evidence: Evidence, node: int) -> bool:
    """Whether a call, or of a gradient its forward call, is given what nobody compared."""
    runs = evidence.runs
    names = runs.npu.tree.names
    nodes = [node]
    if "backward" in names[node]:
        forward = names[node].replace("backward", "forward")
        nodes += [at for at, one in enumerate(names) if one == forward]
    return any(
        np.isnan(evidence.seen.size[row])
        for one in nodes
        for row in of_node(runs.npu, one, Section.INPUT)
        if not runs.discrete[row] and runs.npu.table.numel[row] != 0
    )


def test_calls_are_given_what_nobody_compared(drawn: tuple[Evidence, Provenance]) -> None:
    evidence, _ = drawn
    for node in range(len(evidence.runs.npu.tree)):
        assert layers.given_unknown(evidence, node) == has_unknown(evidence, node)


def clues(evidence: Evidence) -> list[Clue]:
    """One at each tensor, of all causes in turn, as large as what it is off by or not."""
    table, size = evidence.runs.npu.table, evidence.seen.size
    causes = list(Cause)
    found = []
    for row, node in enumerate(table.node.tolist()):
        for turn, score in enumerate((29.0, 31.0)):
            cause = (causes[(row + turn) % len(causes)], Cause.OUTPUT)[row % 3 > 0]
            error = float(np.nan_to_num(size[row])) * (1.0, 3.0, 6.0)[row % 3]
            found.append(Clue(score, int(row % 17 == 0), node, cause, row, error))
    return [*found, Clue(9.0, 0, 1, Cause.OUTPUT, -1)]


def test_what_follows_from_shares_is_off_by_about_as_much_as_what_came_before(
    drawn: tuple[Evidence, Provenance],
) -> None:
    evidence, provenance = drawn
    runs, size = evidence.runs, np.nan_to_num(evidence.seen.size)
    table = runs.npu.table
    shares = layers.shares_taken(runs, provenance)

    def follows(clue: Clue) -> bool:
        if not shares or clue.side == 1 or clue.row < 0:
            return False
        made = int(runs.maker[clue.row])
        inside = range(clue.node, int(runs.npu.tree.subtree_end[clue.node]) + 1)
        if (made >= 0 and table.node[made] in shares) or set(shares) & set(inside):
            return True
        if clue.cause is not Cause.OUTPUT or clue.node < shares[0]:
            return False
        is_back = runs.npu.calls.direction == Direction.BACKWARD
        if is_back[clue.node] and has_unknown(evidence, clue.node):
            before = [
                size[row]
                for node in range(shares[0] + 1, clue.node)
                if is_back[node]
                for row in of_node(runs.npu, node, Section.OUTPUT)
            ]
            return bool(clue.error <= 4 * max(before, default=0.0))
        return clue.score < 30 and any(
            evidence.off[row] for row in of_node(runs.npu, clue.node, Section.INPUT)
        )

    for clue in clues(evidence):
        assert layers.follows_from_shares(evidence, clue, shares) == follows(clue), clue
        assert not layers.follows_from_shares(evidence, clue, [])


def test_next_to_nothing_that_an_update_is_given_is_the_rest_of_a_sum(
    drawn: tuple[Evidence, Provenance],
) -> None:
    evidence, _ = drawn
    table, names = evidence.runs.npu.table, evidence.runs.npu.tree.names
    last = max(node for node, name in enumerate(names) if name.startswith("Module"))
    texts = evidence.runs.texts.values

    def is_rest(clue: Clue) -> bool:
        if clue.side or clue.row < 0 or clue.node <= last or not agrees(evidence, clue.node):
            return False
        if table.section[clue.row] != Section.INPUT:
            return False
        stem, name = names[clue.node].rsplit(".", 2)[0], texts[table.name_id[clue.row]]
        norms = [
            table.statistics[3, row]
            for node, other in enumerate(names)
            if node > last and other.rsplit(".", 2)[0] == stem
            for row in of_node(evidence.runs.npu, node, Section.INPUT)
            if texts[table.name_id[row]] == name
        ]
        return bool(table.statistics[3, clue.row] < 1e-5 * np.nanmax([0.0, *norms]))

    for row, node in enumerate(table.node.tolist()):
        for side in (0, 1):
            clue = Clue(9.0, side, node, Cause.OUTPUT, row)
            assert layers.is_rest_of_sum(evidence, clue) == is_rest(clue)
    assert not layers.is_rest_of_sum(evidence, Clue(9.0, 0, len(names) - 1, Cause.OUTPUT, -1))


def test_what_ranks_add_up_later_agrees_where_they_have_added_it_up(
    drawn: tuple[Evidence, Provenance],
) -> None:
    evidence, _ = drawn
    runs = evidence.runs
    table, names = runs.npu.table, runs.npu.tree.names
    users: dict[int, set[int]] = {}
    for row, made in enumerate(runs.maker.tolist()):
        if made >= 0 and table.is_tensor[row] and table.section[row] == Section.INPUT:
            users.setdefault(int(table.node[made]), set()).add(row)

    def is_added_up(start: int) -> bool:
        waiting, seen, sums = [start], {start}, 0
        while waiting:
            node = waiting.pop()
            rows = users.get(node, set())
            if names[node].startswith("Distributed") and runs.partner[node] < 0:
                known = [row for row in rows if not np.isnan(evidence.seen.size[row])]
                if not known or any(evidence.off[row] for row in known):
                    return False
                sums += 1
                continue
            if not rows:
                return False
            further = {int(table.node[row]) for row in rows} - seen
            seen |= further
            waiting += further
        return sums > 0

    for row, node in enumerate(table.node.tolist()):
        right = is_added_up(node)
        for cause in (Cause.BETWEEN, Cause.EXTERNAL, Cause.OUTPUT):
            for side in (0, 1):
                clue = Clue(9.0, side, node, cause, row)
                due = right and side == 0 and cause is not Cause.OUTPUT
                assert layers.is_added_up_later(evidence, clue) == due
    assert not layers.is_added_up_later(evidence, Clue(9.0, 0, 1, Cause.EXTERNAL, -1))
