"""Experts by their place in names, and the layers that hold the weights of many."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.experts import ExpertPlace, expert_place
from msprobe_builder.merge.ranks.layout import parse_layout, replicas
from msprobe_builder.merge.replica import ReplicaSource, read_replica
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.merge.simulated_training import Array, tensor


@pytest.mark.parametrize(
    ("stem", "place"),
    [
        ("Module.layers.0.mlp.experts.SequentialMLP", ("Module.layers.0.mlp", None)),
        ("Module.layers.0.mlp.experts.local_experts.3.MLP", ("Module.layers.0.mlp", 6)),
        ("Module.layers.0.mlp.experts.local_experts.3.fc1.Linear", ("Module.layers.0.mlp", 6)),
        ("Module.model.layers.1.mlp.experts.12.MixtralMLP", ("Module.model.layers.1.mlp", 6)),
        ("Module.m.deepspeed_moe.experts.deepspeed_experts.0.MLP", ("Module.m.deepspeed_moe", 5)),
        ("Module.layers.0.mlp.shared_experts.SharedExpertMLP", None),
        ("Module.layers.0.mlp.router.TopKRouter", None),
    ],
)  # fmt: skip
def test_places(stem: str, place: tuple[str, int | None] | None) -> None:
    assert expert_place(stem) == (None if place is None else ExpertPlace(*place))


def dump_of(modules: dict[str, dict[str, Array]], tokens: Array) -> InMemoryDump:
    """One call of a layer with the given modules and their weights."""
    layer = "Module.mlp.MoELayer.forward.0"
    data: dict[str, Any] = {}
    parents: dict[str, str | None] = {}
    for name, weights in modules.items():
        data[name] = {
            "input_args": [tensor(tokens)],
            "input_kwargs": {},
            "output": [tensor(tokens * 2)],
            "parameters": {key: tensor(value) for key, value in weights.items()},
        }
        parents[name] = layer
    data[layer] = {"input_args": [], "input_kwargs": {}, "output": []}
    parents[layer] = None
    return InMemoryDump({"task": "statistics", "level": "L0", "data": data}, parents)


def merged(dumps: list[InMemoryDump], texts: Texts) -> Side:
    layout = parse_layout({"rank_size": 2, "tp": 1, "pp": 1, "ep": 2}, "npu")
    own, peer = replicas(layout)
    source = ReplicaSource(layout, own, dict(enumerate(dumps)), (peer,))
    side, diagnostics = read_replica(source, texts, partial(read_rank, texts=texts))
    assert {one.code for one in diagnostics} <= {"released_from_backward"}
    return side


def weights(side: Side, texts: Texts) -> dict[str, tuple[str, float]]:
    """Shape and norm of every parameter of a module."""
    table = side.table
    return {
        f"{side.tree.names[int(table.node[row])]} {texts.values[table.name_id[row]]}": (
            texts.values[table.shape_id[row]] if table.shape_id[row] >= 0 else "unknown",
            float(table.statistics[3, row]),
        )
        for row in np.flatnonzero(table.is_tensor).tolist()
    }


def test_layers_with_a_weight_for_each_expert() -> None:
    texts, random = Texts(), np.random.default_rng(0)
    whole = [random.normal(size=(6, 4)) for _ in range(4)]
    module = "Module.mlp.experts.linear_fc1.TEColumnParallelGroupedLinear.forward.0"
    ranks = [
        dump_of(
            {module: {f"weight{local}": whole[2 * rank + local] for local in range(2)}},
            random.normal(size=(3 + rank, 4)),
        )
        for rank in range(2)
    ]
    found = weights(merged(ranks, texts), texts)
    for expert, weight in enumerate(whole):
        shape, norm = found[f"{module} parameters.weight{expert}"]
        assert shape == "[6, 4]"
        assert norm == pytest.approx(float(np.linalg.norm(weight)))
    assert found[f"{module} input.0"][0] == "[7, 4]"


def test_layers_with_one_weight_for_all_experts() -> None:
    texts, random = Texts(), np.random.default_rng(0)
    first, second = random.normal(size=(4, 12)), random.normal(size=(12, 4))
    third = random.normal(size=(4, 3, 5))
    mlp = "Module.mlp.experts.GroupedMLP.forward.0"
    fused = "Module.mlp.experts.inner.FusedExperts.forward.0"
    ranks = [
        dump_of(
            {
                mlp: {
                    "weight1": first[:, 6 * rank : 6 * rank + 6],
                    "weight2": second[6 * rank : 6 * rank + 6],
                },
                fused: {"gate_up_proj": third[2 * rank : 2 * rank + 2]},
            },
            random.normal(size=(3, 4)),
        )
        for rank in range(2)
    ]
    found = weights(merged(ranks, texts), texts)
    for name, weight in (
        (f"{mlp} parameters.weight1", first),
        (f"{mlp} parameters.weight2", second),
        (f"{fused} parameters.gate_up_proj", third),
    ):
        shape, norm = found[name]
        assert shape == str([*weight.shape])
        assert norm == pytest.approx(float(np.linalg.norm(weight)))
    assert found[f"{mlp} input.0"][0] == "[6, 4]"


def test_sums_of_experts_that_are_reduced_later_are_no_shards() -> None:
    """With experts split by tensor parallelism each rank has its share of the sum."""
    random, texts = np.random.default_rng(3), Texts()
    tokens = random.normal(size=(4, 6))
    fc1, experts = (
        "Module.mlp.experts.local_experts.0",
        "Module.mlp.experts.SequentialMLP.forward.0",
    )
    inner, outer = f"{fc1}.MLP.forward.0", "Module.mlp.MoELayer.forward.0"
    linear = f"{fc1}.linear_fc1.ColumnParallelLinear.forward.0"

    def dump() -> InMemoryDump:
        weight, share = random.normal(size=(4, 6)), random.normal(size=(4, 6))
        share[0, 0] = 9.0  # looks like a weight that is cut
        taken = {"input_args": [tensor(tokens)], "input_kwargs": {}}
        joined = {"input_args": [tensor(share)], "input_kwargs": {}, "output": [tensor(share)]}
        column = {
            **taken,
            "output": [tensor(tokens @ weight.T)],
            "parameters": {"weight": tensor(weight)},
        }
        data = {
            linear: column,
            inner: {**taken, "output": [tensor(share)]},
            "Torch.cat.0.forward": joined,
            experts: {**taken, "output": [tensor(share)]},
            outer: {**taken, "output": [tensor(tokens)]},
        }
        parents = {linear: inner, inner: experts, "Torch.cat.0.forward": experts, experts: outer}
        head = {"task": "statistics", "level": "mix", "data": data}
        return InMemoryDump(head, {**parents, outer: None})

    layout = parse_layout({"rank_size": 2, "tp": 2, "pp": 1}, "npu")
    source = ReplicaSource(layout, replicas(layout)[0], {0: dump(), 1: dump()}, ())
    side, _ = read_replica(source, texts, partial(read_rank, texts=texts))
    node = side.tree.names.index("Torch.cat.0.forward")
    rows = np.flatnonzero(side.table.node == node)
    assert len(rows) == 2
    assert np.isnan(side.table.statistics[:, rows]).all()
