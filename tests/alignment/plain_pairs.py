"""Pairs that are made twice, and the alignment of two lists told gap by gap."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import IMPOSSIBLE, THRESHOLD, scores
from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.pairing.fused_projections import pair_last
from msprobe_builder.align.pairing.inside import _parallel
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.align.pairing.repeated_calls import exchangeable, order_tells
from msprobe_builder.align.pairing.sequences import decide
from msprobe_builder.align.pairing.unordered import (
    has_twins,
    named_apart,
    told_by_words,
    without_order,
)
from msprobe_builder.base.codes import Evidence
from msprobe_builder.base.sequence import longest_increasing
from tests.alignment.drawn_sides import PALETTE, UNKNOWN, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_sides import (
    Both,
    both_of,
    elements,
    fresh,
    level,
    norm_of,
    shapes,
)

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def numbers(*several: int) -> Int:
    return np.array(several, dtype=np.int64)


def some_flags(random: Random, count: int, share: float = 0.5) -> Bool:
    return np.array([random.random() < share for _ in range(count)], dtype=bool)


def some_both(
    random: Random, size: int = 8, share: float = 0.4, steps: int = 1, **facts: Any
) -> Both:
    """A program, and one like it or another one, with some pairs; numbers tell or not."""
    tells = random.random() < 0.5
    palette = PALETTE if tells else UNKNOWN
    left = some_plain(random, size, palette=palette, operators=2, steps=steps)
    is_like = random.random() < 0.7
    right = (
        altered(random, left) if is_like else some_plain(random, size, palette=palette, steps=steps)
    )
    chosen = some_pairs(random, left, right, share, alike=True)
    trust = trusted() if tells else random.choice([Trust(), Trust(same_shapes=False)])
    facts = {"trust": trust, "same_code": random.random() < 0.7} | facts
    facts = {"one_code": random.random() < 0.5} | facts
    asked = [one for one in chosen if random.random() < 0.1]
    both = both_of(left, right, chosen, asked=asked, **facts)
    for one in random.sample(range(1, len(left)), min(2, len(left) - 1)):
        both.pairs.denied.add((one, random.randrange(len(right))))
    return both


def state(pairs: Pairs) -> object:
    """All that pairing may change."""
    chosen = np.flatnonzero(pairs.partner >= 0)
    return (
        pairs.partner.tolist(),
        pairs.back.tolist(),
        pairs.evidence[chosen].tolist(),
        pairs.weight[chosen].round(9).tolist(),
        [{node: sorted(some) for node, some in one.items()} for one in pairs.open],
        pairs.denied,
        pairs.known.shift,
        pairs.known.stems,
        pairs.known.taken_stems,
    )


def check(both: Both, run: Callable[[Pairs], object], plainly: Callable[[Pairs], object]) -> None:
    """Both leave the same pairs, weights, candidates and notes."""
    other = fresh(both.pairs)
    run(both.pairs)
    plainly(other)
    assert state(both.pairs) == state(other)


# -- one gap --------------------------------------------------------------------------------------


def plain_gap(
    pairs: Pairs,
    a: Int,
    b: Int,
    depth: Int,
    other_depth: Int,
    possible: Bool | None = None,
    *,
    in_order: bool = True,
    chosen: Bool | None = None,
) -> None:
    """What is decided and what order does not tell, pair by pair."""
    npu, bench = pairs.npu, pairs.bench
    score = scores(npu, bench, a, b, depth, other_depth, pairs.known)
    if possible is not None:
        score = np.where(possible, score, IMPOSSIBLE)
    rows, columns, _ = decide(score if chosen is None else np.where(chosen, score, IMPOSSIBLE))
    told = np.ones(len(rows), dtype=bool)
    if not in_order or not pairs.known.one_code:
        fast = np.ones(len(rows), dtype=bool)
        if not in_order:
            beside = _parallel(npu, a[rows]), _parallel(bench, b[columns])
            fast = np.array(
                [
                    npu.operator[a[row]] < 0 and not (beside[0][place] and beside[1][place])
                    for place, row in enumerate(rows)
                ],
                dtype=bool,
            )
        named = without_order(pairs, npu, a), without_order(pairs, bench, b)
        loops = named_apart(npu, a, around=True), named_apart(bench, b, around=True)
        said = told_by_words(pairs, a, b)
        told = ~exchangeable(score, rows, columns, fast, named, loops, said)
    matched: set[int] = set()
    taken: set[int] = set()
    for row, column, is_told in zip(rows.tolist(), columns.tolist(), told.tolist(), strict=True):
        if not is_told:
            score[row, column] += 0.5
            continue
        pairs.add(int(a[row]), int(b[column]), Evidence.INSIDE, float(score[row, column]))
        note(pairs, int(a[row]), int(b[column]))
        matched.add(row)
        taken.add(column)
    left = {
        (row, column): float(score[row, column])
        for row in range(len(a))
        for column in range(len(b))
        if row not in matched and column not in taken and score[row, column] > THRESHOLD
    }
    for row in {row for row, _ in left}:
        choices = sorted((-w, column) for (one, column), w in left.items() if one == row)[:5]
        pairs.open[0][int(a[row])] = [(int(b[column]), -weight) for weight, column in choices]
    for column in {column for _, column in left}:
        choices = sorted((-w, row) for (row, one), w in left.items() if one == column)[:5]
        pairs.open[1][int(b[column])] = [(int(a[row]), -weight) for weight, row in choices]


# -- lists, gap by gap ----------------------------------------------------------------------------


def increasing(values: list[int]) -> list[int]:
    """Places of a longest increasing sequence, of which the ends are as low as can be."""
    return [int(one) for one in longest_increasing(numbers(*values))]


def plain_lists(pairs: Pairs, items: tuple[Int, Int, Int, Int]) -> None:
    a, b, depth, other_depth = items
    for node in pair_last(pairs, a, b):
        note(pairs, node, int(pairs.partner[node]))
    places = [one.tolist() for one in (a, b)]
    matched = [
        (row, places[1].index(int(pairs.partner[node])))
        for row, node in enumerate(places[0])
        if int(pairs.partner[node]) in places[1]
    ]
    kept = [matched[one] for one in increasing([column for _, column in matched])]
    ends = [(-1, -1), *kept, (len(a), len(b))]
    gaps = [
        ([*range(one[0] + 1, two[0])], [*range(one[1] + 1, two[1])]) for one, two in pairwise(ends)
    ]
    gaps = [gap for gap in gaps if gap[0] and gap[1]]
    in_order = not gaps or order_tells(pairs, a, b)
    for rows, columns in gaps:
        i = numbers(*(row for row in rows if pairs.partner[a[row]] < 0))
        j = numbers(*(column for column in columns if pairs.back[b[column]] < 0))
        if len(i) and len(j):
            plain_gap(pairs, a[i], b[j], depth[i], other_depth[j], in_order=in_order)


# -- lists without a question ---------------------------------------------------------------------


def plainly_look_alike(both: Both, a: list[int], b: list[int]) -> bool:
    left, right, pairs, known = both.left, both.right, both.pairs, both.pairs.known
    if len(a) != len(b):
        return False
    differing = 0
    for i, j in zip(a, b, strict=True):
        one, other = left[i], right[j]
        its, there = int(pairs.partner[i]), int(pairs.back[j])
        if one.operator != other.operator or its not in (-1, j) or there not in (-1, i):
            return False
        sites = int(known.site[i]), int(known.other_site[j])
        if 0 not in sites and sites[0] != sites[1]:
            return False
        for section in ("inputs", "outputs", "parameters"):
            parts = getattr(one, section), getattr(other, section)
            same = [shapes(part) if known.trust.same_shapes else elements(part) for part in parts]
            if same[0] != same[1]:
                return False
        if one.operator < 0:
            operators = [
                sorted(side[call].operator for call in side.calls_below(node))
                for side, node in ((left, i), (right, j))
            ]
            said = known.words.do_other_things(numbers(i), known.other_words, numbers(j))
            if operators[0] != operators[1] or said.any():
                return False
        norms = norm_of(one.outputs), norm_of(other.outputs)
        is_known = not np.isnan(sum(norms)) and norms != (0.0, 0.0)
        differing += is_known and level(one, other, "outputs") < 2
    return not known.trust.equal or not differing


def pair_plainly_alike(pairs: Pairs, a: list[int], b: list[int], *, is_alike: bool) -> None:
    """Each with that at its place, unless two authors may have called twins the other way round."""
    known = pairs.known
    if not is_alike or not known.same_code or has_twins(pairs, numbers(*a), numbers(*b)):
        return
    for i, j in zip(a, b, strict=True):
        if pairs.add(i, j, Evidence.INSIDE, 5.0):
            note(pairs, i, j)
