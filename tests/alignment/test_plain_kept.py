"""Which pairs of equal names stay, against the same told one by one."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.pairing.kept import let_go_of_collections, stays
from msprobe_builder.dump.names import Kind
from tests.alignment.drawn_sides import altered, some_pairs, some_plain
from tests.alignment.plain_sides import Plain, both_of
from tests.alignment.test_plain_repeats import some_step
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

# -- pairs of names that stay ------------------------------------------------------------


@settings(max_examples=costly_examples(70))
@given(RANDOMS)
def test_pairs_of_names_stay_where_nothing_contradicts_them(random: Random) -> None:
    left = some_step(random, 12)
    right = altered(random, left, 0.1) if random.random() < 0.7 else some_step(random, 12)
    right = left if random.random() < 0.3 else right
    chosen = some_pairs(random, left, right, 0.9, alike=True)
    if len(left) == len(right) and random.random() < 0.8:
        chosen = {
            one: one
            for one in range(1, len(left))
            if left[one].operator == right[one].operator and random.random() < 0.9
        }
    both = both_of(left, right, chosen)
    partner = both.partners

    def turn(side: Plain, node: int) -> int:
        def key(one: int) -> object:
            of = side[one]
            return of.stem, side.host(one), of.micro_step, of.again, of.direction

        return sum(key(one) == key(node) for one in range(node))

    def keeps(i: int, j: int) -> bool:
        one, other = left[i], right[j]
        if (one.micro_step, one.again) != (other.micro_step, other.again):
            return False
        host = left.host(i)
        if not one.is_module and host and host not in partner:
            return False
        is_same_host = right.host(j) == partner.get(host)
        return not is_same_host or not one.is_module or turn(left, i) == turn(right, j)

    kept = {i: j for i, j in partner.items() if keeps(i, j)}

    def is_complete(host: int) -> bool:
        """Whether the two hosts make the same calls in the same order."""
        calls = [n for n in range(1, len(left)) if left[n].operator >= 0 and left.host(n) == host]
        there = [
            n
            for n in range(1, len(right))
            if right[n].operator >= 0 and right.host(n) == partner.get(host)
        ]
        return [kept.get(n) for n in calls] == there

    expected = {i for i in kept if left[i].operator < 0 or is_complete(left.host(i))}
    found = stays(both.pairs.npu, both.pairs.bench, both.pairs.partner, both.pairs.known)
    assert {*np.flatnonzero(found).tolist()} == expected


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_collections_are_let_go_where_no_call_of_theirs_goes_with_them(random: Random) -> None:
    left = some_plain(random, 12, modules=0.1, collections=True)
    right = altered(random, left, 0.1)
    chosen = some_pairs(random, left, right, 0.8, alike=True)
    asked = [one for one in chosen if random.random() < 0.1]
    both = both_of(left, right, chosen, asked=asked)
    expected = dict(both.partners)
    for i, j in both.partners.items():
        if left[i].kind is not Kind.COLLECTION or i in asked:
            continue
        held = [n for n in left.children(i) if left[n].operator >= 0 and n in both.partners]
        if held and not any(right[both.partners[n]].parent == j for n in held):
            del expected[i]
    let_go_of_collections(both.pairs)
    assert both.partners == expected
