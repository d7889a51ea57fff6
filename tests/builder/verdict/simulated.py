"""A training step that is computed here, forward and back, in double precision.

Layers of a linear map, a non-linear function, a factor and a sum with what went in. Each call of
this run adds noise of its own, as another device does, and one of them may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.builder.small_dumps import number
from tests.builder.verdict.columns import Run, measured

Array = NDArray[Any]
FACTOR = 0.9


@dataclass(frozen=True)
class Plan:
    """What is wrong, and in which layer; ``share`` by how much. Nothing, without ``what``."""

    what: str = ""
    layer: int = 0
    share: float = 0.05
    noise: float = 1e-7
    seed: int = 0
    layers: int = 5
    rows: int = 16
    width: int = 12


@dataclass
class Training:
    """One run of a plan; the reference does nothing wrong and adds no noise."""

    plan: Plan
    is_debug: bool
    run: Run = field(default_factory=Run)
    counts: dict[str, int] = field(default_factory=dict)
    back: list[Callable[[Array], Array]] = field(default_factory=list)

    def is_wrong(self, what: str, layer: int) -> bool:
        return self.is_debug and (self.plan.what, self.plan.layer) == (what, layer)

    def noisy(self, values: Array) -> Array:
        if not self.is_debug:
            return values
        size = np.sqrt((values**2).mean())
        return np.asarray(values + self.plan.noise * size * self.rng.normal(size=values.shape))

    def named(self, operator: str) -> str:
        call = self.counts.get(operator, 0)
        self.counts[operator] = call + 1
        return f"{operator}.{call}"

    def steps(self) -> Run:
        """The whole step."""
        plan = self.plan
        data = np.random.default_rng(plan.seed)
        self.rng = np.random.default_rng(plan.seed + 1)
        x = data.normal(size=(plan.rows, plan.width))
        if self.is_wrong("data", 0):
            x = x * (1 + plan.share)
        layers = []
        for layer in range(plan.layers):
            weight = data.normal(size=(plan.width, plan.width)) / np.sqrt(plan.width)
            if self.is_wrong("weight", layer) or self.is_wrong("weights", 0):
                other = np.random.default_rng(layer).normal(size=weight.shape)
                weight = weight + plan.share * other * np.abs(weight).mean()
            layers.append(weight)
        earlier, ways = x, []
        for layer, weight in enumerate(layers):
            x, earlier, way = self.layer(layer, x, earlier, weight)
            ways.append(way)
        loss = self.noisy((x**2).mean(keepdims=True)[0])
        self.run.call("Torch.norm.0.forward", [measured(x)], [measured(loss)])
        gradient = self.noisy(2 * x / x.size)
        self.run.call("Torch.norm.0.backward", [measured(np.ones(1))], [measured(gradient)])
        for layer in range(plan.layers)[::-1]:
            gradient = ways[layer](gradient)
        return self.run

    def layer(
        self, layer: int, x: Array, earlier: Array, weight: Array
    ) -> tuple[Array, Array, Callable[[Array], Array]]:
        plan, within = self.plan, f"Module.layers.{layer}.Layer.forward.0"
        self.run.call(within, [measured(x)], [], parameters={"weight": measured(weight)})
        source = earlier if self.is_wrong("wiring", layer) else x
        linear = self.named("Functional.linear")
        h = self.noisy(source @ weight)
        if self.is_wrong("output", layer):
            h = h + plan.share * np.sqrt((h**2).mean()) * self.rng.normal(size=h.shape)
        self.run.call(
            f"{linear}.forward", [measured(source), measured(weight)], [measured(h)], within=within
        )
        tanh = self.named("Torch.tanh")
        t = self.noisy(np.tanh(h))
        self.run.call(f"{tanh}.forward", [measured(h)], [measured(t)], within=within)
        if layer == plan.layer and not self.is_wrong("missing", layer):
            t = self.once("Torch.sinh", t, np.sinh, within)
        if self.is_wrong("extra", layer):
            t = self.once("Torch.asinh", t, np.arcsinh, within)
        factor = FACTOR * (1 + plan.share) if self.is_wrong("argument", layer) else FACTOR
        scale = self.named("Torch.mul")
        s = self.noisy(factor * t)
        self.run.call(
            f"{scale}.forward", [measured(t), number(factor)], [measured(s)], within=within
        )
        add = self.named("Torch.add")
        out = self.noisy(s + source)
        self.run.call(
            f"{add}.forward", [measured(s), measured(source)], [measured(out)], within=within
        )
        self.run.data[within]["output"] = [measured(out)]

        def way(gradient: Array) -> Array:
            """Back through the layer, by the rules of calculus."""
            given = gradient
            g = self.noisy(given.copy())
            self.run.call(f"{add}.backward", [measured(given)], [measured(g), measured(given)])
            g2 = self.noisy(factor * g)
            self.run.call(f"{scale}.backward", [measured(g)], [measured(g2)])
            g3 = self.noisy(g2 * (1 - np.tanh(h) ** 2))
            if self.is_wrong("gradient", layer):
                g3 = g3 + plan.share * np.sqrt((g3**2).mean()) * self.rng.normal(size=g3.shape)
            self.run.call(f"{tanh}.backward", [measured(g2)], [measured(g3)])
            g4, of_weight = self.noisy(g3 @ weight.T), self.noisy(source.T @ g3)
            made = [measured(g4), measured(of_weight)]
            self.run.call(f"{linear}.backward", [measured(g3)], made)
            module = f"Module.layers.{layer}.Layer"
            total = g4 + given
            self.run.call(f"{module}.backward.0", [measured(given)], [measured(total)])
            self.run.data[f"{module}.parameters_grad"] = {"weight": [measured(of_weight)]}
            self.run.within[f"{module}.parameters_grad"] = None
            return total

        return out, x, way

    def once(
        self, operator: str, x: Array, function: Callable[[Array], Array], within: str
    ) -> Array:
        made = self.noisy(function(x))
        name = f"{self.named(operator)}.forward"
        self.run.call(name, [measured(x)], [measured(made)], within=within)
        return made


def both(plan: Plan) -> tuple[Run, Run]:
    """This run and the reference."""
    return Training(plan, is_debug=True).steps(), Training(plan, is_debug=False).steps()
