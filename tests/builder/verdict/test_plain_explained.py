"""What the merging of ranks explains, and what makes a clue vague, in plain words."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.graph.kept_parameters import keeps_parameters
from msprobe_builder.graph.provenance import Factors
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.telling import told_of_arguments
from msprobe_builder.verdict.model.weighing import Weighing
from msprobe_builder.verdict.ranks import layers
from msprobe_builder.verdict.ranks.apart import disagreeing, with_own_factors
from msprobe_builder.verdict.ranks.explained import OfRanks, of_ranks
from msprobe_builder.verdict.ranks.norms import OwnNorms
from msprobe_builder.verdict.ranks.updates import Updates
from msprobe_builder.verdict.ruling.conclusion import told_of_flags, told_of_norms
from tests.builder.verdict.drawn_ranks import ranks_drawn
from tests.builder.verdict.test_plain_apart import drawn_apart

TRIED = range(24)
SHOWN_BY_NUMBERS = (Cause.OUTPUT, Cause.MISSING, Cause.EXTRA)
EXACT = (Cause.PART, Cause.WEIGHT, Cause.WEIGHTS, Cause.RANK, Cause.NUMBER)
HANDED_ON = (Cause.MISSING, Cause.EXTRA, Cause.EXTERNAL, Cause.BETWEEN, Cause.WIRING)


@functools.cache
def of_drawn(seed: int) -> OfRanks:
    """What is known of a drawn program; norms, updates and types of tensors are drawn, too."""
    evidence, result, provenance = ranks_drawn(seed)
    rng = np.random.default_rng(6000 + seed)
    tree, table = result.npu.tree, result.npu.table
    coarse = np.where(rng.random(len(table)) < 0.3, 2.0**-8, 2.0**-23)
    evidence = replace(evidence, is_merged=True, runs=replace(evidence.runs, coarse=coarse))
    rows = np.flatnonzero(rng.random(len(table)) < 0.1).tolist()
    provenance = replace(
        provenance,
        factors={row: Factors((("1", (0,)), ("2", (1,)))) for row in rows},
        apart=drawn_apart(rng, len(table)),
    )
    found = of_ranks(evidence, replace(result, npu=replace(result.npu, provenance=provenance)))
    explained = frozenset(np.flatnonzero(rng.random(len(tree)) < 0.1).tolist())
    last = evidence.runs.npu.calls.last_pass
    unlike: dict[tuple[int, int], Facts] = {
        (0, len(tree) - 2): (fact("updates.given", own=1.0, theirs=[2.0]),)
    }
    updates = (None, Updates(last, 3, 2, unlike), Updates(last, 3, 0))[seed % 3]
    return replace(found, norms=OwnNorms(explained, 2, {}, True), updates=updates)


@pytest.fixture(params=TRIED)
def known(request: pytest.FixtureRequest) -> OfRanks:
    return of_drawn(request.param)


def clues(known: OfRanks) -> list[Clue]:
    """At tensors of all kinds, off by what is drawn; and some that show nowhere."""
    runs, size = known.evidence.runs, known.evidence.seen.size
    rng = np.random.default_rng(len(size))
    causes = list(Cause)
    result = []
    for row, node in enumerate(runs.npu.table.node.tolist()):
        error = float(np.nan_to_num(size[row]))
        drawn = float(10.0 ** rng.uniform(-4, -1))
        for cause in rng.choice(len(causes), size=3, replace=False).tolist():
            side = int(rng.random() < 0.15)
            own = node if rng.random() < 0.8 else int(rng.integers(1, len(runs.npu.tree)))
            score = float(rng.choice([5.0, 12.0, 50.0]))
            off = error if rng.random() < 0.5 else drawn
            result.append(Clue(score, side, own, causes[cause], row, off))
    for node in range(1, len(runs.npu.tree)):
        cause = (Cause.ARGUMENT, causes[node % len(causes)])[node % 2]
        result.append(Clue(20.0, int(node % 5 == 0), node, cause, -1, 0.001))
    return result


def is_split(known: OfRanks, clue: Clue) -> bool:
    """Whether it is no fault for the way in which the model was split."""
    evidence = known.evidence
    joins = evidence.runs.npu.tree.names[clue.node].startswith("Torch.cat.")
    unit = evidence.runs.coarse[clue.row] if clue.row >= 0 else 0.0
    return (
        (clue.cause in SHOWN_BY_NUMBERS and unit > 1e-3 and clue.error < unit)
        or (clue.cause is Cause.ARGUMENT and clue.row < 0 and clue.side == 0 and joins)
        or layers.is_added_up_later(evidence, clue)
        or known.norms.explains(evidence, clue)
        or layers.follows_from_shares(evidence, clue, known.shares)
        or layers.is_rest_of_sum(evidence, clue)
        or (known.updates is not None and known.updates.explains(evidence, clue))
    )


def as_told(known: OfRanks, clue: Clue) -> Clue:
    """The clue, vague where merging may make as much of it."""
    runs = known.evidence.runs
    table = runs.npu.table
    vague = replace(clue, rival="merged")
    if clue.cause is Cause.ARGUMENT and clue.row < 0:
        return vague
    if clue.row < 0 or clue.cause in EXACT:
        return clue
    if clue.side == 0 and clue.node in known.counts:
        return replace(vague, told=(*clue.told, *told_of_arguments(known.counts[clue.node])))
    assert known.provenance is not None
    if clue.side == 0 and any(table.node[row] == clue.node for row in known.provenance.factors):
        return clue
    node = int(table.node[clue.row])
    is_single = table.numel[clue.row] == 1 and node > runs.npu.calls.last_pass
    is_data = clue.cause is Cause.EXTERNAL and table.requires_grad[clue.row] == 1
    is_handed = clue.cause in HANDED_ON and known.otherwise.around[node] >= 0
    is_vague = is_single or is_data or is_handed or clue.cause is Cause.GRADIENT
    return vague if is_vague or clue.error < 0.02 else clue


@pytest.mark.parametrize("without", [(), ("split",), ("merged",)], ids=str)
def test_clues_are_explained_by_the_split_or_made_vague_by_merging(
    known: OfRanks, without: tuple[str, ...]
) -> None:
    found = clues(known)
    right = []
    for one in (*found, *known.otherwise.clues):
        is_inside = known.otherwise.explains(known.evidence, one)
        if (is_inside or is_split(known, one)) and "split" not in without:
            continue
        right.append(one if "merged" in without else as_told(known, one))
    weighing = Weighing(frozenset(without))
    assert known.unexplained(found, weighing) == right


def test_calls_are_judged_inside_of_what_is_right_and_where_parameters_are_kept(
    known: OfRanks,
) -> None:
    runs = known.evidence.runs
    keeps = keeps_parameters(runs.npu.calls, runs.npu.tree.parent)
    assert known.judged.tolist() == [
        bool(known.otherwise.known[node] or (keeps[node] and runs.partner[node] < 0))
        for node in range(len(runs.npu.tree))
    ]


def test_ranks_tell_their_factors_and_where_they_begin_to_differ(known: OfRanks) -> None:
    evidence, provenance = known.evidence, known.provenance
    assert provenance is not None
    assert known.result.comparisons is not None
    tree, table = evidence.runs.npu.tree, evidence.runs.npu.table
    right = [] if known.updates is None else list(known.updates.clues())
    right += [
        Clue(1000.0, 0, node, Cause.RANK, row)
        for node, row in with_own_factors(evidence, provenance)
    ]
    pairs = known.result.comparisons.pairs
    said = set()
    for row, place in disagreeing(tree, table, provenance, None, pairs).items():
        stem = tree.names[place.node].rsplit(".", 2)[0]
        is_origin = any(one.is_origin for one in provenance.apart[row])
        if stem in said or not is_origin:
            continue
        said.add(stem)
        if table.section[row] == Section.PARAMETERS and evidence.off[row]:
            continue
        told = tuple(told_of_arguments(known.counts.get(place.node, ())))
        clue = Clue(1000.0, 0, place.node, Cause.RANK, row, told=told)
        if table.section[row] == Section.PARAMETERS_GRAD:
            clue = replace(clue, score=20.0, rival="merged")
        right.append(clue)
    assert list(known.clues()) == right


def test_what_was_passed_over_is_said_where_nobody_is_accused(known: OfRanks) -> None:
    names, norms = known.evidence.runs.npu.tree.names, known.norms
    of_updates = [] if known.updates is None else [known.updates.told_of_all()]
    right = []
    if known.flags:
        right.append(told_of_flags(names, known.flags))
    if known.shares:
        count = len(known.shares)
        right.append(fact("shares_taken", calls=count, name=names[known.shares[0]]))
    right += told_of_norms(names, norms.explained, 2, is_total=True)
    assert known.said(is_clean=True, is_fault=False) == (*right, *of_updates)
    assert known.said(is_clean=False, is_fault=False) == tuple(of_updates)
    assert known.said(is_clean=False, is_fault=True) == ()
    without = replace(known, flags={}, shares=[], norms=OwnNorms(frozenset(), 0, {}, True))
    assert without.said(is_clean=True, is_fault=True) == ()


@pytest.mark.parametrize("seed", TRIED)
def test_what_ranks_were_told_otherwise_is_sorted_by_what_it_explains(seed: int) -> None:
    evidence, result, provenance = ranks_drawn(seed)
    graph = replace(result, npu=replace(result.npu, provenance=provenance))
    found = of_ranks(replace(evidence, is_merged=True), graph)
    flags = layers.flags_of_layers(evidence)
    counts = {
        node: several
        for node, several in evidence.arguments.items()
        if node not in flags and all(one.is_slight or one.is_count for one in several)
    }
    telling = layers.telling_flags(evidence, flags)
    assert found.counts == counts
    assert found.flags == layers.explained_flags(evidence, flags)
    assert found.evidence.arguments == {
        node: several
        for node, several in evidence.arguments.items()
        if (node in telling or node not in flags) and node not in counts
    }
    assert found.shares == layers.shares_taken(evidence.runs, provenance)
    assert found.otherwise.clues == layers.done_otherwise(evidence).clues
