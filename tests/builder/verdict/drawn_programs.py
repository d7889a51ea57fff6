"""Programs that are drawn: calls of all kinds with tensors of all kinds, off by any amount.

Nothing is computed. What a call puts out has nothing to do with what it is given, so that each
formula of the model of error is tried on numbers that no program would make.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.builder.small_dumps import Record, number
from tests.builder.verdict.columns import STATISTICS, Run, measured

Array = NDArray[Any]
Both = tuple[Record, Record]
# By the kinds that the model tells apart (docs/design/verdict.md, "Propagation").
OPERATORS = (
    *(
        "Torch.tanh",
        "Functional.relu",
        "Tensor.__mul__",
        "Tensor.__add__",
        "Tensor.mul_",
        "Torch.cat",
    ),
    *("Torch.matmul", "Functional.linear", "Functional.conv2d", "Functional.softmax", "Torch.exp"),
    *("Functional.layer_norm", "Functional.rms_norm", "Functional.normalize", "Torch.sum"),
    *("Torch.mean", "Functional.avg_pool2d", "Torch.amax", "Torch.prod", "Torch.cumprod"),
    *("Torch.sin", "Torch.log", "Tensor.__truediv__", "Torch.rsqrt", "Torch.sqrt", "Torch.floor"),
    *("Torch.sign", "Torch.where", "Functional.embedding", "Torch.gather", "Torch.reciprocal"),
    *("Functional.scaled_dot_product_attention", "Torch.mystery", "Torch.linalg.qr"),
    *("Functional.cross_entropy", "Torch.logsumexp", "Functional.lstm_cell", "Torch.rand"),
)
WHOLE = ("Torch.argmax", "Torch.topk", "Torch.bincount", "Torch.round")


class Draw:
    """Both runs of a program, as they are drawn."""

    def __init__(self, seed: int, *, mixed: bool = False, richly: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.richly = richly  # other arguments, makers and passes, and little that is off
        self.quiet = (0.5, 0.9)[seed % 2] if richly else 0.2
        self.sides = Run(), Run()
        self.mixed = mixed
        self.counts: dict[str, int] = {}
        self.ahead: list[Both] = []
        self.back: list[Both] = []
        self.module: str | None = None
        self.modules: dict[str, int] = {}
        self.alone_calls: dict[tuple[int, str], int] = {}
        self.later: list[tuple[int, str, Record]] = []  # gradients of calls of one side

    def tensor(self, shape: tuple[int, ...] | None = None, *, whole: bool = False) -> Both:
        """One tensor as both runs have it; ``quiet`` is the share of those that agree."""
        rng = self.rng
        if shape is None and self.richly:
            shape = [(4, 8), (8, 4), (6, 5), (1,), (32,)][rng.integers(5)]
        if shape is None:
            shape = (int(rng.integers(1, 9)), int(rng.integers(1, 25)))
        if whole:
            numbers = rng.integers(0, 9, size=shape)
            more = rng.random(shape) < rng.choice([0.0, 0.02, 0.5])
            return measured(numbers + more, "int64"), measured(numbers, "int64")
        low, high = [(-1, 1), (0.1, 3), (-3, -0.2), (-0.5, 4), (0.9, 1)][rng.integers(5)]
        values = rng.uniform(low, high, size=shape) * 10.0 ** rng.uniform(-2, 2)
        if rng.random() < 0.03:
            values = np.zeros(shape)
        error = 0.0 if rng.random() < self.quiet else 10.0 ** rng.uniform(-7, 0.5)
        other = values * (1 + error * rng.normal(size=shape))
        coarse = self.mixed and rng.random() < 0.7
        debug = measured(other, "bfloat16" if coarse else "float32")
        reference = measured(values)
        if self.richly:
            needs = [bool(rng.random() < 0.7)] * 2
            if rng.random() < 0.08:
                needs[rng.integers(2)] ^= True
            debug["requires_grad"], reference["requires_grad"] = needs
        chance = rng.random()
        if chance < 0.05:
            debug = {**debug, **dict.fromkeys(STATISTICS)}
        elif chance < 0.1:
            reference = {**reference, "Mean": None, "Norm": None}
        return debug, reference

    def one_of(self, pool: list[Both]) -> Both:
        near = pool[-6:]
        if not near or self.rng.random() < 0.2:
            return self.tensor()
        return near[self.rng.integers(len(near))]

    def forward(self) -> None:
        rng = self.rng
        is_whole = rng.random() < 0.1
        operator = str(rng.choice(WHOLE if is_whole else OPERATORS))
        call = self.counts.get(operator, 0)
        self.counts[operator] = call + 1
        given = [self.one_of(self.ahead) for _ in range(rng.integers(1, 4))]
        made = [self.tensor(whole=is_whole) for _ in range(1 + (rng.random() < 0.2))]
        sides = [[one[side] for one in given] for side in (0, 1)]
        if self.richly and rng.random() < 0.15:
            sides[0][0] = self.one_of(self.ahead)[0]  # another tensor than there
        if self.richly and rng.random() < 0.3:
            plain = rng.choice([0.5, 1.5, 2.0], size=2) if rng.random() < 0.5 else [3, 3 + call % 2]
            for one, value in zip(sides, plain, strict=True):
                one.append(number(value if isinstance(value, int) else float(value)))
        for side, own in enumerate(self.sides):
            results = [one[side] for one in made]
            self.half(results)
            self.half(sides[side])
            own.call(f"{operator}.{call}.forward", sides[side], results, within=self.module)
        self.ahead += made

    def backward(self, forward: str) -> None:
        rng = self.rng
        given = [self.one_of(self.back) for _ in range(rng.integers(1, 3))]
        made = [self.tensor() for _ in range(rng.integers(1, 4))]
        sides = [[one[side] for one in given] for side in (0, 1)]
        if self.richly and rng.random() < 0.15:
            sides[0][0] = self.one_of(self.back)[0]
        name = forward.removesuffix("forward") + "backward"
        for side, own in enumerate(self.sides):
            results = [one[side] for one in made]
            self.half(results)
            own.call(name, sides[side], results)
        self.back += made

    def exchanged(self) -> None:
        """Calls of one operator that came in another order, or of which one side makes one more."""
        rng = self.rng
        operator = str(rng.choice(["Torch.tanh", "Torch.matmul", "Torch.sum"]))
        several = [(self.one_of(self.ahead), self.tensor()) for _ in range(3)]
        orders = [list(rng.permutation(3)[: rng.integers(2, 4)]) for _ in self.sides]
        call = self.counts.get(operator, 0)
        self.counts[operator] = call + 3
        for side, (own, order) in enumerate(zip(self.sides, orders, strict=True)):
            for turn, place in enumerate(order):
                given, made = several[place]
                name = f"{operator}.{call + turn}.forward"
                own.call(name, [given[side]], [made[side]], within=self.module)
        self.ahead += [made for _, made in several]

    def half(self, records: list[Any]) -> None:
        """Makes a tensor one that this side alone gives, or a number, now and then."""
        rng = self.rng
        if not self.richly or rng.random() > 0.1:
            return
        place = int(rng.integers(len(records)))
        one = records[place]
        if "shape" in one:
            other = [
                None,
                number(1.5),
                number(one["Max"]),
                {**one, **dict.fromkeys(STATISTICS, 0.0)},
            ]
            records[place] = other[rng.integers(4)]

    def enter(self) -> None:
        """A module around the calls that come next, with a weight; some are entered again."""
        rng = self.rng
        kind = str(rng.choice(["Block", "Linear", "LayerNorm"]))
        name = f"Module.part{len(self.modules)}.{kind}"
        if self.richly and self.modules and rng.random() < 0.5:
            name = str(rng.choice(list(self.modules)))
        again = self.modules.get(name, 0)
        self.modules[name] = again + 1
        self.module = f"{name}.forward.{again}"
        given, weight, made = self.one_of(self.ahead), self.tensor(), self.tensor()
        for side, own in enumerate(self.sides):
            own.call(self.module, [given[side]], [made[side]], parameters={"weight": weight[side]})
        self.ahead.append(made)

    def leave(self) -> None:
        """What the module puts out is what the last call in it did, or nobody knows."""
        assert self.module is not None
        if self.rng.random() < 0.7:
            for side, own in enumerate(self.sides):
                own.data[self.module]["output"] = [self.ahead[-1][side]]
        self.module = None

    def gradients(self, module: str) -> None:
        """The gradients of a module's parameters."""
        self.quiet = 0.2
        made = self.tensor((5,)), self.tensor((3, 4))
        for side, own in enumerate(self.sides):
            names = ("bias", "weight")
            own.data[f"{module}.parameters_grad"] = {
                name: [one[side]] for name, one in zip(names, made, strict=True)
            }
            own.within[f"{module}.parameters_grad"] = None

    def alone(self, side: int) -> None:
        """A call of one side, which something else is given; some hand on what they are given."""
        rng = self.rng
        given, made = self.one_of(self.ahead), self.tensor()
        name = ("Torch.erfinv", "Torch.heaviside")[side]
        if self.richly and rng.random() < 0.4:
            name = str(rng.choice(["Tensor.view", "Tensor.clone", "Tensor.to", "Torch.flip"]))
            shape = [*given[side]["shape"], 1]  # the other side has what this is a view of
            made = ({**given[0], "shape": shape}, {**given[1], "shape": shape})
            if rng.random() < 0.5:
                made = given
        call = self.alone_calls.get((side, name), 0)
        self.alone_calls[side, name] = call + 1
        name = f"{name}.{call}.forward"
        self.sides[side].call(name, [given[side]], [made[side]], within=self.module)
        self.ahead.append(made)
        if self.richly and rng.random() < 0.3:
            gradient = self.tensor()
            name = name.replace("forward", "backward")
            self.later.append((side, name, gradient[side]))
            self.back.append(gradient)


