"""A small model trained on any number of simulated ranks, dumped as the collector would.

The training is computed once, in whole; each rank records its slices of it, and what it makes of
its slices where they are summed up later. On a single rank the dump is the truth that the merge
of every split must give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe_builder.dump.source import InMemoryDump
from tests.builder.merge.simulated_experts import ExpertShare, record_experts, tokens_of_ranks
from tests.builder.merge.simulated_training import (
    LENGTH,
    Array,
    Model,
    Record,
    Training,
    runs,
    tensor,
)


@dataclass(frozen=True)
class Cluster:
    """Where it is trained; ``cuts[i]`` is the first part of piece i + 1 in model order."""

    tp: int = 1
    pp: int = 1
    vpp: int = 1
    cuts: tuple[int, ...] = ()
    all_forward_first: bool = False
    sequence_parallel: bool = False
    cp: int = 1
    ep: int = 1
    dp: int = 1

    def rank(self, stage: int, replica: int, context: int, part: int) -> int:
        """The number of a rank: tensor parallelism varies fastest, then cp, dp and pp."""
        return ((stage * self.dp + replica) * self.cp + context) * self.tp + part


def simulate(model: Model, cluster: Cluster, seed: int = 0) -> dict[int, InMemoryDump]:
    """The dumps of all ranks."""
    trainings = tokens_of_ranks(model, cluster.cp, cluster.dp, seed)
    return {
        cluster.rank(stage, *divmod(number, cluster.cp), part): _Rank(
            training,
            cluster,
            (stage, *divmod(number, cluster.cp), part),
            ExpertShare.of(cluster.ep, number, trainings, model),
        ).dump()
        for stage in range(cluster.pp)
        for number, training in enumerate(trainings)
        for part in range(cluster.tp)
    }


def whole(model: Model, cluster: Cluster, replica: int, seed: int = 0) -> InMemoryDump:
    """What one replica's graph must show: all its tokens, experts with those of their group."""
    trainings = tokens_of_ranks(model, 1, cluster.dp, seed)
    count = max(cluster.ep // cluster.cp, 1)  # replicas whose tokens meet
    group = tuple(trainings[replica - replica % count :][:count])
    share = ExpertShare(range(model.experts), group, 1)
    return _Rank(trainings[replica], Cluster(), (0, 0, 0, 0), share).dump()


class _Rank:
    def __init__(
        self,
        training: Training,
        cluster: Cluster,
        place: tuple[int, int, int, int],
        experts: ExpertShare,
    ) -> None:
        self.training, self.cluster, self.experts = training, cluster, experts
        self.stage, self.replica, self.context, self.part = place
        self.model, self.weight = training.model, training.weight
        self.data: dict[str, Record] = {}
        self.construct: dict[str, str | None] = {}
        self.calls: dict[str, int] = {}
        self.open: list[str] = []
        self.gradients: dict[str, Array] = {}

    def dump(self) -> InMemoryDump:
        for direction, chunk, m in self._schedule():
            if direction == "forward":
                self._forward(chunk, m)
            else:
                self._backward(chunk, m)
        for stem, gradient in self.gradients.items():
            self.data[f"{stem}.parameters_grad"] = {"weight": [tensor(gradient)]}
        head = {"task": "statistics", "level": "mix", "framework": "pytorch"}
        return InMemoryDump({**head, "data": self.data}, self.construct)

    # What runs here and when

    def _parts(self, chunk: int) -> list[str]:
        bounds = [0, *self.cluster.cuts, len(self.model.parts)]
        piece = chunk * self.cluster.pp + self.stage
        return self.model.parts[bounds[piece] : bounds[piece + 1]]

    def _schedule(self) -> list[tuple[str, int, int]]:
        """One forward, one backward after a warm-up, chunks in groups of micro-batches."""
        pp, vpp, count = self.cluster.pp, self.cluster.vpp, self.model.micro_batches
        groups = [range(start, min(start + pp, count)) for start in range(0, count, pp)]
        forward = [("forward", chunk, m) for ms in groups for chunk in range(vpp) for m in ms]
        backward = [
            ("backward", chunk, m) for ms in groups for chunk in reversed(range(vpp)) for m in ms
        ]
        behind = pp - self.stage - 1
        warm_up = behind if vpp == 1 else 2 * behind + (vpp - 1) * pp
        if self.cluster.all_forward_first:
            warm_up = len(forward)
        result = forward[:warm_up]
        for number, call in enumerate(backward):
            result += [*forward[warm_up + number : warm_up + number + 1], call]
        return result

    def _stem(self, chunk: int, part: str, inner: str = "") -> str:
        place = "Module" if self.model.nesting == "bare" else f"Module.{chunk}"
        if part == "embedding":
            return f"{place}.embedding.VocabParallelEmbedding"
        if part == "final_norm":
            return f"{place}.final_norm.RMSNorm"
        if part == "head":
            return f"{place}.head.ColumnParallelLinear"
        number = int(part)
        if not self.model.global_numbers:
            number -= min(int(other) for other in self._parts(chunk) if other.isdigit())
        above = "decoder.layers" if self.model.nesting == "decoder" else "layers"
        return f"{place}.{above}.{number}.{inner or 'Layer'}"

    def layer_stem(self, part: str, inner: str) -> str:
        """The stem of a module within a layer."""
        chunk = next(one for one in range(self.cluster.vpp) if part in self._parts(one))
        return self._stem(chunk, part, inner)

    # Recording

    def api(self, stem: str, inputs: Sequence[Any], output: Array) -> None:
        number = self.calls[stem] = self.calls.get(stem, -1) + 1
        name = f"{stem}.{number}.forward"
        self.construct[name] = self.open[-1] if self.open else None
        arguments = [
            tensor(one)
            if isinstance(one, np.ndarray)
            else {"type": type(one).__name__, "value": one}
            for one in inputs
        ]
        self.data[name] = {"input_args": arguments, "input_kwargs": {}, "output": [tensor(output)]}

    def reduce(self, own: Array, whole: Array) -> None:
        """Sum over the tensor-parallel ranks; each keeps its part of the sequence or all of it."""
        if self.cluster.tp == 1:
            return
        if self.cluster.sequence_parallel:
            part = self.sequence(whole)
            self.collective("Distributed.reduce_scatter_tensor", [part * 0, own], part, own)
        else:
            self.collective("Distributed.all_reduce", [own], whole)

    def gather(self, whole: Array) -> None:
        """Bring the parts of a sequence together."""
        if self.cluster.tp > 1 and self.cluster.sequence_parallel:
            part = self.sequence(whole)
            name = "Distributed.all_gather_into_tensor"
            self.collective(name, [whole * 0, part], whole, part)

    def collective(self, stem: str, inputs: Sequence[Array], *outputs: Array) -> None:
        first = self.cluster.rank(self.stage, self.replica, self.context, 0)
        ranks = list(range(first, first + self.cluster.tp))
        self.api(stem, inputs, outputs[0])
        record = self.data[f"{stem}.{self.calls[stem]}.forward"]
        record["input_kwargs"]["group"] = {"type": "torch.ProcessGroup", "group_ranks": ranks}
        record["output"] = [tensor(one) for one in outputs]

    def sequence(self, whole: Array) -> Array:
        """What a rank holds between parallel layers: a tensor, or its part of the sequence."""
        return self.cut(whole, 0) if self.cluster.sequence_parallel else whole

    @contextmanager
    def module(
        self, stem: str, direction: str, call: int, x: Array, y: Array, weight: Array | None = None
    ) -> Iterator[None]:
        name = f"{stem}.{direction}.{call}"
        self.open.append(name)
        yield
        self.open.pop()
        self.construct[name] = self.open[-1] if self.open else None
        key = "input_args" if direction == "forward" else "input"
        record: Record = {key: [tensor(x)], "output": [tensor(y)]}
        if weight is not None and direction == "forward":
            record["parameters"] = {"weight": tensor(weight)}
        self.data[name] = record

    def cut(self, whole: Array, axis: int) -> Array:
        return np.split(whole, self.cluster.tp, axis)[self.part]

    def wrappers(
        self, direction: str, chunk: int, m: int, x: Array, y: Array
    ) -> AbstractContextManager[None]:
        """The model around its parts, if it has a module of its own."""
        if self.model.nesting == "bare":
            return nullcontext()
        return self.module(f"Module.{chunk}.GPT", direction, m, x, y)

    # The pieces

    def _forward(self, chunk: int, m: int) -> None:
        parts, x_of = self._parts(chunk), self.training.x
        is_first, is_last = self._ends(chunk)
        self.api("Torch.arange", [LENGTH], np.arange(LENGTH))
        if not is_first:
            self.api("Torch.empty", [LENGTH], np.zeros(LENGTH))
            self.api("Distributed.recv", [np.zeros(LENGTH)], np.ones(LENGTH))
        x, y = self._bounds(chunk, m)
        with self.wrappers("forward", chunk, m, x, y):
            for run in runs(parts, self.model):
                with self._decoder("forward", chunk, m, run):
                    for part in run:
                        self._part_forward(chunk, part, m, x_of[part, m])
        if is_last:
            end = self.cut(x_of["end", m], -1)
            self.api("Tensor.__mul__", [end, 0.5], end * 0.5)
        else:
            self.api("Distributed.send", [np.ones(LENGTH)], np.ones(LENGTH))

    def _ends(self, chunk: int) -> tuple[bool, bool]:
        piece = chunk * self.cluster.pp + self.stage
        return piece == 0, piece == self.cluster.pp * self.cluster.vpp - 1

    def _at(self, values: dict[tuple[str, int], Array], place: int, m: int) -> Array:
        """What enters the part at a place; only what leaves the head is in slices."""
        names = [*self.model.parts, "end"]
        whole = values[names[place], m]
        if names[place] == "end":
            return self.cut(whole, -1)
        return whole if names[place] == "embedding" else self.sequence(whole)

    def _bounds(self, chunk: int, m: int) -> tuple[Array, Array]:
        bounds = [0, *self.cluster.cuts, len(self.model.parts)]
        piece = chunk * self.cluster.pp + self.stage
        return self._at(self.training.x, bounds[piece], m), self._at(
            self.training.x, bounds[piece + 1], m
        )

    def _gradient_bounds(self, parts: Sequence[str], chunk: int, m: int) -> tuple[Array, Array]:
        """What enters and leaves a run of parts backward; without parts the same."""
        if not parts:
            bounds = [0, *self.cluster.cuts, len(self.model.parts)]
            place = bounds[chunk * self.cluster.pp + self.stage]
            if place == len(self.model.parts):
                same = self.cut(self.training.g["head", m], -1)
            else:
                part = self.model.parts[place]
                same = self.sequence(self.training.backward(part, self.training.g[part, m]))
            return same, same
        entering = self.training.g[parts[-1], m]
        entering = self.cut(entering, -1) if parts[-1] == "head" else self.sequence(entering)
        return entering, self.sequence(
            self.training.backward(parts[0], self.training.g[parts[0], m])
        )

    @contextmanager
    def _decoder(self, direction: str, chunk: int, m: int, run: Sequence[str]) -> Iterator[None]:
        if self.model.nesting != "decoder" or not run[0].isdigit():
            yield
            return
        if direction == "forward":
            x = self.sequence(self.training.x[run[0], m])
            y = self.sequence(self.training.forward(run[-1], self.training.x[run[-1], m]))
        else:
            x, y = self._gradient_bounds(run, chunk, m)
        with self.module(f"Module.{chunk}.decoder.Block", direction, m, x, y):
            yield

    def _part_forward(self, chunk: int, part: str, m: int, x: Array) -> None:
        stem = self._stem(chunk, part)
        if part == "embedding":
            weight, y = self.cut(self.weight[part], 0), self.weight[part][x]
            start = self.part * len(weight)
            inside = (x >= start) & (x < start + len(weight))
            own = np.where(inside[:, None], weight[(x - start).clip(0, len(weight) - 1)], 0.0)
            with self.module(stem, "forward", m, x, self.sequence(y), weight):
                self.api("Functional.embedding", [x, weight], own)
                self.reduce(own, y)
        elif part == "final_norm":
            self._norm(part, stem, m, x)
        elif part == "head":
            self._column(part, stem, m, x)
        else:
            own, result = self.sequence(x), self.sequence(self.training.forward(part, x))
            with self.module(stem, "forward", m, own, result):
                n = self._norm(f"norm{part}", self._stem(chunk, part, "norm.RMSNorm"), m, x)
                up = self._stem(chunk, part, "up.ColumnParallelLinear")
                y = self._column(f"up{part}", up, m, n)
                self.api("Tensor.__mul__", [self.cut(y, -1), 2.0], self.cut(y, -1) * 2.0)
                down = self._stem(chunk, part, "down.RowParallelLinear")
                z = self._row(f"down{part}", down, m, y * 2.0)
                if self.model.experts:
                    record_experts(self, self.experts, part, m)
                self.api("Tensor.__add__", [own, self.sequence(z)], result)

    def _norm(self, name: str, stem: str, m: int, x: Array) -> Array:
        own, weight = self.sequence(x), self.weight[name]
        with self.module(stem, "forward", m, own, own * weight, weight):
            self.api("Tensor.__mul__", [own, weight], own * weight)
        return x * weight

    def _column(self, name: str, stem: str, m: int, x: Array) -> Array:
        weight = self.cut(self.weight[name], 0)
        with self.module(stem, "forward", m, self.sequence(x), x @ weight.T, weight):
            self.gather(x)
            self.api("Tensor.t", [weight], weight.T)
            self.api("Torch.matmul", [x, weight.T], x @ weight.T)
        return x @ self.weight[name].T

    def _row(self, name: str, stem: str, m: int, x: Array) -> Array:
        weight, own = self.cut(self.weight[name], 1), self.cut(x, -1)
        whole = x @ self.weight[name].T
        with self.module(stem, "forward", m, own, self.sequence(whole), weight):
            self.api("Tensor.t", [weight], weight.T)
            self.api("Torch.matmul", [own, weight.T], own @ weight.T)
            self.reduce(own @ weight.T, whole)
        return whole

    def _backward(self, chunk: int, m: int) -> None:
        parts = self._parts(chunk)
        is_first, is_last = self._ends(chunk)
        if not is_last:
            self.api("Torch.empty", [LENGTH], np.zeros(LENGTH))
            self.api("Distributed.recv", [np.zeros(LENGTH)], np.ones(LENGTH))
        g, result = self._gradient_bounds(parts, chunk, m)
        with self.wrappers("backward", chunk, m, g, result):
            for run in reversed(runs(parts, self.model)):
                with self._decoder("backward", chunk, m, run):
                    for part in reversed(run):
                        self._part_backward(chunk, part, m, self.training.g[part, m])
        if not is_first:
            self.api("Distributed.send", [np.ones(LENGTH)], np.ones(LENGTH))

    def _part_backward(self, chunk: int, part: str, m: int, g: Array) -> None:
        stem, x = self._stem(chunk, part), self.training.x[part, m]
        if part == "embedding":
            with self.module(stem, "backward", m, self.sequence(g), self.sequence(g)):
                pass
        elif part == "final_norm":
            self._norm_backward(part, stem, m, g, x)
        elif part == "head":
            self._column_backward(part, stem, m, g, x)
        else:
            own, result = self.sequence(g), self.sequence(self.training.backward(part, g))
            with self.module(stem, "backward", m, own, result):
                if self.model.experts:
                    record_experts(self, self.experts, part, m, backward=True)
                n = x * self.weight[f"norm{part}"]
                y = n @ self.weight[f"up{part}"].T
                down = self._stem(chunk, part, "down.RowParallelLinear")
                inner = self._row_backward(f"down{part}", down, m, g, y * 2.0) * 2.0
                up = self._stem(chunk, part, "up.ColumnParallelLinear")
                back = self._column_backward(f"up{part}", up, m, inner, n)
                if self.model.experts:
                    back = back + self.training.routed(part, g, transposed=True)
                norm = self._stem(chunk, part, "norm.RMSNorm")
                self._norm_backward(f"norm{part}", norm, m, back, x)

    def _norm_backward(self, name: str, stem: str, m: int, g: Array, x: Array) -> None:
        own = self.sequence(g)
        with self.module(stem, "backward", m, own, own * self.weight[name]):
            pass
        self.gradients[stem] = (own * self.sequence(x)).sum(axis=0)

    def _column_backward(self, name: str, stem: str, m: int, g: Array, x: Array) -> Array:
        weight, own, whole = self.cut(self.weight[name], 0), self.cut(g, -1), g @ self.weight[name]
        with self.module(stem, "backward", m, own, self.sequence(whole)):
            self.api("Tensor.matmul", [own, weight], own @ weight)
            self.reduce(own @ weight, whole)
            self.gather(x)
            self._weight_gradient(stem, own, x)
        return whole

    def _row_backward(self, name: str, stem: str, m: int, g: Array, x: Array) -> Array:
        weight = self.cut(self.weight[name], 1)
        with self.module(stem, "backward", m, self.sequence(g), g @ weight):
            self.gather(g)
            self.api("Tensor.matmul", [g, weight], g @ weight)
            self._weight_gradient(stem, g, self.cut(x, -1))
        return g @ self.weight[name]

    def _weight_gradient(self, stem: str, g: Array, x: Array) -> None:
        self.api("Tensor.t", [g], g.T)
        self.api("Tensor.matmul", [g.T, x], g.T @ x)
        self.gradients[stem] = g.T @ x
