"""When a tensor is measured, and when what was found before still holds."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
import torch
from hypothesis import given

from msprobe_collector.record.statistics import is_in_memory, is_unchanged
from tests.collector.recording import EVIDENCE, record
from tests.small_graphs import RANDOMS

MANY = 5000  # numbers, of which the sum alone is kept


@pytest.mark.parametrize("mode", ["statistics", "md5"])
def test_what_was_written_to_unseen_is_measured_again_though_its_sum_is_the_same(
    mode: str, tmp_path: Path
) -> None:
    change = torch.zeros(MANY)
    change[0], change[1] = 1.0, -1.0

    def step() -> None:
        made = torch.add(torch.ones(MANY), 1.0)
        torch.ops.aten.add_(made, change)
        torch.mul(made, 2.0)

    dump = record(tmp_path, step, level="L1", statistics={"summary_mode": mode})
    [first] = dump.data["Torch.add.0.forward"]["output"]
    second = dump.data["Torch.mul.0.forward"]["input_args"][0]
    assert (first["Max"], first["Min"]) == (2.0, 2.0)
    assert (second["Max"], second["Min"]) == (3.0, 1.0)
    assert ("md5" in first) == (mode == "md5")
    if mode == "md5":
        assert first["md5"] != second["md5"]


def test_whether_a_tensor_asks_for_gradients_is_as_it_was_at_each_call(tmp_path: Path) -> None:
    def step() -> None:
        made = torch.add(torch.ones(MANY), 1.0)
        torch.mul(made, 2.0)
        made.requires_grad_()
        torch.mul(made, 2.0)

    dump = record(tmp_path, step, level="L1")
    asked = [dump.data[f"Torch.mul.{n}.forward"]["input_args"][0] for n in range(2)]
    assert [one["requires_grad"] for one in asked] == [False, True]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_a_sum_tells_whether_a_tensor_is_what_it_was(kind: torch.dtype) -> None:
    tensor = torch.tensor([1.0, 2.0, 4.0], dtype=kind)
    assert is_unchanged(tensor, 7.0)
    assert not is_unchanged(tensor, 7.5)
    assert not is_unchanged(tensor, None)
    # Of one byte torch has no sums, so nothing is known.
    assert not is_unchanged(torch.ones(3, dtype=torch.int8), 3.0)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("layout", "shape"), [(torch.strided, [2, -1, -1]), (torch.jagged, [2, -1, 3])]
)
def test_rows_that_differ_in_length_have_none(
    layout: torch.layout, shape: list[int], tmp_path: Path
) -> None:
    rows = [torch.ones(2, 3), torch.ones(4, 3)]
    nested = torch.nested.nested_tensor(rows, layout=layout)
    dump = record(tmp_path, lambda: torch.relu(nested), level="L1", statistics=EVIDENCE)
    assert dump.data["Torch.relu.0.forward"]["input_args"][0]["shape"] == shape


@given(RANDOMS)
def test_a_tensor_is_in_memory_to_its_last_number_or_not_at_all(random: Random) -> None:
    shape = [random.randint(0, 3) for _ in range(random.randint(0, 3))]
    stride = [random.randint(0, 5) for _ in shape]
    if random.random() < 0.4:  # without gaps
        for at in reversed(range(len(shape))):
            stride[at] = stride[at + 1] * max(shape[at + 1], 1) if at + 1 < len(shape) else 1
    offset = random.randint(0, 3)
    kind = random.choice((torch.float32, torch.float64, torch.int8))
    tensor = torch.empty(200, dtype=kind).as_strided(shape, stride, offset)
    places = [offset]
    for count, step in zip(shape, stride, strict=True):
        places = [place + n * step for place in places for n in range(count)]
    needed = (max(places) + 1) * tensor.itemsize if places else 0
    for size in range(max(0, needed - 2 * tensor.itemsize), needed + 9):
        if places:
            assert is_in_memory(tensor, size) == (size >= needed), (shape, stride, offset, size)
    assert is_in_memory(tensor, needed + 8 * tensor.itemsize)
