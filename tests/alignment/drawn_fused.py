"""Drawn programs of which one side makes by one call what the other makes by several."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

from tests.alignment.test_traits import Dump
from tests.alignment.two_programs import NET
from tests.builder.small_dumps import Record, forward, tensor

FUSED = {
    "Functional.scaled_dot_product_attention": ("Torch.matmul", "Functional.softmax"),
    "Functional.rms_norm": ("Torch.rsqrt", "Torch.mul"),
    "Functional.silu": ("Torch.sigmoid", "Torch.mul"),
    "Torch.relu": ("Torch.mul",),
}
FORMS = ("Tensor.view", "Tensor.to")
OTHERS = ("Torch.add", "Torch.exp", *FORMS)
SHAPES = ((2, 4), (2, 4), (8,), (3, 4), ())


class Writer:
    """One side as it is written, call after call."""

    def __init__(self) -> None:
        self.dump = Dump({NET: forward([tensor()], [tensor()])}, {NET: None})
        self.numbers: Counter[str] = Counter()

    def call(self, stem: str, given: list[Record], made: list[Record]) -> str:
        if "." not in stem:  # a module
            name = f"Module.net.{stem.lower()}{self.numbers[stem]}.{stem}.forward.0"
            self.dump.data[name] = forward(given[:1], made)
            self.dump.data[name]["parameters"] = {
                f"w{place}": one for place, one in enumerate(given[1:])
            }
        else:
            name = f"{stem}.{self.numbers[stem]}.forward"
            self.dump.data[name] = forward(given, made)
        self.numbers[stem] += 1
        self.dump.construct[name] = NET
        return name


def fresh(
    random: Random, shape: tuple[int, ...] | None = None, norm: float | None = None
) -> Record:
    norm = random.uniform(2, 9) if norm is None else norm
    shape = random.choice(SHAPES) if shape is None else shape
    return tensor(norm, high=norm / 2, low=-norm / 3, shape=shape)


def a_call(random: Random, sides: tuple[Writer, Writer]) -> None:
    """A call of a table on the one side, and what may be its parts on the other."""
    stem = random.choice([*FUSED])
    given = [fresh(random) for _ in range(random.randint(1, 3))]
    made = fresh(random)
    sides[0].call(stem, given, [made] if random.random() < 0.9 else [])
    parts = [one for one in FUSED[stem] if random.random() < 0.9]
    parts += random.choices(OTHERS, k=random.randint(0, 3))
    random.shuffle(parts)
    last = random.choice(given)
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        out = {**made} if is_last or random.random() < 0.3 else fresh(random)
        taken = [last, *random.sample(given, random.randint(0, len(given)))]
        sides[1].call(part, taken, [out] if random.random() < 0.95 else [])
        last = out


def a_linear(random: Random, sides: tuple[Writer, Writer]) -> None:
    """One linear, with what splits its result or not, and several that are as large together."""
    count = random.choice([2, 2, 2, 3, 3, 4])
    widths = [random.choice([4, 4, 4, 2]) for _ in range(count)]
    x = fresh(random, (2, 4))
    norms = [random.uniform(2, 9) for _ in widths]
    total = math.sqrt(sum(one**2 for one in norms)) * random.choice([1.0, 1.0, 1.00008, 1.001])
    width = sum(widths) + random.choice([0, 0, 0, 0, 1])
    kind = random.choice(["Linear", "Functional.linear"])
    weight = fresh(random, (width, random.choice([4, 4, 4, 4, 5])), total)
    if random.random() < 0.15:
        weight = tensor(None, high=None, low=None, mean=None, shape=(width, 4))
    bias = random.random() < 0.2
    made = fresh(random, (2, width))
    sides[0].call(kind, [x, weight, *([fresh(random, ())] if bias else [])], [made])
    for _ in range(random.choice([0, 0, 1])):
        sides[0].call("Torch.exp", [fresh(random)], [fresh(random)])
    for _ in range(random.choice([0, 1, 1, 2])):
        parts = [fresh(random, (2, one)) for one in widths]
        split = random.choice([[made], [made], [made], [], [fresh(random)]])
        sides[0].call("Torch.split", split, parts[: random.choice([count, count, count - 1])])
    other_kind = random.choice(["Linear", "Functional.linear"])
    other = x if random.random() < 0.9 else fresh(random, (8,))
    for place, (one, norm) in enumerate(zip(widths, norms, strict=True)):
        given = other if place or random.random() < 0.9 else fresh(random, (2, 4))
        out = fresh(random, (2, one))
        sides[1].call(other_kind, [given, fresh(random, (one, 4), norm)], [out])
    if random.random() < 0.2:  # which of them add up to it does not tell
        sides[1].call(other_kind, [other, fresh(random, (widths[0], 4), norms[0])], [out])


def fused_programs(random: Random) -> tuple[Dump, Dump, list[tuple[str, str]]]:
    """Calls that both sides have, some of them pairs, and between these the one and the many."""
    sides = Writer(), Writer()
    pairs = []
    for _ in range(random.randint(1, 2)):
        for _ in range(random.randint(0, 2)):
            stem = random.choice(["Torch.add", "Torch.exp", *FORMS])
            x, y = fresh(random), fresh(random)
            names = [one.call(stem, [x], [y]) for one in sides]
            if random.random() < 0.8:
                pairs.append((names[0], names[1]))
        random.choice([a_call, a_linear])(random, sides)
    if random.random() < 0.7:
        x, y = fresh(random), fresh(random)
        pairs.append((sides[0].call("Torch.exp", [x], [y]), sides[1].call("Torch.exp", [x], [y])))
    return sides[0].dump, sides[1].dump, pairs
