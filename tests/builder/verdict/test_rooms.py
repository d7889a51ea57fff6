"""Memory that calls fill with tensors: it is off by what they were given, whoever handed it out."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.builder.verdict.columns import Run, compared, evidence_of, measured, rows_by_name
from tests.builder.verdict.live_modules import verdict_of

Fill = Callable[[Tensor, Tensor, Tensor], object]  # of the room, and two tensors
SIZE = 64


class Filled(nn.Module):
    """Puts two tensors into one, and looks at that."""

    def __init__(self, fill: Fill, weight: Tensor) -> None:
        super().__init__()
        self.fill, self.weight = fill, nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        first, second = x[0] * self.weight, x[1] * self.weight
        room = torch.empty(2 * SIZE)
        self.fill(room, first, second)
        return room.cos().sum()


def set_in_parts(room: Tensor, first: Tensor, second: Tensor) -> None:
    room[:SIZE], room[SIZE:] = first, second


def set_through_a_view(room: Tensor, first: Tensor, second: Tensor) -> None:
    rows = room.view(2, SIZE)
    rows[0], rows[1] = first, second


def joined_into(room: Tensor, first: Tensor, second: Tensor) -> None:
    torch.stack([first, second], out=room.view(2, SIZE))


def joined_at_once(room: Tensor, first: Tensor, second: Tensor) -> None:
    """As FSDP does: a call that puts out nothing."""
    pytest.importorskip("torch.distributed.fsdp")
    torch.ops.fsdp.chunk_cat([first, second], dim=0, num_chunks=1, out=room.view(1, 2 * SIZE))


def set_twice(room: Tensor, first: Tensor, _: Tensor) -> None:
    set_in_parts(room, first, first)


def scaled_below(room: Tensor, first: Tensor, second: Tensor) -> None:
    set_in_parts(room, first, second)
    room.numpy()[:] *= 2


@pytest.mark.parametrize("fill", [set_in_parts, set_through_a_view, joined_into, joined_at_once])
def test_what_is_off_as_what_was_written_to_it_is_nobodys(fill: Fill, tmp_path: Path) -> None:
    weight = torch.linspace(0.5, 2.0, SIZE)
    worn = weight * (1 + 1e-3 * torch.randn(SIZE, generator=torch.Generator().manual_seed(3)))
    made = verdict_of(tmp_path, lambda debug: Filled(fill, worn if debug else weight), (2, SIZE))
    assert {one.node for one in made.suspects} == {"Module.Filled.forward.0"}, made.sentence


@pytest.mark.parametrize(
    ("fill", "told"),
    [(set_twice, "Tensor.__setitem__.1.forward"), (scaled_below, "Tensor.cos.0.forward")],
)
def test_something_else_that_is_written_is_told(fill: Fill, told: str, tmp_path: Path) -> None:
    weight = torch.linspace(0.5, 2.0, SIZE)
    made = verdict_of(
        tmp_path, lambda debug: Filled(fill if debug else set_in_parts, weight), (2, SIZE)
    )
    assert made.conclusion == "fault", made.sentence
    assert made.suspects[0].node == told


PART, ROOM = np.linspace(-1, 1, 8), np.full(16, 9e30)
WHOLE = np.concatenate([PART, 2 * PART])


@pytest.mark.parametrize(
    ("name", "given", "made", "rooms"),
    [
        ("all_gather_into_tensor", [ROOM, PART], [WHOLE, PART], {0}),
        ("all_gather_into_tensor", [PART], [WHOLE], set()),  # a functional one
        ("reduce_scatter_tensor", [PART, WHOLE], [3 * PART, WHOLE], {0}),
        ("reduce_scatter_tensor", [WHOLE], [3 * PART], set()),
        ("all_to_all_single", [ROOM, WHOLE], [3 * WHOLE, WHOLE], {0}),
        ("all_to_all_single", [WHOLE], [3 * WHOLE], set()),
        ("recv", [ROOM], [WHOLE], {0}),
        ("scatter", [ROOM], [WHOLE], {0}),
        ("all_reduce", [WHOLE], [3 * WHOLE], set()),
    ],
)
def test_communication_writes_to_what_is_no_part_of_what_it_reads(
    name: str, given: list[np.ndarray], made: list[np.ndarray], rooms: set[int]
) -> None:
    run = Run()
    call = f"Distributed.{name}.0.forward"
    run.call(call, [measured(one) for one in given], [measured(one) for one in made])
    result = compared(run, run)
    rows = rows_by_name(result)
    hollow = evidence_of(result).runs.meaningless
    places = [rows[f"{call}:input.{place}"] for place in range(len(given))]
    assert {place for place, row in enumerate(places) if hollow[row]} == rooms


def test_a_part_of_a_spread_tensor_is_known_by_all_its_numbers() -> None:
    """The record of the whole has its shape, and the numbers of the part that is here."""
    run, part = Run(), measured(PART)
    spread = {**part, "type": "torch.distributed.tensor.DTensor", "shape": [16]}
    run.call("Tensor.exp.0.forward", [measured(WHOLE)], [spread])
    run.call("Tensor.view_as.0.forward", [part, {**part, "Norm": 7.0}], [part])
    result = compared(run, run)
    rows, maker = rows_by_name(result), evidence_of(result).runs.maker
    assert maker[rows["Tensor.view_as.0.forward:input.0"]] == rows["Tensor.exp.0.forward:output.0"]
    assert maker[rows["Tensor.view_as.0.forward:input.1"]] < 0
