"""Small networks of two authors, recorded by hand, and what alignment makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

from msprobe_builder.align.settled import align_rest
from msprobe_builder.base.options import DEFAULT_OPTIONS
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.side import Side
from msprobe_builder.match.choose import match_nodes
from msprobe_builder.match.matching import Matching
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import Record, forward, tensor

WIDTH = 8


@dataclass
class Network:
    """Records by name, and what each is in the network whoever wrote it."""

    seed: int = 0
    has_values: bool = True
    data: dict[str, Record] = field(default_factory=dict)
    construct: dict[str, str | None] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    stack: dict[str, list[str]] = field(default_factory=dict)

    def tensor(self, tag: str, *shape: int) -> Record:
        """The same numbers for one tag and seed."""
        if not self.has_values:
            return tensor(None, high=None, low=None, mean=None, shape=shape)
        number = crc32(f"{tag} {self.seed}".encode()) / 2**32
        return tensor(2 + 7 * number, high=1 + number, low=-0.3 - number, shape=shape)

    def add(
        self,
        tag: str,
        name: str,
        above: str | None,
        given: list[Record],
        made: list[Record],
        weight: Record | None = None,
    ) -> str:
        self.data[name] = forward(given, made)
        if weight:
            self.data[name]["parameters"] = {"weight": weight}
        self.construct[name] = above
        self.tags[name] = tag
        return name

    def side(self, texts: Texts) -> Side:
        content = {"task": "statistics", "framework": "pytorch", "data": self.data}
        return read_rank(InMemoryDump(content, self.construct, self.stack), texts)[0]


OURS = {"net": "net.Net", "block": "layers.{}.Block", "up": "up.Linear", "down": "down.Linear"}
THEIRS = {"net": "model.Llama", "block": "h.{}.Layer", "up": "fc.Dense", "down": "c.Dense"}


def network(
    names: Mapping[str, str],
    layers: tuple[int, ...] = (0, 1, 2),
    *,
    seed: int = 0,
    has_values: bool = True,
    wrapper: str = "",
    outer: int = 0,
    first: int = 0,
) -> Network:
    """Blocks of two linears with an activation between them, and calls around the network."""
    made = Network(seed, has_values)
    x = made.tensor("x", 2, WIDTH)
    for place in range(outer):
        y = made.tensor(f"before {place}", 2, WIDTH)
        made.add(f"before {place}", f"Torch.exp.{place}.forward", None, [x], [y])
        x = y
    path, _, kind = names["net"].rpartition(".")
    out = made.tensor(f"out {layers[-1]}", 2, WIDTH)
    above = None
    if wrapper:
        above = made.add("wrapper", f"Module.{wrapper}.forward.0", None, [x], [out])
        path = f"{wrapper.rpartition('.')[0]}.module"
    net = made.add("net", f"Module.{path}.{kind}.forward.0", above, [x], [out])
    for number, layer in enumerate(layers):
        inside, _, block = names["block"].format(number + first).rpartition(".")
        name = f"Module.{path}.{inside}"
        inner = made.tensor(f"inner {layer}", 2, 3 * WIDTH)
        active = made.tensor(f"active {layer}", 2, 3 * WIDTH)
        y = made.tensor(f"out {layer}", 2, WIDTH)
        mid = made.tensor(f"down {layer}", 2, WIDTH)
        host = made.add(f"block {layer}", f"{name}.{block}.forward.0", net, [x], [y])
        up = made.tensor(f"weight up {layer}", 3 * WIDTH, WIDTH)
        made.add(f"up {layer}", f"{name}.{names['up']}.forward.0", host, [x], [inner], up)
        made.add(f"act {layer}", f"Torch.relu.{number}.forward", host, [inner], [active])
        down = made.tensor(f"weight down {layer}", WIDTH, 3 * WIDTH)
        made.add(f"down {layer}", f"{name}.{names['down']}.forward.0", host, [active], [mid], down)
        made.add(f"sum {layer}", f"Torch.add.{number}.forward", host, [x, mid], [y])
        x = y
    for place in range(outer):
        y = made.tensor(f"behind {place}", 2)
        made.add(f"behind {place}", f"Torch.mean.{place}.forward", None, [x], [y])
        x = y
    return made


@dataclass
class Aligned:
    """What became of two networks, by tags."""

    npu: Side
    bench: Side
    matching: Matching
    left: Network
    right: Network

    def tag(self, side: int, node: int) -> str:
        names, made = ((self.npu, self.left), (self.bench, self.right))[side]
        name = names.tree.names[node]
        return made.tags.get(name, name)

    def partners(self) -> dict[str, str]:
        found = {
            self.tag(0, node): self.tag(1, int(other))
            for node, other in enumerate(self.matching.npu)
            if other > 0
        }
        return {one: two for one, two in found.items() if not one.startswith("Apis")}

    def evidence(self, tag: str) -> tuple[int, float]:
        [node] = [one for one in range(len(self.npu.tree)) if self.tag(0, one) == tag]
        return int(self.matching.evidence[node]), float(self.matching.certainty[node])


def aligned(left: Network, right: Network) -> Aligned:
    texts = Texts()
    npu, bench = left.side(texts), right.side(texts)
    matching, _ = match_nodes(npu, bench, DEFAULT_OPTIONS, texts, align=align_rest)
    found = Aligned(npu, bench, matching, left, right)
    back = {int(other): node for node, other in enumerate(matching.npu) if other >= 0}
    assert len(back) == sum(matching.npu >= 0), "a node has one partner"
    assert all(matching.bench[other] == node for other, node in back.items())
    automatic = (matching.npu >= 0) & (matching.evidence > 0)
    assert (matching.certainty[automatic] >= 0.5).all()
    assert (matching.certainty[automatic] <= 1.0).all()
    for likely, own, other in (
        (matching.npu_likely, matching.npu, matching.bench),
        (matching.bench_likely, matching.bench, matching.npu),
    ):
        assert (own[likely.node] < 0).all()
        assert (other[likely.candidate] < 0).all()
        sums = np.bincount(likely.node, weights=likely.likelihood)
        assert (sums <= 1.0).all()
    return found


def same_tags(left: Network, right: Network) -> dict[str, str]:
    return {tag: tag for tag in left.tags.values() if tag in right.tags.values()}


def with_backward(made: Network) -> Network:
    """The same with its backward calls, and the gradients of its weights."""
    for name in [*made.data][::-1]:
        tag, record = made.tags[name], made.data[name]
        back = name.replace(".forward", ".backward")
        given, out = (
            [made.tensor(f"gradient of {tag} {place}", *one["shape"]) for one in record[key]]
            for place, key in enumerate(("output", "input_args"))
        )
        made.data[back] = {"input": given, "output": out}
        made.construct[back] = None
        made.tags[back] = f"back {tag}"
    for name in [name for name in made.data if "parameters" in made.data[name]]:
        gradient = name.replace(".forward.0", ".parameters_grad")
        weight = made.data[name]["parameters"]["weight"]
        made.data[gradient] = {
            "weight": [made.tensor(f"of weight {made.tags[name]}", *weight["shape"])]
        }
        made.construct[gradient] = None
        made.tags[gradient] = f"gradient {made.tags[name]}"
    return made


def with_sines(
    exchanged: bool,
    names: Mapping[str, str] = OURS,
    *,
    has_values: bool = True,
    lines: bool = False,
) -> Network:
    """A network with two more calls in each block, in one order or the other."""
    made = network(names, has_values=has_values)
    for layer in range(3):
        [host] = [name for name, tag in made.tags.items() if tag == f"block {layer}"]
        for place, of in enumerate(["active", "inner"] if exchanged else ["inner", "active"]):
            name = f"Torch.sin.{2 * layer + place}.forward"
            given = [made.tensor(f"{of} {layer}", 2, 3 * WIDTH)]
            made.add(
                f"sin {of} {layer}", name, host, given, [made.tensor(f"sin {of} {layer}", 2, 24)]
            )
            if lines:
                made.stack[name] = [f"File /home/user/m.py, line 3, in forward, \n sin({of})"]
    return made
