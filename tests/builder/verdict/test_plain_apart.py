"""Ranks that differ in what they should have alike, against the rules of it in plain words."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.provenance import Apart, Factors, Provenance, told_of_apart
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.findings import Cause, Place
from msprobe_builder.verdict.model.clue import Evidence
from msprobe_builder.verdict.ranks import apart
from tests.builder.verdict.drawn_ranks import ranks_drawn

TRIED = range(24)
RNG_OF_RANKS = 3000


@pytest.fixture(params=TRIED)
def drawn(request: pytest.FixtureRequest) -> tuple[Evidence, PairResult, np.random.Generator]:
    evidence, result, _ = ranks_drawn(request.param)
    return evidence, result, np.random.default_rng(RNG_OF_RANKS + request.param)


def off_on(rank: int, *, is_origin: bool = True) -> Apart:
    values = (1.0, -1.0, 0.0, 2.0)
    return Apart(rank, Disagreement.REPLICA, 0, values, 0.5, is_origin=is_origin)


def drawn_apart(
    rng: np.random.Generator, rows: int, share: float = 0.15
) -> dict[int, tuple[Apart, ...]]:
    """Some rows in which ranks differ, which begins there or elsewhere."""
    chosen = rng.permutation(np.flatnonzero(rng.random(rows) < share)).tolist()
    begins = float(rng.choice([0.0, 0.2, 0.8]))
    return {
        row: tuple(
            off_on(rank, is_origin=bool(rng.random() < begins))
            for rank in range(1, 1 + int(rng.integers(1, 4)))
        )
        for row in chosen
    }


def test_ranks_disagree_where_those_of_the_reference_do_not(
    drawn: tuple[Evidence, PairResult, np.random.Generator],
) -> None:
    _, result, rng = drawn
    tree, table = result.npu.tree, result.npu.table
    assert result.bench is not None
    assert result.comparisons is not None
    pairs = result.comparisons.pairs
    other = dict(zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True))
    own = drawn_apart(rng, len(table))
    theirs = drawn_apart(rng, len(result.bench.table), 0.4)
    for bench in (None, Provenance(), Provenance(apart=theirs)):
        usual = {} if bench is None else bench.apart
        rows = [row for row in sorted(own) if other.get(row) not in usual]
        begins = [row for row in rows if any(one.is_origin for one in own[row])]
        # What a module puts out begins in a call inside of it.
        inner = [
            row
            for place, row in enumerate(begins)
            if not any(
                table.node[row] < table.node[later] <= tree.subtree_end[table.node[row]]
                for later in begins[place + 1 :]
            )
        ]
        right = {}
        for row in rows:
            before = [one for one in inner if one <= row] or inner[:1] or rows[:1]
            right[row] = Place(0, int(table.node[before[-1]]), Cause.RANK)
        found = apart.disagreeing(tree, table, Provenance(apart=own), bench, pairs)
        assert found == right
        assert apart.disagreeing(tree, table, None, bench, pairs) == {}
        assert apart.disagreeing(tree, table, Provenance(), bench, pairs) == {}


def factors(rng: np.random.Generator, values: list[str]) -> Factors:
    ranks = rng.permutation(4).tolist()
    cut = int(rng.integers(1, 4))
    chosen = rng.choice(values, size=2, replace=False).tolist()
    return Factors(((chosen[0], tuple(ranks[:cut])), (chosen[1], tuple(ranks[cut:]))))


def test_factors_of_a_call_are_those_of_its_rows(
    drawn: tuple[Evidence, PairResult, np.random.Generator],
) -> None:
    evidence, result, rng = drawn
    table = result.npu.table
    rows = np.flatnonzero(rng.random(len(table)) < 0.2).tolist()
    known = Provenance(factors={row: factors(rng, ["1.0", "2.0"]) for row in rows})
    for node in range(len(result.npu.tree)):
        right = [row for row in rows if table.node[row] == node]
        assert apart.own_factors(table, known, node) == right
        assert apart.own_factors(table, None, node) == []
    with_factors = {int(table.node[row]) for row in rows}
    assert apart.with_own_factors(evidence, known) == [
        (node, row)
        for row, node in enumerate(table.node.tolist())
        if node in with_factors and evidence.off[row] and table.section[row] == Section.OUTPUT
    ]
    assert apart.with_own_factors(evidence, None) == []
    assert apart.with_own_factors(evidence, Provenance()) == []


def test_ranks_are_off_that_give_another_factor_than_the_reference_and_others_do_not(
    drawn: tuple[Evidence, PairResult, np.random.Generator],
) -> None:
    evidence, _, rng = drawn
    runs = evidence.runs
    table, bench, texts = runs.npu.table, runs.bench.table, runs.texts

    def value(row: int) -> str:
        return texts.values[bench.value_id[row]] if bench.value_id[row] >= 0 else "None"

    rows = np.flatnonzero(~table.is_tensor | (rng.random(len(table)) < 0.1)).tolist()
    values = ["True", "False", "None", "1", "7"]
    known = Provenance(factors={row: factors(rng, values) for row in rows})
    elsewhere = np.flatnonzero(rng.random(len(bench)) < 0.1).tolist()
    theirs = Provenance(factors={row: factors(rng, values) for row in elsewhere})
    for node in range(len(runs.npu.tree)):
        for other in (None, theirs):
            right = set()
            for row in rows:
                partner = int(runs.partner[node])
                if table.node[row] != node or partner < 0:
                    continue
                same = [
                    one
                    for one in range(len(bench))
                    if bench.node[one] == partner and bench.name_id[one] == table.name_id[row]
                ]
                if other is not None and any(one in elsewhere for one in same):
                    continue
                due = {value(one) for one in same}
                of_ranks = known.factors[row].of_ranks
                if any(given in due for given, _ in of_ranks):
                    right |= {
                        rank for given, ranks in of_ranks if given not in due for rank in ranks
                    }
            assert apart.ranks_off(runs, known, other, node, texts) == tuple(sorted(right))
            assert apart.ranks_off(runs, None, other, node, texts) == ()


def test_two_arguments_and_two_values_of_ranks_are_told(
    drawn: tuple[Evidence, PairResult, np.random.Generator],
) -> None:
    evidence, result, rng = drawn
    table, names = result.npu.table, evidence.runs.texts.values
    rows = np.flatnonzero(rng.random(len(table)) < 0.6).tolist()
    known = Provenance(
        factors={row: factors(rng, ["1.0", "2.0"]) for row in rows},
        apart=drawn_apart(rng, len(table), 0.5),
    )
    for node in range(len(result.npu.tree)):
        own = [row for row in range(len(table)) if table.node[row] == node]
        arguments = [
            fact(
                "argument.of_ranks",
                name=names[table.name_id[row]].removeprefix("input."),
                values=known.factors[row].told(),
            )
            for row in own
            if row in rows
        ]
        values = [
            fact("apart.in_tensor", name=names[table.name_id[row]], what=told_of_apart(one))
            for row in own
            for one in known.apart.get(row, ())
        ]
        told = apart.told_of_ranks(table, known, node, evidence.runs.texts)
        assert told == [*arguments[:2], *values[:2]]
        assert apart.told_of_ranks(table, None, node, evidence.runs.texts) == []