def drawn_program(
    seed: int, calls: int = 14, *, mixed: bool = False, richly: bool = False, alone: bool = True
) -> tuple[Run, Run]:
    """Both runs of one: forward, with modules, and back; ``richly`` also in other ways.

    Without ``alone`` both make the same calls.
    """
    draw = Draw(seed, mixed=mixed, richly=richly)
    for _ in range(calls):
        if draw.module is None and draw.rng.random() < 0.25:
            draw.enter()
            if draw.rng.random() < 0.3:
                draw.leave()  # nothing is recorded inside
        if alone and draw.rng.random() < (0.2 if richly else 0.08):
            draw.alone(int(draw.rng.integers(2)))
        if richly and draw.rng.random() < 0.06:
            draw.exchanged()
        draw.forward()
        if draw.module is not None and draw.rng.random() < 0.4:
            draw.leave()
    if draw.module is not None:
        draw.leave()
    forward = [one for one in draw.sides[0].data if one in draw.sides[1].data]
    for name in forward[::-1]:
        if name.endswith("forward") and not name.startswith(WHOLE):
            draw.backward(name)
        if draw.later and draw.rng.random() < 0.3:
            side, name, made = draw.later.pop()
            draw.sides[side].call(name, [draw.one_of(draw.back)[side]], [made])
    for name in draw.modules if richly else ():
        draw.gradients(name)
    for own in draw.sides:
        for name in ("Functional.softmax", "Torch.sum"):
            for record in (one for key, one in own.data.items() if key.startswith(name)):
                record.get("input_kwargs", {}).update(dim=number(-1))
    return draw.sides
