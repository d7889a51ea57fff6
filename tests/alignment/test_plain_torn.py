"""Modules whose content, or results, belong to others: told by names on drawn hierarchies."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.contradictions.apart import take_back_apart
from msprobe_builder.align.groups.find import _host
from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.test_plain_decisions import paired
from tests.alignment.test_plain_hierarchies import children, modules_of, some_hierarchy
from tests.alignment.test_traits import Dump, Side, numel, read
from tests.builder.small_dumps import tensor, write_dump
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

MUCH = 1.5  # times the elements: no padding


def resized(random: Random, dump: Dump) -> Dump:
    """Some modules put out tensors of other sizes, or several."""
    for name, record in dump.data.items():
        if name.startswith("Module") and random.random() < 0.5:
            sizes = random.choices([4, 5, 8, 64], k=random.randint(1, 2))
            record["output"] = [tensor(shape=(size,)) for size in sizes]
    return dump


def table_of(dump: Dump) -> ParameterTable:
    with tempfile.TemporaryDirectory() as folder:
        return read_rank(write_dump(Path(folder), dump.data, dump.construct), Texts())[0].table


def work_in(side: Side, name: str) -> list[str]:
    """What a module holds that works: calls, and modules with weights or nothing in them."""
    return [
        one
        for one in side.dump.inside(name)
        if one != name
        and (
            not one.startswith("Module")
            or not children(side.dump, one)
            or side.dump.tensors(one, "parameters")
        )
    ]


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_a_pair_is_taken_back_where_most_of_its_content_or_all_results_belong_to_others(
    random: Random,
) -> None:
    left, right = read([resized(random, some_hierarchy(random)) for _ in range(2)])
    one_by_one = [*zip(left.nodes, right.nodes, strict=False)]
    moved = random.random() < 0.6
    others = random.sample([*right.nodes], len(right.nodes))
    chosen = [*zip(left.nodes, others, strict=False)] if moved else one_by_one
    chosen = [pair for pair in chosen if random.random() < 0.8]
    same_sizes = random.random() < 0.5
    pairs = paired(
        left,
        right,
        [(left.nodes[one], right.nodes[two]) for one, two in chosen],
        trust=SimpleNamespace(same_sizes=same_sizes),
    )
    by_name = {one for one, _ in chosen if random.random() < 0.2}
    pairs.evidence[[left.nodes[one] for one in by_name]] = 0
    there, here = dict(chosen), {two: one for one, two in chosen}

    def is_torn(side: Side, partner: dict[str, str], name: str, held_there: set[str]) -> bool:
        inside = [one for one in work_in(side, name) if one in partner]
        outside = [one for one in inside if partner[one] not in held_there]
        return len(outside) > 2 and 3 * len(outside) > len(inside)

    def puts_out_others(one: str, two: str) -> bool:
        sizes, others = (
            [numel(made) for made in side.dump.tensors(name, "outputs")]
            for side, name in ((left, one), (right, two))
        )
        if not same_sizes or not sizes or not others:
            return False
        return all(max(pair) >= MUCH * min(pair) for pair in product(sizes, others))

    take_back_apart(pairs, table_of(left.dump), table_of(right.dump))
    for one, two in chosen:
        is_pair_of_modules = one in modules_of(left) and one not in by_name
        held, held_there = ({*side.dump.inside(name)} for side, name in ((left, one), (right, two)))
        is_apart = is_pair_of_modules and (
            is_torn(left, there, one, held_there)
            or (two in modules_of(right) and is_torn(right, here, two, held))
            or puts_out_others(one, two)
        )
        assert (pairs.partner[left.nodes[one]] < 0) == is_apart, (one, two)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_the_host_of_a_region_is_the_nearest_module_around_that_has_a_partner(
    random: Random,
) -> None:
    """The root where none has."""
    [side] = read([some_hierarchy(random)])
    outline = side.traits.outline
    partner = np.array([random.choice([-1, -1, 0, 7]) for _ in range(len(side.traits))])
    for name, node in side.nodes.items():
        above = side.dump.construct[name]
        while above is not None and partner[side.nodes[above]] < 0:
            above = side.dump.construct[above]
        expected = 0 if above is None else side.nodes[above]
        assert _host(outline.tree.parent, outline.kind, partner, node) == expected
    assert _host(outline.tree.parent, outline.kind, partner, 0) == 0
