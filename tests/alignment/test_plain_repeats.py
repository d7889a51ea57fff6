"""What follows from the calls going forward: recomputation, backward calls and gradients."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import IMPOSSIBLE
from msprobe_builder.align.pairing.backward import (
    _pair_by_work,
    _pair_gradients,
    pair_backward,
)
from msprobe_builder.align.pairing.inside import pair_inside
from msprobe_builder.align.pairing.links import forward_of, gradients_of, origins
from msprobe_builder.align.pairing.lists import Lists
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.sequences import decide
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Direction, Kind
from tests.alignment.drawn_sides import PALETTE, altered, some_pairs, some_plain, trusted
from tests.alignment.plain_pairs import check, numbers
from tests.alignment.plain_sides import Both, Node, Plain, both_of, level
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Bool = NDArray[np.bool_]


def some_step(random: Random, size: int = 16) -> Plain:
    """A program with backward calls and recomputed ones, of few numbers."""
    plain = some_plain(
        random, size, palette=PALETTE[:3], operators=2, steps=random.choice([1, 2]), backward=True
    )
    nodes = [
        replace(one, call=random.choice([0, 0, 1]), stem=one.stem.replace("0", "").replace("1", ""))
        if node and one.is_module
        else replace(one, call=random.choice([0, 0, 1]))
        for node, one in enumerate(plain.nodes)
    ]
    stems = [one.stem for one in nodes[1:] if one.is_module]
    for stem in random.sample(stems, min(len(stems), random.randint(0, 2))):
        gradients = Node(f"{stem}.parameters_grad", direction=Direction.NONE)
        nodes.append(replace(gradients, micro_step=nodes[-1].micro_step))
    return Plain(nodes)


def some_repetition(random: Random) -> Plain:
    """A module that is called, and again with other calls in it, or a backward call has them."""
    nodes = [Node(direction=Direction.NONE)]
    palette = (PALETTE[0], PALETTE[3], PALETTE[6], PALETTE[9])
    for turn in range(2):
        is_backward = turn == 1 and random.random() < 0.3
        direction = Direction.BACKWARD if is_backward else Direction.FORWARD
        above = len(nodes)
        again = turn == 1 and not is_backward
        nodes.append(Node("Module.a.Part", direction=direction, again=again))
        for _ in range(random.randint(1, 4)):
            operator = random.choice([0, 0, 1])
            facts: dict[str, Any] = {"operator": operator, "kind": Kind.API, "again": turn == 1}
            given, made = ((random.choice(palette),) for _ in range(2))
            nodes.append(Node(f"Torch.op{operator}", above, inputs=given, outputs=made, **facts))
    return Plain(nodes)


def plain_forward_of(plain: Plain, node: int) -> int:
    """The last forward call of its name and number, recomputed or not."""
    one = plain[node]
    if one.direction is not Direction.BACKWARD:
        return -1
    found = [
        other
        for other in range(len(plain))
        if plain[other].direction is Direction.FORWARD
        and (plain[other].stem, plain[other].call) == (one.stem, one.call)
    ]
    return max(found, default=-1)


def plain_origins(plain: Plain) -> list[int]:
    """The call whose work each repeats: by name, and inside of a repeated module by their order."""
    is_again = [
        one.direction is Direction.FORWARD and not plain.forward(node)
        for node, one in enumerate(plain.nodes)
    ]
    found = [-1 if again else node for node, again in enumerate(is_again)]
    keys = [(one.micro_step, one.stem) for one in plain.nodes]
    for node in range(len(plain)):
        if is_again[node] and plain[node].is_module:
            turn = sum(is_again[one] and keys[one] == keys[node] for one in range(node))
            first = [
                one for one in range(1, len(plain)) if plain.module(one) and keys[one] == keys[node]
            ]
            found[node] = first[turn] if turn < len(first) else -1
    hosts = {
        plain.host(node)
        for node in range(len(plain))
        if is_again[node] and plain[node].operator >= 0
    }
    for host in hosts:
        forward = plain_forward_of(plain, host)
        origin = found[forward] if forward >= 0 else found[host]
        if origin <= 0:
            continue
        calls = [one for one in range(1, len(plain)) if plain[one].operator >= 0]
        a = [one for one in calls if is_again[one] and plain.host(one) == host]
        b = [one for one in calls if plain.forward(one) and plain.host(one) == origin]
        if [plain[one].stem for one in a] == [plain[one].stem for one in b]:
            pairs = [*zip(a, b, strict=True)]
        else:
            score = np.full((len(a), len(b)), IMPOSSIBLE)
            for row, one in enumerate(a):
                for column, two in enumerate(b):
                    if plain[one].stem == plain[two].stem:
                        agree = (
                            level(plain[one], plain[two], part) for part in ("inputs", "outputs")
                        )
                        score[row, column] = 3.0 + sum(agree)
            rows, columns, _ = decide(score)
            pairs = [(a[row], b[column]) for row, column in zip(rows, columns, strict=True)]
        for one, two in pairs:
            found[one] = two
    return found


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_backward_and_recomputed_calls_belong_to_those_of_their_name(random: Random) -> None:
    plain = some_step(random) if random.random() < 0.5 else some_repetition(random)
    side = plain.traits()
    forward = forward_of(side)
    assert forward.tolist() == [plain_forward_of(plain, one) for one in range(len(plain))]
    assert origins(side, forward).tolist() == plain_origins(plain)


def some_both(random: Random) -> Both:
    left = some_step(random)
    right = random.choice([left, left, altered(random, left, 0.1), some_step(random)])
    chosen = some_pairs(random, left, right, 0.6, alike=True)
    if right is left:  # mostly what goes forward, the rest is still to be found
        shares = [0.8 if left.forward(one) else 0.15 for one in range(len(left))]
        chosen = {one: one for one in range(1, len(left)) if random.random() < shares[one]}
    chosen = {i: j for i, j in chosen.items() if left[i].direction is right[j].direction}
    by_name = [one for one in chosen if random.random() < 0.4]
    asked = [one for one in by_name if random.random() < 0.3]
    return both_of(left, right, chosen, by_name=by_name, asked=asked, trust=trusted())


def make_room(pairs: Pairs, i: int, j: int) -> None:
    for node in (i, int(pairs.back[j])):
        if (
            node >= 0
            and pairs.partner[node] >= 0
            and not pairs.asked[node]
            and not pairs.evidence[node]
        ):
            pairs.drop(node)


def by_work(
    pairs: Pairs, work: list[list[int]], chosen: list[list[int]], evidence: Evidence
) -> None:
    """Several of one call in their order; as sure as that pair."""
    for first in dict.fromkeys(work[0][one] for one in chosen[0] if work[0][one] >= 0):
        other = int(pairs.partner[first])
        own = [one for one in chosen[0] if work[0][one] == first]
        there = [one for one in chosen[1] if work[1][one] == other] if other >= 0 else []
        weight = float(pairs.weight[first]) if pairs.evidence[first] else 5.0
        for i, j in zip(own, there, strict=False):
            if pairs.partner[i] != j:
                make_room(pairs, i, j)
                pairs.add(i, j, evidence, weight)


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_what_belongs_to_a_pair_is_one_and_pairs_of_names_give_way(random: Random) -> None:
    both = some_both(random)
    sides = both.left, both.right
    chosen = [[one for one in range(1, len(side)) if random.random() < 0.7] for side in sides]
    others = [
        [-1, *(one for one in range(len(side)) if one not in some)]
        for side, some in zip(sides, chosen, strict=True)
    ]
    work = [
        [random.choice(some) for _ in range(len(side))]
        for side, some in zip(sides, others, strict=True)
    ]
    if random.random() < 0.5:
        work = [[plain_forward_of(side, one) for one in range(len(side))] for side in sides]
    flags = [np.isin(np.arange(len(side)), some) for side, some in zip(sides, chosen, strict=True)]
    check(
        both,
        lambda pairs: _pair_by_work(
            pairs, [numbers(*one) for one in work], flags, Evidence.BACKWARD
        ),
        lambda pairs: by_work(pairs, work, chosen, Evidence.BACKWARD),
    )


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_follows_is_paired_by_forward_calls_and_then_by_what_they_repeat(
    random: Random,
) -> None:
    both = some_both(random)
    sides = both.left, both.right

    def chosen(kind: str) -> list[list[int]]:
        found = []
        for side in sides:
            nodes = range(len(side))
            if kind == "again":
                some = [
                    n
                    for n in nodes
                    if side[n].direction is Direction.FORWARD and not side.forward(n)
                ]
            else:
                some = [n for n in nodes if side[n].direction is Direction.BACKWARD]
            found.append(some)
        return found

    def modules(some: list[list[int]]) -> list[list[int]]:
        return [
            [n for n in one if side[n].is_module] for side, one in zip(sides, some, strict=True)
        ]

    def inside(pairs: Pairs, some: list[list[int]]) -> None:
        lists, marks = [], []
        for side, traits, partner, calls in zip(
            sides, (pairs.npu, pairs.bench), (pairs.partner, pairs.back), some, strict=True
        ):
            later = [n for n in range(1, len(side)) if not side.forward(n)]
            part = [n for n in later if side[n].is_module or n in calls or partner[n] >= 0]
            lists.append(
                Lists.of(traits, np.isin(np.arange(len(side)), part + [n for n in calls if n]))
            )
            free = [
                n
                for n in range(len(side))
                if side[n].is_module and not side.forward(n) and partner[n] < 0
            ]
            marks.append(np.isin(np.arange(len(side)), free))
        pair_inside(pairs, lists[0], lists[1], marks[0], marks[1])

    def plainly(pairs: Pairs) -> None:
        forward = [[plain_forward_of(side, n) for n in range(len(side))] for side in sides]
        origin = [plain_origins(side) for side in sides]
        work = [
            [first[n] if n >= 0 else -1 for n in of]
            for of, first in zip(forward, origin, strict=True)
        ]
        # Where both recompute a call its own partner tells.
        ways = forward, [work[0], forward[1]], [forward[0], work[1]]
        again, backward = chosen("again"), chosen("backward")
        by_work(pairs, origin, modules(again), Evidence.RECOMPUTED)
        for known in ways:
            by_work(pairs, known, modules(backward), Evidence.BACKWARD)
        _pair_gradients(pairs)
        inside(pairs, again)
        for known in ways:
            by_work(pairs, known, backward, Evidence.BACKWARD)
        alone = [[n for n in some if of[n] < 0] for some, of in zip(backward, forward, strict=True)]
        inside(pairs, alone)

    check(both, pair_backward, plainly)


# -- gradients of parameters ------------------------------------------------------------


def with_gradients(random: Random, counted: str) -> Plain:
    """Modules of one name that are called more than once, and gradients that came with them.

    Those of each pass are numbered: all, or all but the last one, or none.
    """
    nodes = [Node(direction=Direction.NONE)]
    for name in "ab":
        for call in range(random.randint(1, 3)):
            nodes.append(Node(f"Module.{name}.Part", call=call))
    for name in "ab":
        for call in range(random.randint(0, 3)):
            above = len(nodes)
            nodes.append(Node(f"Module.{name}.Part", call=call, direction=Direction.BACKWARD))
            number = (
                "" if counted == "none" or (counted == "but last" and call == 1) else f".{call}"
            )
            stem = f"Module.{name}.Part.parameters_grad{number}"
            nodes.append(Node(stem, above, direction=Direction.NONE))
    return Plain(nodes)


@settings(max_examples=costly_examples(70))
@given(RANDOMS)
def test_gradients_belong_to_those_of_the_modules_that_are_mostly_pairs(random: Random) -> None:
    """By their numbers; where one side adds them up, only what the first pass brings is alike."""
    counts = [random.choice(["all", "but last", "none"]) for _ in range(2)]
    left, right = (with_gradients(random, counted) for counted in counts)
    chosen = some_pairs(random, left, right, 0.7, alike=True)
    by_name = [one for one in chosen if random.random() < 0.6]
    asked = [one for one in by_name if random.random() < 0.2]
    both = both_of(left, right, chosen, by_name=by_name, asked=asked)

    def number(stem: str) -> int | None:
        end = stem.rpartition("parameters_grad")[2]
        return int(end[1:]) if end else None

    def gradients(side: Plain) -> list[tuple[int, str, int | None]]:
        nodes = [n for n in range(len(side)) if "parameters_grad" in side[n].stem]
        return [
            (n, side[n].stem.partition(".parameters_grad")[0], number(side[n].stem)) for n in nodes
        ]

    own, there = gradients(left), gradients(right)
    assert gradients_of(both.pairs.npu) == own

    def plainly(pairs: Pairs) -> None:
        votes: dict[str, dict[str, int]] = {}
        for i, j in enumerate(pairs.partner.tolist()):
            if j > 0 and left[i].is_module:
                of = votes.setdefault(left[i].stem, {})
                of[right[j].stem] = of.get(right[j].stem, 0) + 1
        kept, others = own, there
        numbered = [{call is not None for *_, call in some} for some in (own, there)]
        if all(numbered) and (numbered[0] == {True}) != (numbered[1] == {True}):
            passes = [
                {n: side[side[n].parent].call if call is None else call for n, _, call in some}
                for side, some in ((left, own), (right, there))
            ]
            for n, _, _ in own:
                if passes[0][n] and pairs.partner[n] >= 0 and not pairs.asked[n]:
                    pairs.drop(n)
            kept = [(n, stem, 0) for n, stem, _ in own if not passes[0][n]]
            others = [(n, stem, 0) for n, stem, _ in there if not passes[1][n]]
        for i, stem, call in kept:
            if stem not in votes:
                continue
            best = max(votes[stem], key=votes[stem].__getitem__)
            fits = [n for n, name, its in others if (name, its) == (best, call)]
            if fits and pairs.partner[i] != fits[-1]:
                make_room(pairs, i, fits[-1])
                pairs.add(i, fits[-1], Evidence.GRADIENT, 5.0)

    check(both, _pair_gradients, plainly)


@pytest.mark.parametrize("is_forward", [True, False])
def test_a_call_goes_with_its_own_forward_call_alone(is_forward: bool) -> None:
    direction = Direction.FORWARD if is_forward else Direction.NONE
    plain = Plain(
        [
            Node(direction=Direction.NONE),
            Node("Module.a.Part", direction=direction),
            Node("Module.a.Part", direction=Direction.BACKWARD),
            Node("Module.b.Part", direction=Direction.BACKWARD),
        ]
    )
    assert forward_of(plain.traits()).tolist() == [-1, -1, 1 if is_forward else -1, -1]
