"""What follows the last backward pass reads as on a single rank, whatever the split."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.merge.simulated_training import Model, Record
from tests.builder.merge.simulator import Cluster, simulate, whole
from tests.builder.merge.test_simulator import merged, outline, values

STATISTICS = ("Max", "Min", "Mean", "Norm")


def scaled(tensor: Record, factor: float) -> Record:
    return tensor | {key: tensor[key] * factor for key in STATISTICS}


def parameters(dump: InMemoryDump) -> list[tuple[Record, Record]]:
    """Weights and their gradients in the order of the model, chunk by chunk."""
    data: dict[str, Any] = dump.dump["data"]
    stems = [name.removesuffix(".forward.0") for name in data if name.endswith(".forward.0")]
    found = [
        (data[f"{stem}.forward.0"]["parameters"]["weight"], gradients["weight"][0], stem)
        for stem in stems
        if (gradients := data.get(f"{stem}.parameters_grad"))
    ]
    found.sort(key=lambda one: one[2].split(".")[1])  # the number of the chunk
    return [(weight, gradient) for weight, gradient, _ in found]


def with_optimizer(dump: InMemoryDump, *, in_reverse: bool) -> InMemoryDump:
    """The dump with gradients clipped and weights updated, matrices before vectors."""
    data: dict[str, Any] = dict(dump.dump["data"])
    construct = dict(dump.construct)
    calls: dict[str, int] = {}

    def call(stem: str, above: str | None, inputs: list[Record], output: Record) -> None:
        calls[stem] = calls.get(stem, -1) + 1
        name = f"{stem}.{calls[stem]}.forward"
        construct[name] = above
        data[name] = {"input_args": inputs, "input_kwargs": {}, "output": [output]}

    zeros = dict.fromkeys(STATISTICS, 0.0)
    count = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [], **zeros}
    own = parameters(dump)
    own = sorted(own[:: -1 if in_reverse else 1], key=lambda one: -len(one[0]["shape"]))
    for _, gradient in own:
        call("Tensor.mul_", None, [gradient], scaled(gradient, 0.5))
    for weight, gradient in own:
        clipped, decayed = scaled(gradient, 0.5), scaled(weight, 0.9)
        moment = scaled(clipped, 0.1)
        call("Tensor.__iadd__", "optimizer", [count], count | dict.fromkeys(STATISTICS, 1.0))
        call("Tensor.mul_", "optimizer", [weight], decayed)
        call("Tensor.lerp_", "optimizer", [weight | zeros, clipped], moment)
        call("Tensor.sub_", "optimizer", [decayed, moment], scaled(weight, 0.8))
    construct["optimizer"] = None
    return InMemoryDump({**dump.dump, "data": data}, construct)


CLUSTERS = [
    Cluster(pp=2, cuts=(3,)),
    Cluster(pp=2, vpp=2, cuts=(2, 3, 4)),
    Cluster(tp=2, pp=2, vpp=2, cuts=(2, 3, 4)),
    Cluster(tp=2, pp=3, cuts=(2, 4)),
    Cluster(tp=2),
]


@pytest.mark.parametrize("in_reverse", [False, True])
@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
def test_every_parameter_is_updated_once_and_in_model_order(
    cluster: Cluster, in_reverse: bool
) -> None:
    model, texts = Model(layers=4), Texts()
    dumps = {
        rank: with_optimizer(dump, in_reverse=in_reverse)
        for rank, dump in simulate(model, cluster).items()
    }
    side, diagnostics = merged(dumps, cluster, texts)
    truth, _ = read_rank(with_optimizer(whole(model, cluster, 0), in_reverse=in_reverse), texts)
    assert not {one.code for one in diagnostics} - {"call_without_record"}
    assert outline(side) == outline(truth)
    found, expected = values(side, texts), values(truth, texts)
    assert found.keys() == expected.keys()
    for key, (shape, statistics) in expected.items():
        assert found[key][0] == shape or found[key][0] < 0, key
        assert found[key][1] == pytest.approx(statistics), key


def test_ranks_that_update_a_weight_differently_drift_apart() -> None:
    """As when the gradients of norms are not reduced: each rank goes by its share."""
    cluster, texts = Cluster(tp=2), Texts()
    dumps = {
        rank: with_optimizer(dump, in_reverse=False)
        for rank, dump in simulate(Model(layers=1), cluster).items()
    }
    data: dict[str, Any] = dumps[1].dump["data"]
    last = max(
        (name for name in data if name.startswith("Tensor.sub_.")),
        key=lambda name: int(name.split(".")[2]),
    )
    assert len(data[last]["output"][0]["shape"]) == 1  # the weight of a norm
    data[last]["input_args"][1] = scaled(data[last]["input_args"][1], 1.5)
    data[last]["output"][0] = scaled(data[last]["output"][0], 1.01)
    _, diagnostics = merged(dumps, cluster, texts)
    [drifted] = [one for one in diagnostics if one.code == "replicas_disagree"]
    assert drifted.subject == f"{last} output.0 of ranks 0, 1"
