"""Which tensors are compared where one side is of MindSpore and the other of PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.read import read_dump
from msprobe_builder.graph.parameter_table import order_parameters
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.metrics.across_frameworks import across_frameworks, pair_sides
from tests.builder.metrics.small_dump import Record, call, tensor, write_dump

FORWARD = "Mint.linear.0.forward", "Functional.linear.0.forward"
BACKWARD = "Mint.linear.0.backward", "Functional.linear.0.backward"
CELL = "Cell.net.Dense.forward.0", "Module.net.Linear.forward.0"
GRADIENTS = "Cell.net.Dense.parameters_grad.0", "Module.net.Linear.parameters_grad.0"
INPUT, OUTPUT = Section.INPUT, Section.OUTPUT

A, B, C = np.array([1.0, 2, 3, 4]), np.array([9.0, -2, 3, 1]), np.array([0.5, 0, -7, 2])
Paired = list[tuple[Section, int, int]]


def ms(array: Any) -> Record:
    return tensor(array, dtype="Float32", kind="mindspore.Tensor")


def read(folder: Path, records: dict[str, Record], texts: Texts, framework: str) -> Side:
    dump = read_dump(write_dump(folder / framework, records, framework=framework), texts)
    tree, _ = build_tree(dump)
    return Side(dump, tree, order_parameters(tree, dump.parameters))


def sides(
    folder: Path, left: dict[str, Record], right: dict[str, Record]
) -> tuple[Side, Side, Texts]:
    texts = Texts()
    return read(folder, left, texts, "mindspore"), read(folder, right, texts, "pytorch"), texts


def paired(
    folder: Path,
    left: dict[str, Record],
    right: dict[str, Record],
    names: tuple[str, str],
    ways: int = 2,
) -> Paired:
    """Section and positions of the pairs of the two named calls, which are matched alone.

    Asked in two ways, the sides exchanged as well, the pairs are the same.
    """
    npu, bench, texts = sides(folder, left, right)
    found = []
    for one, other, (name, partner_name) in (
        (npu, bench, names),
        (bench, npu, names[::-1]),
    )[:ways]:
        partner = np.full(len(one.tree), -1, dtype=np.int64)
        partner[one.tree.names.index(name)] = other.tree.names.index(partner_name)
        pairs = pair_sides(one, other, partner, texts)
        assert pairs.npu.tolist() == sorted(pairs.npu.tolist())
        assert (one.table.section[pairs.npu] == other.table.section[pairs.bench]).all()
        places = one.table.position[pairs.npu], other.table.position[pairs.bench]
        if one is bench:
            places = places[::-1]
        sections = [Section(each) for each in one.table.section[pairs.npu].tolist()]
        found.append(sorted(zip(sections, places[0].tolist(), places[1].tolist(), strict=True)))
    assert found[0] == found[-1]
    return found[0]


def forward(
    folder: Path,
    mine: tuple[list[Any], list[Any]],
    theirs: tuple[list[Any], list[Any]],
    ways: int = 2,
) -> Paired:
    """Pairs of one call, by the elements of its inputs and outputs on both sides."""
    left = {FORWARD[0]: call([ms(one) for one in mine[0]], [ms(one) for one in mine[1]])}
    right = {
        FORWARD[1]: call([tensor(one) for one in theirs[0]], [tensor(one) for one in theirs[1]])
    }
    return paired(folder, left, right, FORWARD, ways)


def backward(
    folder: Path, mine: tuple[list[Any], list[Any]], theirs: tuple[list[Any], list[Any]]
) -> Paired:
    left = {BACKWARD[0]: {"input": list(map(ms, mine[0])), "output": list(map(ms, mine[1]))}}
    right = {
        BACKWARD[1]: {"input": list(map(tensor, theirs[0])), "output": list(map(tensor, theirs[1]))}
    }
    return paired(folder, left, right, BACKWARD)


def test_equal_tensors_belong_together_wherever_they_stand(tmp_path: Path) -> None:
    found = forward(tmp_path, ([A, B, C], []), ([C, A, B], []))
    assert found == [(INPUT, 0, 1), (INPUT, 1, 2), (INPUT, 2, 0)]


def test_of_several_equal_ones_the_nearest_place_counts(tmp_path: Path) -> None:
    assert forward(tmp_path, ([A, A], []), ([A, A], [])) == [(INPUT, 0, 0), (INPUT, 1, 1)]
    found = forward(tmp_path / "2", ([B, C, A], []), ([A, B, A], []), ways=1)
    assert found == [(INPUT, 0, 1), (INPUT, 1, 0), (INPUT, 2, 2)]


@pytest.mark.parametrize(
    ("factor", "is_equal"), [(1, True), (1 + 5e-5, True), (1 + 3e-4, False), (-1, False)]
)
def test_equal_as_far_as_frameworks_round_alike(
    tmp_path: Path, factor: float, is_equal: bool
) -> None:
    """Two tensors of one size: equal ones cross over, others keep their order."""
    found = forward(tmp_path, ([A, B], []), ([B * factor, A * factor], []))
    crossed, straight = [(INPUT, 0, 1), (INPUT, 1, 0)], [(INPUT, 0, 0), (INPUT, 1, 1)]
    assert found == (crossed if is_equal else straight)


def test_what_differs_is_compared_by_order_among_its_size(tmp_path: Path) -> None:
    small, large = np.arange(2.0), np.arange(6.0)
    found = forward(tmp_path, ([small, large, A], []), ([B, small + 7, large + 7], []))
    assert found == [(INPUT, 0, 1), (INPUT, 1, 2), (INPUT, 2, 0)]


def test_one_of_a_size_against_two_is_compared_with_neither(tmp_path: Path) -> None:
    assert forward(tmp_path, ([A], []), ([B, C], [])) == []


def test_equal_numbers_of_other_sizes_are_not_the_same_tensor(tmp_path: Path) -> None:
    same = {"Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 2.0}
    left = {FORWARD[0]: call([{**ms(np.ones(4)), **same}], [])}
    right = {FORWARD[1]: call([{**tensor(np.ones(5)), **same}], [])}
    assert paired(tmp_path, left, right, FORWARD) == []


def test_infinite_values_are_equal_to_nothing(tmp_path: Path) -> None:
    endless = np.array([np.inf, 0, 1, 2])
    assert forward(tmp_path, ([endless, A], []), ([A, endless], [])) == [
        (INPUT, 0, 1),
        (INPUT, 1, 0),  # by its size
    ]
    again = forward(tmp_path / "2", ([endless, C], []), ([B, endless], []))
    assert again == [(INPUT, 0, 0), (INPUT, 1, 1)]


def test_a_bias_added_by_a_call_of_its_own_leaves_the_output_alone(tmp_path: Path) -> None:
    bias, shorter = np.array([1.0, 2]), np.array([[1.0, 2]])
    assert forward(tmp_path, ([A], [B]), ([A, bias], [C])) == [(INPUT, 0, 0)]
    # More than one vector, or a matrix, is no bias.
    for name, more in (("two", [bias, bias]), ("matrix", [shorter])):
        found = forward(tmp_path / name, ([A], [B]), ([A, *more], [C]))
        assert found == [(INPUT, 0, 0), (OUTPUT, 0, 0)]
    # Nor does it count where the rest of the inputs is not the same.
    found = forward(tmp_path / "other", ([A, C], [B]), ([A, bias], [C]))
    assert found == [(INPUT, 0, 0), (OUTPUT, 0, 0)]


def test_what_follows_an_output_left_alone_is_compared(tmp_path: Path) -> None:
    left = {CELL[0]: call([ms(A)], [ms(B)], parameters={"weight": ms(A)})}
    inputs = [tensor(A), tensor([1.0, 2])]
    right = {CELL[1]: call(inputs, [tensor(C)], parameters={"weight": tensor(A)})}
    found = paired(tmp_path, left, right, CELL)
    assert found == [(INPUT, 0, 0), (Section.PARAMETERS, 0, 0)]


def test_equal_outputs_are_paired_in_spite_of_a_bias(tmp_path: Path) -> None:
    found = forward(tmp_path, ([A], [B]), ([A, np.array([1.0, 2])], [B]))
    assert found == [(INPUT, 0, 0), (OUTPUT, 0, 0)]


def test_gradients_that_only_hand_on_what_came_in_are_left_out(tmp_path: Path) -> None:
    given, other = np.array([[1.0, 2], [3, 4]]), np.array([[5.0, 1], [2, 2]])
    # Ours puts out what it was given, in another shape, beside the gradient of its input.
    found = backward(tmp_path, ([given], [given.reshape(4), B]), ([given], [other]))
    assert found == [(INPUT, 0, 0), (OUTPUT, 1, 0)]
    # In forward that says nothing: two against one of a size.
    assert forward(tmp_path / "2", ([given], [given, B]), ([given], [other])) == [(INPUT, 0, 0)]


@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("theirs", [False, True])
def test_gradients_that_no_call_is_given_are_of_a_step_within(
    tmp_path: Path, ours: bool, theirs: bool
) -> None:
    """What differs is compared where both are handed on, or neither is."""
    left = {BACKWARD[0]: {"input": [ms(A)], "output": [ms(B)]}}
    right = {BACKWARD[1]: {"input": [tensor(A)], "output": [tensor(C)]}}
    if ours:
        left["Mint.add.0.backward"] = {"input": [ms(B)], "output": []}
    if theirs:
        right["Torch.add.0.backward"] = {"input": [tensor(C)], "output": []}
    expected = [(INPUT, 0, 0)] + [(OUTPUT, 0, 0)] * (ours == theirs)
    assert paired(tmp_path, left, right, BACKWARD) == expected


def test_parameters_are_paired_by_role(tmp_path: Path) -> None:
    roles = {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
        "scale": "scale",
    }
    left = {CELL[0]: call([], [], parameters={f"net.{name}": ms(A) for name in roles})}
    theirs = {f"net.{name}": tensor(B) for name in [*reversed(roles.values()), "extra"]}
    right = {CELL[1]: call([], [], parameters=theirs)}
    found = paired(tmp_path, left, right, CELL)
    assert found == [(Section.PARAMETERS, place, 4 - place) for place in range(5)]


def test_an_embedding_table_is_a_weight(tmp_path: Path) -> None:
    left = {CELL[0]: call([], [], parameters={"embedding_table": ms(A), "mine": ms(A)})}
    right = {CELL[1]: call([], [], parameters={"theirs": tensor(A), "weight": tensor(B)})}
    assert paired(tmp_path, left, right, CELL) == [(Section.PARAMETERS, 0, 1)]


@pytest.mark.parametrize(
    ("mine", "theirs", "is_compared"),
    [
        (1e-9, 3e-9, False),  # below the rounding unit of float32, 2⁻²³, of the other gradient
        (1e-9, 1.0, True),
        (1.0, 1e-9, True),
        (1e-5, 1e-5, True),
    ],
)
def test_gradients_of_nothing_but_rounding_are_not_compared(
    tmp_path: Path, mine: float, theirs: float, is_compared: bool
) -> None:
    left = {GRADIENTS[0]: {"gamma": [ms(A)], "beta": [ms(A * mine)]}}
    right = {GRADIENTS[1]: {"weight": [tensor(A)], "bias": [tensor(A * theirs)]}}
    found = paired(tmp_path, left, right, GRADIENTS)
    assert [one[0] for one in found] == [Section.PARAMETERS_GRAD] * (1 + is_compared)


def test_small_weights_are_compared(tmp_path: Path) -> None:
    left = {CELL[0]: call([], [], parameters={"weight": ms(A), "bias": ms(A * 1e-9)})}
    right = {CELL[1]: call([], [], parameters={"weight": tensor(A), "bias": tensor(A * 2e-9)})}
    assert len(paired(tmp_path, left, right, CELL)) == 2


def test_a_gradient_without_a_number_is_compared(tmp_path: Path) -> None:
    nothing = {"Max": None, "Min": None, "Mean": None, "Norm": None}
    left = {GRADIENTS[0]: {"gamma": [{**ms(A), **nothing}], "beta": [ms(A * 1e-9)]}}
    right = {GRADIENTS[1]: {"weight": [{**tensor(A), **nothing}], "bias": [tensor(A * 1e-9)]}}
    assert len(paired(tmp_path, left, right, GRADIENTS)) == 2


def test_only_nodes_of_both_frameworks_are_across(tmp_path: Path) -> None:
    """Equal frameworks are compared by place, as is a call that has no tensor of MindSpore."""
    left = {FORWARD[0]: call([ms(A), ms(B)], []), "Mint.add.0.forward": call([], [])}
    right = {FORWARD[1]: call([tensor(B), tensor(A)], []), "Torch.add.0.forward": call([], [])}
    npu, bench, texts = sides(tmp_path, left, right)
    partner = np.full(len(npu.tree), -1, dtype=np.int64)
    for name, other in zip(left, right, strict=True):
        partner[npu.tree.names.index(name)] = bench.tree.names.index(other)
    where = [npu.tree.names.index(FORWARD[0])]
    assert np.flatnonzero(across_frameworks(npu, bench, partner, texts)).tolist() == where
    same = np.arange(len(npu.tree), dtype=np.int64)
    assert not across_frameworks(npu, npu, same, texts).any()
    assert not across_frameworks(bench, bench, same, texts).any()
    left[FORWARD[0]] = call([ms(B), ms(A)], [])
    pairs = pair_sides(npu, read(tmp_path, left, texts, "turned"), same, texts)
    assert pairs.npu.tolist() == pairs.bench.tolist() == [0, 1]
