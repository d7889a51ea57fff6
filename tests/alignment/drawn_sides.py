"""Programs drawn at random: of all kinds, also such as no author writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.dump.names import Direction, Kind
from tests.alignment.plain_sides import Node, Plain
from tests.builder.small_dumps import Record, tensor

PALETTE = tuple(
    tensor(norm, high=high, low=-1.0, shape=shape)
    for norm, high in ((2.0, 1.0), (2.000004, 1.0), (5.0, 3.0), (5.05, 3.0))
    for shape in ((2, 4), (8,), (4,))
)
UNKNOWN = tuple(
    tensor(None, high=None, low=None, mean=None, shape=shape) for shape in ((2, 4), (8,), (4,))
)
ONE = tensor(3.0, high=3.0, low=3.0, shape=())
STEMS = ("block", "norm", "first", "second", "net")


def some_tensors(random: Random, most: int = 2, palette: Sequence[Record] = ()) -> Any:
    chosen = palette or (*PALETTE, *UNKNOWN[:1], ONE)
    return tuple(random.choices(chosen, k=random.randint(0, most)))


def some_plain(
    random: Random,
    size: int = 8,
    *,
    palette: Sequence[Record] = (),
    steps: int = 1,
    operators: int = 3,
    modules: float = 0.5,
    backward: bool = False,
    collections: bool = False,
) -> Plain:
    """Modules and calls in any order and nesting, with few kinds of tensors, so that many agree."""
    nodes = [Node(direction=Direction.NONE)]
    around = [0]
    calls: Counter[tuple[str, Direction]] = Counter()
    step = 0
    for node in range(1, 1 + random.randint(size // 2, size)):
        while len(around) > 1 and random.random() < 0.35:
            around.pop()
        above = around[-1]
        if len(around) == 1 and step < steps - 1 and random.random() < 0.5:
            step += 1
        parent = nodes[above]
        direction = parent.direction if above else Direction.FORWARD
        if backward and random.random() < 0.3:
            direction = random.choice([Direction.FORWARD, Direction.BACKWARD])
        facts: dict[str, Any] = {
            "inputs": some_tensors(random, palette=palette),
            "outputs": some_tensors(random, palette=palette),
            "micro_step": step,
            "parent": above,
            "direction": direction,
            "again": backward and random.random() < 0.2 and direction is Direction.FORWARD,
            "arguments": random.choice([0, 0, 1]),
        }
        if random.random() < modules:
            path = parent.stem.rpartition(".")[0] if above and parent.is_module else "Module"
            stem = f"{path}.{random.choice(STEMS)}{random.choice(['', '0', '1'])}.Part"
            weights = some_tensors(random, palette=palette) if random.random() < 0.5 else ()
            nodes.append(Node(stem, parameters=weights, **facts))
            around.append(node)
        elif collections and not above and random.random() < 0.4:
            facts |= {"inputs": (), "outputs": (), "direction": Direction.NONE, "again": False}
            nodes.append(Node(f"Apis_Between_Modules.{node}", kind=Kind.COLLECTION, **facts))
            around.append(node)
        else:
            operator = random.randrange(operators)
            stem = f"Torch.op{operator}"
            nodes.append(Node(stem, operator=operator, kind=Kind.API, **facts))
        last = nodes[-1]
        number = calls[last.stem, last.direction]
        calls[last.stem, last.direction] += 1
        nodes[-1] = replace(last, call=number)
    return Plain(nodes)


def altered(random: Random, plain: Plain, share: float = 0.2) -> Plain:
    """The same program by another author: some leaves are missing, trade places, or differ."""
    order = [*range(1, len(plain))]
    for place in range(len(order) - 1):
        one, two = order[place], order[place + 1]
        are_leaves = plain.held[one] == [one] and plain.held[two] == [two]
        is_beside = are_leaves and plain[one].parent == plain[two].parent
        if is_beside and plain[one].micro_step == plain[two].micro_step and random.random() < share:
            order[place : place + 2] = two, one
    nodes, place_of = [plain[0]], {0: 0}
    for node in order:
        one = plain[node]
        is_last_of_none = node == order[-1] and len(nodes) == 1
        if plain.held[node] == [node] and random.random() < share and not is_last_of_none:
            continue
        place_of[node] = len(nodes)
        one = replace(one, parent=place_of[one.parent])
        if random.random() < share:
            one = replace(one, outputs=some_tensors(random))
        if random.random() < share and one.is_module:
            one = replace(one, stem=one.stem.replace("block", "layer").replace("Part", "Piece"))
        nodes.append(one)
    return Plain(nodes)


def some_pairs(
    random: Random, left: Plain, right: Plain, share: float = 0.5, *, alike: bool = False
) -> dict[int, int]:
    """Some nodes of both sides as pairs, the roots aside; with ``alike`` of one kind and operator.

    Half of the time about in order.
    """
    free = [*range(1, len(right))]
    if random.random() < 0.5:
        random.shuffle(free)
    chosen: dict[int, int] = {}
    for node in range(1, len(left)):
        fits = [
            one
            for one in free
            if not alike
            or (left[node].operator == right[one].operator and left[node].kind is right[one].kind)
        ]
        if fits and random.random() < share:
            chosen[node] = fits[0]
            free.remove(fits[0])
    return chosen


def trusted(**facts: Any) -> Trust:
    """Statistics that tell."""
    return Trust(**{"equal": 2.0, "near": 1.0, **facts})
