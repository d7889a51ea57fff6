"""Sizes that data have drawn are left open in all that comes of them, told by plain records."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from random import Random

from hypothesis import given, settings

from msprobe_builder.align.evidence.drawn_sizes import without_drawn_sizes
from msprobe_builder.base.texts import Texts
from tests.alignment.drawn_fused import Writer
from tests.alignment.test_plain_decisions import operators_of
from tests.alignment.test_plain_scores import does, is_module
from tests.alignment.test_traits import numel
from tests.alignment.two_programs import INPUT, OUTPUT, Part, read_parts
from tests.builder.small_dumps import Record, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

OPEN = -1
DRAWING = ("nonzero", "where", "masked_select")
STEMS = ("Torch.nonzero", "Torch.where", "Torch.masked_select", "Tensor.__getitem__")
OTHERS = ("Torch.index_select", "Functional.linear", "Torch.add", "Leaf", "Tensor.__getitem__")


def routed(random: Random, *, draws: bool) -> Writer:
    """Calls that draw sizes, take elements by what was drawn, and compute with these."""
    writer = Writer()
    norm = 2.0

    def some(shape: tuple[int, ...]) -> Record:
        nonlocal norm
        norm += 1.0
        if random.random() < 0.1:
            return tensor(norm, high=1.0, low=1.0, mean=1.0, shape=shape)
        return tensor(norm, high=norm / 2, low=-1.0, shape=shape)

    pool = [some((8, 4)), some((8,)), some((4, 4))]
    sizes = [random.choice([0, 2, 2, 3, 5])]
    for _ in range(random.randint(2, 7)):
        stem = random.choice(STEMS if draws and random.random() < 0.5 else OTHERS)
        if stem in STEMS[:3]:
            sizes.append(random.choice([0, 2, 3, 5]))
        rows = sizes[-1]
        shape = random.choice([(rows,), (rows, 4), (rows, 4), (8, 4), (4, rows), (rows, 3)])
        given = random.choices(pool[-3:] + pool[:2], k=random.choice([1, 1, 2]))
        pool.append(some(shape))
        writer.call(stem, given, [pool[-1]])
    return writer


def drawing(part: Part, name: str) -> bool:
    given = part.rows(name, INPUT)
    return not is_module(name) and does(name) in DRAWING and len(given) == 1


def in_order(part: Part) -> list[str]:
    return sorted((one for one in part.nodes if part.is_leaf(one)), key=part.nodes.__getitem__)


def put_out(part: Part) -> list[list[int]]:
    """What is empty one author leaves out."""
    found = []
    for name in in_order(part):
        if drawing(part, name):
            found += [part.records[row]["shape"] for row in part.rows(name, OUTPUT)[:1]]
    return [one for one in found if 0 not in one]


def opened(part: Part) -> list[list[int]]:
    """The sizes of each row, but for those that were drawn; what is empty is open as well."""
    drawn: dict[object, set[int]] = {}
    for name in in_order(part):
        given = [drawn.get(part.keys[row], set()) for row in part.rows(name, INPUT)]
        takes = not is_module(name) and does(name) in ("getitem", "index_select")
        sizes = set().union(*given if takes else given[:1])
        for row in part.rows(name, OUTPUT):
            its = {*part.records[row]["shape"]}
            its = its if drawing(part, name) else its & sizes
            if its and part.keys[row] is not None:
                drawn[part.keys[row]] = its
    return [
        [OPEN if one in drawn[key] or not one else one for one in record["shape"]]
        if key in drawn
        else record["shape"]
        for key, record in zip(part.keys, part.records, strict=True)
    ]


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_drawn_sizes_tell_nothing_unless_both_sides_drew_the_same(random: Random) -> None:
    first = routed(random, draws=True)
    second = routed(random, draws=random.random() < 0.7)
    if random.random() < 0.2:
        second = first
    texts = Texts()
    parts = read_parts(random, [first.dump, second.dump], texts=texts)
    numbers = operators_of(parts[0]) | operators_of(parts[1])
    seen = without_drawn_sizes(
        (parts[0].traits, parts[1].traits), (parts[0].flow, parts[1].flow), texts, numbers
    )
    few, many = sorted(map(put_out, parts), key=len)
    left = iter(many)
    is_same = all(one in left for one in few)
    known = [
        [record["shape"] for record in part.records] if is_same else opened(part) for part in parts
    ]
    for section, number in (("inputs", INPUT), ("outputs", OUTPUT)):
        sizes: list[dict[str, Counter[str]]] = []
        for part, side, shapes in zip(parts, seen, known, strict=True):
            rows = {name: part.rows(name, number) for name in part.nodes}
            sizes.append({it: Counter(str(shapes[row]) for row in of) for it, of in rows.items()})
            for name, of in rows.items():
                # A drawn size does not count at all; what is empty is so anyway.
                expected = sum(
                    math.prod(one for one in shapes[row] if one != OPEN)
                    if shapes[row] != part.records[row]["shape"]
                    else numel(part.records[row])
                    for row in of
                )
                assert getattr(side, section).numel[part.nodes[name]] == expected
        for (one, mine), (two, its) in product(sizes[0].items(), sizes[1].items()):
            columns = [getattr(side, section).shapes for side in seen]
            same = columns[0][parts[0].nodes[one]] == columns[1][parts[1].nodes[two]]
            assert same == (mine == its), (one, two)
