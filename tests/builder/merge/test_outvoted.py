"""Which rank is off where ranks differ within slices and between them, told one rank at a time."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import cast

import numpy as np
from hypothesis import given

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Apart
from msprobe_builder.merge.join.slices import _outvoted
from tests.small_graphs import RANDOMS

ROWS = 3
VALUES = ((1.0, -1.0, 0.0, 2.0), (3.0, -1.0, 0.5, 4.0))
Found = dict[int, tuple[Apart, ...]]


def some_apart(random: Random, rank: int, shown: int) -> Apart:
    whole = random.choice([None, None, VALUES[0]])
    kind = Disagreement.REPLICA
    return Apart(rank, kind, shown, random.choice(VALUES), 0.5, suspect=None, whole=whole)


def some_found(random: Random, ranks: list[int]) -> Found:
    """By row the ranks that differ from the first of some ranks."""
    return {
        row: tuple(
            some_apart(random, rank, ranks[0])
            for rank in random.sample(ranks[1:], random.randint(1, len(ranks) - 1))
        )
        for row in range(ROWS)
        if random.random() < 0.7
    }


@given(RANDOMS)
def test_the_first_of_a_slice_is_off_where_another_of_it_agrees_with_what_is_shown(
    random: Random,
) -> None:
    within = [some_found(random, [0, 1, 2]), some_found(random, [4, 5])]
    between = some_found(random, [0, 4])
    shown = [random.choice(VALUES) for _ in range(ROWS)]
    table = cast("ParameterTable", SimpleNamespace(statistics=np.array(shown).T))
    found = _outvoted(within, between, table)
    for row in range(ROWS):
        inside = [one for own in within for one in own.get(row, ())]
        others = between.get(row, ())
        witnesses = [
            one
            for one in inside
            if row in between and one.whole is None and one.statistics == shown[row]
        ]
        off = {one.shown_rank for one in witnesses}
        expected = {one.rank: one for one in inside if one not in witnesses}
        for one in others:
            is_off = one.rank in off
            told = one._replace(suspect=one.rank) if is_off else one
            expected.setdefault(one.rank, told)
        assert {one.rank: one for one in found.get(row, ())} == expected
        assert len(found.get(row, ())) == len(expected)
