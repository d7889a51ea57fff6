"""Where tensors come from and go: against models whose flow is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.conftest import BuildDatabase
from tests.plugin.conftest import Ask, client_of

NET = "Module.net.Net.forward.0"


class Model:
    """One graph of a database, asked by names."""

    def __init__(self, database: Path) -> None:
        self._file = database.name
        self._ask: Ask = client_of(database.parent)
        place = {"file": self._file, "step": 0, "rank": 0, "side": "npu"}
        found = pb.Skeleton.FromString(self._ask("skeleton", **place).data)
        self._index = {
            pb.NodeDetail.FromString(self._ask("node", **place, index=index).data).npu.name: index
            for index in range(found.node_count)
        }
        self._place = place

    def flow(self, name: str) -> pb.NodeFlow:
        """The flow of a node."""
        answer = self._ask("flow", **self._place, index=self._index[name])
        return pb.NodeFlow.FromString(answer.data)

    def maker(self, name: str, parameter: str) -> tuple[str, str, str] | None:
        """Name, evidence and certainty of who made a parameter."""
        (found,) = [one for one in self.flow(name).tensors if one.name == parameter]
        if not found.HasField("maker"):
            return None
        return found.maker.name, found.maker.evidence, found.maker.certainty

    def takers(self, name: str, parameter: str) -> list[str]:
        """Names of those who are given a parameter."""
        (found,) = [one for one in self.flow(name).tensors if one.name == parameter]
        return [one.name for one in found.takers]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, build_database: BuildDatabase) -> Model:
    """A net that scales, shifts, looks at the result in another shape, and masks it."""
    x, scaled, shifted = tensor(3.0, high=3.0), tensor(4.0, high=4.0), tensor(5.0, high=5.0)
    seen_flat = tensor(5.0, high=5.0, shape=(16,))
    mask, other = tensor(0.0, high=0.0, low=0.0), tensor(0.0, high=0.0, low=0.0)
    inner = "Module.net.block.Block.forward.0"
    data = {
        NET: forward([x], [seen_flat]),
        "Tensor.mul.0.forward": forward([x], [scaled]),
        inner: forward([scaled], [shifted]),
        "Tensor.add.0.forward": forward([scaled], [shifted]),
        "Tensor.exp.0.forward": forward([seen_flat], [seen_flat]),
        "Tensor.clone.0.forward": forward([shifted], [shifted]),
        "Tensor.sin.0.forward": forward([shifted], [tensor(9.0, high=9.0)]),
        "Tensor.zeros.0.forward": forward([], [mask]),
        "Tensor.zeros.1.forward": forward([], [other]),
        "Tensor.where.0.forward": forward([mask], [tensor(2.0, high=2.0)]),
    }
    construct: dict[str, str | None] = dict.fromkeys(data, NET)
    construct |= {NET: None, "Tensor.add.0.forward": inner}
    return Model(build_database(write_dump(tmp_path_factory.mktemp("flow"), data, construct)))


def test_an_input_comes_from_the_call_that_put_it_out(small: Model) -> None:
    assert small.maker("Tensor.add.0.forward", "input.0") == (
        *("Tensor.mul.0.forward", "statistics", "sure"),
    )


def test_what_a_module_put_out_comes_from_the_call_inside(small: Model) -> None:
    made = ("Tensor.add.0.forward", "statistics", "sure")
    assert small.maker("Module.net.block.Block.forward.0", "output.0") == made
    assert small.maker("Tensor.clone.0.forward", "input.0") == made


def test_of_two_that_look_alike_the_last_before_is_likely(small: Model) -> None:
    made = ("Tensor.clone.0.forward", "statistics", "likely")
    assert small.maker("Tensor.sin.0.forward", "input.0") == made
    assert small.takers("Tensor.add.0.forward", "output.0") == ["Tensor.clone.0.forward"]
    assert small.takers("Tensor.clone.0.forward", "output.0") == ["Tensor.sin.0.forward"]


def test_a_view_in_between_is_seen_through(small: Model) -> None:
    made = ("Tensor.add.0.forward", "values", "likely")
    assert small.maker("Tensor.exp.0.forward", "input.0") == made


def test_tensors_that_all_look_alike_are_a_guess(small: Model) -> None:
    made = ("Tensor.zeros.1.forward", "statistics", "guess")
    assert small.maker("Tensor.where.0.forward", "input.0") == made


def test_what_nobody_made_is_handed_in_from_outside(small: Model) -> None:
    assert small.maker("Tensor.mul.0.forward", "input.0") == (NET, "statistics", "sure")
    assert small.maker(NET, "input.0") is None
    assert small.takers(NET, "input.0") == ["Tensor.mul.0.forward"]


def test_without_values_the_order_alone_is_a_guess(
    tmp_path: Path, build_database: BuildDatabase
) -> None:
    def bare(*shape: int) -> dict[str, object]:
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape)}

    data = {
        "Tensor.mul.0.forward": forward([bare(2)], [bare(2)]),
        "Tensor.cat.0.forward": forward([bare(2)], [bare(4)]),
        "Tensor.sum.0.forward": forward([bare(2)], [bare(1)]),
    }
    model = Model(build_database(write_dump(tmp_path, data, task="structure")))
    made = ("Tensor.mul.0.forward", "order", "guess")
    assert model.maker("Tensor.sum.0.forward", "input.0") == made
    assert model.maker("Tensor.mul.0.forward", "input.0") is None
    assert model.takers("Tensor.cat.0.forward", "output.0") == []


def test_the_trail_leads_from_the_wrong_scale_to_the_loss(demo_database: Path) -> None:
    model = Model(demo_database)
    layer = "Module.model.layers.1.LlamaDecoderLayer.forward.0"
    names = [link.name for link in model.flow(layer).trail]
    assert names[0] == "Tensor.__mul__.19.forward"
    assert names[-1] == layer
    # Every step is one that the tensors themselves show, or out of a module.
    assert model.takers(names[0], "output.0") == names[1:2]
    assert model.takers(names[1], "output.0") == names[2:3]
    clean = model.flow("Tensor.__mul__.0.forward")
    assert not clean.trail
    # In modeling_llama.py: torch.matmul(query, key) * scaling.
    assert model.maker("Tensor.__mul__.19.forward", "input.0") == (
        *("Torch.matmul.2.forward", "statistics", "sure"),
    )
