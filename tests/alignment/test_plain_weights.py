"""Modules known by their weights and by their leaves, and those that pass through."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.align.pairing.weights import contradicted, pair_by_weights
from msprobe_builder.align.pairing.wrappers import pair_wrappers, transparent
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind
from tests.alignment.drawn_sides import PALETTE, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_pairs import check, numbers, plain_lists, some_both
from tests.alignment.plain_sides import Both, Node, Plain, both_of, shapes
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

# -- weights ------------------------------------------------------------


def some_twins(random: Random, both: Both) -> tuple[list[int], list[int]]:
    """Numbers of modules known by their weights, about in order."""
    found = []
    for side in (both.left, both.right):
        modules = [one for one in range(1, len(side)) if side.module(one)]
        told = [one for one in modules if random.random() < 0.7]
        numbers_ = [*range(len(told))]
        if random.random() < 0.3:
            random.shuffle(numbers_)
        twin = [-1] * len(side)
        for one, number in zip(told, numbers_, strict=True):
            twin[one] = number
        found.append(twin)
    return found[0], found[1]


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_names_are_wrong_where_most_weights_of_a_module_are_those_of_another(
    random: Random,
) -> None:
    """Not where weights come in another order on the two sides: they may be loaded wrongly."""
    left = some_plain(random, 9, modules=0.8, steps=2)
    right = altered(random, left, 0.1)
    both = both_of(left, right, some_pairs(random, left, right, 0.8, alike=True))
    twin, other_twin = some_twins(random, both)
    partner = both.partners
    places = {
        one: [
            other
            for other in range(1, len(right))
            if other_twin[other] == twin[one] and right[other].micro_step == left[one].micro_step
        ][:1]
        for one in range(1, len(left))
        if twin[one] >= 0
    }
    told = {one: found[0] for one, found in places.items() if found}
    agree = all(other_twin[partner[one]] == twin[one] for one in places if partner.get(one, 0))
    found = [told[one] for one in sorted(told)]
    is_ordered = all(x < y for x, y in pairwise(found))
    expected = set[int]()
    for node in range(1, len(left)):
        if not left.module(node) or node not in partner or agree or not is_ordered:
            continue
        below = [told[one] for one in left.held[node] if one in told]
        inside = [one for one in below if one in right.held[partner[node]]]
        is_wrong = 2 * len(inside) < len(below) if below else left[node].parent in expected
        expected |= {node} if is_wrong else set()
    result = contradicted(
        both.pairs.npu, both.pairs.bench, both.pairs.partner, numbers(*twin), numbers(*other_twin)
    )
    assert {*np.flatnonzero(result).tolist()} == expected


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_is_alone_and_has_equal_weights_is_paired_with_what_it_holds(random: Random) -> None:
    both = some_both(random, 9, 0.3)
    twins = some_twins(random, both)

    def plainly(pairs: Pairs) -> None:
        left, right = both.left, both.right
        free = [one for one in range(len(left)) if twins[0][one] >= 0 and pairs.partner[one] < 0]
        others = [one for one in range(len(right)) if twins[1][one] >= 0 and pairs.back[one] < 0]
        for i in free:
            fits = [
                j
                for j in others
                if twins[1][j] == twins[0][i]
                and right[j].micro_step == left[i].micro_step
                and pairs.back[j] < 0
            ]
            if fits and around(pairs, numbers(i), numbers(fits[0])).all():
                j = fits[0]
                pairs.add(i, j, Evidence.INSIDE, 5.0)
                note(pairs, i, j)
                held = [
                    numbers(
                        *(
                            one
                            for one in side.held[node][1:]
                            if side.forward(one) and side.host(one) == node
                        )
                    )
                    for side, node in ((left, i), (right, j))
                ]
                depths = np.zeros_like(held[0]), np.zeros_like(held[1])
                plain_lists(pairs, (held[0], held[1], *depths))

    check(
        both, lambda pairs: pair_by_weights(pairs, numbers(*twins[0]), numbers(*twins[1])), plainly
    )


# -- what passes through ------------------------------------------------------------


def some_cores(random: Random, plain: Plain) -> list[int]:
    """The deepest first: a module with one child may come down to what that comes down to."""
    core = [*range(len(plain))]
    for node in range(len(plain) - 1, 0, -1):
        inside = plain.children(node)
        if plain.module(node) and len(inside) == 1 and plain.module(inside[0]):
            core[node] = core[inside[0]] if random.random() < 0.8 else node
    return core


def around_core(plain: Plain, core: list[int], node: int) -> list[int]:
    found, above = [], plain[node].parent
    while above and core[above] == node:
        found.append(above)
        above = plain[above].parent
    return found


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_modules_are_seen_through_that_hold_pairs_or_pass_through(random: Random) -> None:
    """Those that go forward for the first time, and have no partner themselves."""
    plain = some_plain(random, 10, backward=True, collections=True)
    core = some_cores(random, plain)
    partner = numbers(*(random.choice([-1, -1, -1, 0, 5]) for _ in range(len(plain))))
    found = transparent(plain.traits(), partner, numbers(*core))
    for node in range(len(plain)):
        held = [one for one in plain.held[node] if plain.forward(one) and partner[one] >= 0]
        is_open = plain.module(node) and partner[node] < 0
        assert found[node] == (is_open and (bool(held) or core[node] != node))


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_passes_through_to_a_pair_is_paired_level_by_level(random: Random) -> None:
    """Those of one shape where levels differ."""

    def chains() -> Plain:
        nodes = [Node()]
        for chain in range(2):
            above = 0
            for level in range(random.randint(1, 4)):
                stem = nodes[above].stem.rpartition(".")[0] if above else "Module"
                name = random.choice(("block", "attention", "norm", "mlp"))
                weights = PALETTE[:1] if random.random() < 0.2 else ()
                made = random.choice(PALETTE[:3]), random.choice(PALETTE[:2])
                nodes.append(
                    Node(
                        f"{stem}.{name}{chain}.Part{level}",
                        above,
                        inputs=made[:1],
                        outputs=made[1:],
                        parameters=weights,
                    )
                )
                above = len(nodes) - 1
        if random.random() < 0.3:
            nodes.append(Node("Torch.relu", 0, operator=0, kind=Kind.API))
        return Plain(nodes)

    left, right = chains(), chains()
    cores = some_cores(random, left), some_cores(random, right)
    chosen = {
        i: j
        for i, j in some_pairs(random, left, right, 0.7, alike=True).items()
        if random.random() < 0.9
    }
    tells = random.random() < 0.3
    both = both_of(
        left,
        right,
        chosen,
        by_name=[one for one in chosen if random.random() < 0.1],
        trust=trusted() if tells else Trust(),
    )

    def plainly(pairs: Pairs) -> None:
        nodes = [
            one for one in range(1, len(left)) if pairs.partner[one] > 0 and cores[0][one] == one
        ]
        for i in nodes:
            j = int(pairs.partner[i])
            chain, others = around_core(left, cores[0], i), around_core(right, cores[1], j)
            both_chains = [*zip(chain, others, strict=False)]
            if len(chain) != len(others):
                keys = [
                    [(shapes(side[one].inputs), shapes(side[one].outputs)) for one in some]
                    for side, some in ((left, chain), (right, others))
                ]
                both_chains = [
                    (one, others[keys[1].index(key)])
                    for one, key in zip(chain, keys[0], strict=True)
                    if keys[0].count(key) == keys[1].count(key) == 1
                ]
            for one, two in both_chains:
                pairs.add(one, two, Evidence.WRAPPER, 2.0)

    check(both, lambda pairs: pair_wrappers(pairs, numbers(*cores[0]), numbers(*cores[1])), plainly)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_hosts_are_modules_whatever_collections_have_partners(random: Random) -> None:
    left, right = (some_plain(random, 9, modules=0.4, collections=True) for _ in range(2))
    both = both_of(left, right, some_pairs(random, left, right, 0.6, alike=True))
    partner = both.partners
    back = {two: one for one, two in partner.items()}

    def host(plain: Plain, partners: dict[int, int], node: int) -> int:
        above = plain[node].parent
        while above and (above not in partners or not plain[above].is_module):
            above = plain[above].parent
        return partners[above]

    nodes = [*range(1, len(left))], [*range(1, len(right))]
    found = around(both.pairs, numbers(*nodes[0]), numbers(*nodes[1]))
    for (row, i), (column, j) in product(enumerate(nodes[0]), enumerate(nodes[1])):
        is_held = j in right.held[host(left, partner, i)][1:]
        assert found[row, column] == (is_held or i in left.held[host(right, back, j)][1:])
