"""Programs of several ranks that are drawn: layers that talk, flags, gradients, and updates.

As in ``drawn_programs.py`` nothing is computed.
"""

from __future__ import annotations

import functools
from collections import Counter

from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.model.clue import Evidence
from tests.builder.small_dumps import number
from tests.builder.verdict.columns import compared, evidence_of
from tests.builder.verdict.drawn_programs import Both, Draw

LAYERS = ("ColumnParallelLinear", "RowParallelLinear", "VocabParallelEmbedding")
CLASSES = (*LAYERS, "RingAttention", "RingAttention", "RingAttention", "Block")
TALKS = ("Distributed.batch_isend_irecv", "Distributed.all_reduce", "Distributed.all_gather")
GATHER = "Torch._GatherFromModelParallelRegion"


class DrawnRanks(Draw):
    """Both runs, of which this one is spread over ranks: its modules talk inside."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.quiet = (0.3, 0.6, 0.85)[seed % 3]
        self.often: Counter[tuple[int, str]] = Counter()
        self.after: list[tuple[str, str, int]] = []  # calls to go back through: stem, module, sides

    def make(
        self,
        stem: str,
        given: list[Both],
        made: list[Both],
        within: str | None,
        sides: tuple[int, ...] = (0, 1),
        *,
        flags: bool = False,
        direction: str = "forward",
    ) -> None:
        for side in sides:
            inputs = [one[side] for one in given]
            if flags:
                inputs += [number(bool(side)), number(side if self.rng.random() < 0.2 else 1)]
            call = self.often[side, f"{stem}.{direction}"]
            self.often[side, f"{stem}.{direction}"] += 1
            name = f"{stem}.{call}.{direction}"
            self.sides[side].call(name, inputs, [one[side] for one in made], within=within)

    def layer(self, number_: int, kind: str, direction: str) -> None:
        rng, pool = self.rng, self.ahead if direction == "forward" else self.back
        name = f"Module.part{number_}.{kind}.{direction}.0"
        given, weight, made = self.one_of(pool), self.tensor(), self.tensor()
        for side, own in enumerate(self.sides):
            parameters = {"weight": weight[side]} if direction == "forward" else None
            own.call(name, [given[side]], [made[side]], parameters=parameters)
        pool.append(given)
        for _ in range(rng.integers(1, 4)):
            chance = rng.random()
            inner = self.tensor()
            if chance < 0.3 and kind not in ("Block",):
                sides = (0, 1) if rng.random() < 0.15 else (0,)
                self.make(str(rng.choice(TALKS)), [self.one_of(pool)], [inner], name, sides)
            elif chance < 0.8:
                stem = str(rng.choice(["Functional.linear", "Torch.mystery", "Torch.tanh"]))
                stem = stem if direction == "forward" else "Torch.mystery_back"
                flags = rng.random() < 0.8
                self.make(stem, [self.one_of(pool)], [inner], name, flags=flags)
            else:
                sides = ((0, 1), (0,), (1,))[rng.integers(3)]
                stem = str(rng.choice(["Torch.exp", "Tensor.mul_"]))
                self.make(stem, [self.one_of(pool)], [inner], name, sides)
            pool.append(inner)
        if rng.random() < 0.5:
            for side, own in enumerate(self.sides):
                own.data[name]["output"] = [pool[-1][side]]
        else:
            pool.append(made)

    def forth_and_back(self) -> None:
        """A call at the top with its gradient, which is given what nobody compared now and then."""
        stem = str(self.rng.choice(["Torch.matmul", "Torch.sin", "Torch.cat"]))
        given, made = [self.one_of(self.ahead) for _ in range(2)], self.tensor()
        call = self.often[0, stem]
        self.often[0, stem] += 1
        for side, own in enumerate(self.sides):
            own.call(f"{stem}.{call}.forward", [one[side] for one in given], [made[side]])
        self.ahead.append(made)
        self.after.append((stem, "", call))

    def backward_of(self, stem: str, call: int) -> None:
        given, made = self.one_of(self.back), [self.tensor(), self.tensor()]
        for side, own in enumerate(self.sides):
            own.call(f"{stem}.{call}.backward", [given[side]], [one[side] for one in made])
        self.back += made

    def gather(self, call: int) -> None:
        """The gradient of what ranks gathered, which one side alone hands on."""
        given, made = self.one_of(self.back), self.tensor()
        sides = (0, 1) if self.rng.random() < 0.2 else (0,)
        for side in sides:
            name = f"{GATHER}.{call}.backward"
            self.sides[side].call(name, [given[side]], [made[side]])
        self.back.append(made)

    def added_up(self) -> None:
        """Of a gradient, what ranks make of it through a few calls that one side alone has."""
        rng = self.rng
        given = self.one_of(self.back)
        for _ in range(rng.integers(0, 3)):
            made = self.tensor()
            self.make("Tensor.view", [given], [made], None, (0,))
            given = made
        made = self.tensor()
        self.make("Distributed.all_reduce", [given], [made], None, (0,))
        if rng.random() < 0.7:
            self.make("Torch.sqrt", [made], [self.tensor()], None)

    def updates(self) -> None:
        """An optimizer's calls, some of which are given next to nothing."""
        for turn in range(6):
            shape = tuple(self.one_of(self.back[-4:])[0]["shape"]) if turn > 3 else (6,)
            own = self.tensor(shape)
            shrunk = 10.0 ** -float(self.rng.integers(0, 8))
            sides = [
                {key: one * shrunk if isinstance(one, float) else one for key, one in each.items()}
                for each in own
            ]
            own = sides[0], sides[1]
            self.make("Tensor.add_", [self.tensor((6,)), own], [self.tensor((6,))], None)


@functools.cache
def ranks_drawn(seed: int) -> tuple[Evidence, PairResult, Provenance]:
    """All that clues are taken from, of one program, and where its values came from."""
    draw = DrawnRanks(seed)
    kinds = [str(draw.rng.choice(CLASSES)) for _ in range(6)]
    for place, kind in enumerate(kinds):
        draw.layer(place, kind, "forward")
        draw.forth_and_back()
    gathers = 0
    for place, kind in reversed(list(enumerate(kinds))):
        stem, _, call = draw.after[place]
        draw.backward_of(stem, call)
        if draw.rng.random() < 0.5:
            draw.gather(gathers)
            gathers += 1
        if draw.rng.random() < 0.4:
            draw.added_up()
        draw.layer(place, kind, "backward")
    for place, kind in enumerate(kinds):
        draw.gradients(f"Module.part{place}.{kind}")
    draw.quiet = 0.6
    draw.updates()
    result = compared(*draw.sides)
    rows = range(len(result.npu.table))
    unknown = {row: fact("unknown") for row in rows if draw.rng.random() < 0.3}
    return evidence_of(result), result, Provenance(unknown=unknown)
