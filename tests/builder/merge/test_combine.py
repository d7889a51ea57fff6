"""The statistics of a whole from those of its parts, against numbers taken of the whole itself."""

from __future__ import annotations

from dataclasses import replace
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.graph.assembly import PLAIN, Assembly, Order, TensorFile
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.share import LOCAL, REPLICA, UNKNOWN, Share, State
from msprobe_builder.merge.values.combine import Combined, combine
from msprobe_builder.merge.values.data import assemblies

SHARD = State(Share.SHARD, Cut(0))


def table(texts: Texts, statistics: list[list[float]], shape: list[int]) -> ParameterTable:
    """One row per list of max, min, mean and norm."""
    count = len(statistics)
    whole = np.zeros(count, dtype=np.int64)
    return ParameterTable(
        node=np.arange(count),
        ordinal=whole,
        section=whole + Section.OUTPUT,
        position=whole,
        is_tensor=np.ones(count, dtype=bool),
        name_id=whole + texts.id("output.0"),
        type_id=whole + texts.id("torch.Tensor"),
        dtype_id=whole + texts.id("torch.float32"),
        shape_id=whole + texts.id(str(shape)),
        value_id=whole - 1,
        requires_grad=whole,
        missing=whole.copy(),
        statistics=np.array(statistics, dtype=np.float64).T,
        numel=np.full(count, float(np.prod(shape))),
        md5={},
        file={},
    )


def merge(
    state: State, first: list[float], second: list[float], shapes: list[list[int]] | None = None
) -> tuple[Combined, Texts]:
    texts = Texts()
    shapes = shapes or [[2, 3], [2, 3]]
    tables = [
        table(texts, [own], shape) for own, shape in zip((first, second), shapes, strict=True)
    ]
    return combine(tables, [state], texts, [4, 5]), texts


def recipe_of(found: Combined) -> str:
    return tell(fact("recipe", facts=found.provenance.recipes[0]))


def test_the_norms_of_the_document() -> None:
    found, _ = merge(SHARD, [1.0, -1.0, 0.03, 0.6], [2.0, -0.5, 0.031, 1.1])
    expected = [2.0, -1.0, 0.0305, 1.252996408614167]
    np.testing.assert_allclose(found.table.statistics[:, 0], expected, rtol=1e-15)
    assert "√(0.6² + 1.1²) = 1.25299641" in recipe_of(found)
    assert "ranks 4, 5 along dimension 0" in recipe_of(found)


def test_the_mean_is_weighted_by_elements() -> None:
    shapes = [[3, 2], [1, 2]]
    found, texts = merge(SHARD, [1, 1, 1.0, 1], [5, 5, 5.0, 1], shapes)
    assert found.table.statistics[2, 0] == (3 * 1.0 + 1 * 5.0) / 4
    assert texts.values[found.table.shape_id[0]] == "[4, 2]"
    assert found.table.numel[0] == 8


@given(
    arrays.arrays(np.float64, (5, 4), elements=st.floats(-1e6, 1e6)),
    st.integers(1, 4),
    st.sampled_from([0, 1]),
)
def test_parts_make_the_whole(whole: np.ndarray, cut: int, axis: int) -> None:
    parts = np.split(whole, [min(cut, whole.shape[axis] - 1)], axis)

    def statistics(values: np.ndarray) -> list[float]:
        return [values.max(), values.min(), values.mean(), float(np.linalg.norm(values))]

    found, texts = merge(
        State(Share.SHARD, Cut(axis)),
        statistics(parts[0]),
        statistics(parts[1]),
        [list(part.shape) for part in parts],
    )
    np.testing.assert_allclose(
        found.table.statistics[:, 0], statistics(whole), rtol=1e-12, atol=1e-9
    )
    assert texts.values[found.table.shape_id[0]] == str(list(whole.shape))


@given(
    st.lists(
        st.tuples(st.sampled_from(Section), st.sampled_from([SHARD, REPLICA, LOCAL, UNKNOWN])),
        min_size=1,
        max_size=8,
    )
)
def test_what_ranks_hold_of_weights_is_kept(rows: list[tuple[Section, State]]) -> None:
    """And of nothing else: of a shard that is off it tells whose it is."""
    texts, sections = Texts(), np.array([int(section) for section, _ in rows])
    parts = []
    for rank, length in enumerate((2, 5)):
        numbers = [[9.0 + row, -9.0 - rank, row / 8, 20.0 + rank] for row in range(len(rows))]
        parts.append(replace(table(texts, numbers, [length, 3]), section=sections))
    kept = combine(parts, [state for _, state in rows], texts, [4, 7]).provenance.shares
    weights = (Section.PARAMETERS, Section.PARAMETERS_GRAD)
    assert set(kept) == {
        row for row, (section, state) in enumerate(rows) if state is SHARD and section in weights
    }
    for row, one in kept.items():
        assert one.ranks == (4, 7)
        assert one.elements.tolist() == [6, 15]
        assert one.statistics.tolist() == [part.statistics[:, row].tolist() for part in parts]


def test_huge_norms_do_not_overflow() -> None:
    found, _ = merge(SHARD, [1, 0, 0, 3e300], [1, 0, 0, 4e300])
    assert found.table.statistics[3, 0] == pytest.approx(5e300)


@pytest.mark.parametrize("value", [float("inf"), nan])
def test_what_one_part_has_of_nan_and_infinity_the_whole_has(value: float) -> None:
    found, _ = merge(SHARD, [value, 0, value, value], [1, 0, 0, 1])
    for statistic in (0, 2, 3):
        np.testing.assert_equal(found.table.statistics[statistic, 0], value)


def test_replicas_are_shown_as_they_are() -> None:
    found, _ = merge(REPLICA, [1, 0, 0.5, 2], [1, 0, 0.5, 2])
    assert found.table.statistics[:, 0].tolist() == [1, 0, 0.5, 2]
    assert (found.drifted, recipe_of(found)) == ([], "alike on ranks 4, 5")


def test_replicas_that_disagree_are_named() -> None:
    found, _ = merge(REPLICA, [1, 0, 0.5, 2], [1, 0, 0.5, 2.1])
    assert found.drifted == [0]


@pytest.mark.parametrize("state", [UNKNOWN, LOCAL, State(Share.PARTIAL)])
def test_what_cannot_be_known_is_marked_missing(state: State) -> None:
    found, texts = merge(state, [1, 0, 0.5, 2], [3, 0, 0.5, 2])
    assert found.table.missing[0] == 0b1111
    assert all(isnan(value) for value in found.table.statistics[:, 0])
    assert "unknown" in recipe_of(found) or "not recorded" in recipe_of(found)
    shape_id = found.table.shape_id[0]
    assert (shape_id < 0) if state is UNKNOWN else (texts.values[shape_id] == "[2, 3]")


def test_a_shard_cut_somewhere_unknown_has_no_shape() -> None:
    found, _ = merge(State(Share.SHARD), [1, 0, 0.5, 3], [1, 0, 0.5, 4])
    assert found.table.statistics[3, 0] == 5
    assert found.table.shape_id[0] == -1


@pytest.mark.parametrize("state", [SHARD, REPLICA])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_what_any_rank_did_not_record_is_missing_in_the_whole(state: State, rank: int) -> None:
    texts = Texts()
    tables = [table(texts, [[1.0, -1.0, 0.5, 2.0]] * 4, [2, 3]) for _ in range(3)]
    for bit in range(4):
        tables[rank].missing[bit] = 1 << bit
    found = combine(tables, [state] * 4, texts, [0, 1, 2])
    assert found.table.missing.tolist() == [1, 2, 4, 8]


def test_the_recipe_leaves_out_what_is_missing() -> None:
    texts = Texts()
    tables = [table(texts, [[1.0, -1.0, 0.5, 2.0]], [2, 3]) for _ in range(2)]
    tables[1].missing[0] = 0b0101
    recipe = recipe_of(combine(tables, [SHARD], texts, [0, 1]))
    assert [word in recipe for word in ("max(", "min(", "mean", "norm")] == [0, 1, 0, 1]


def test_a_merged_tensor_has_the_files_of_all_ranks_where_they_make_a_known_whole() -> None:
    texts = Texts()
    rows, folder = 6, Path("/dump")
    tables = [table(texts, [[1.0, 0.0, 0.5, 1.0]] * rows, [2, 3]) for _ in range(2)]
    files = [
        {row: Assembly((TensorFile(folder, f"{rank}.{row}.npy"),)) for row in range(rows)}
        for rank in range(2)
    ]
    del files[1][5]  # of which one rank has no file
    halves = Order((1, 1))
    states = [
        REPLICA,
        SHARD,
        State(Share.SHARD),  # along which dimension is not known
        State(Share.PARTIAL, reduced=0),
        State(Share.PARTIAL),  # made whole nowhere
        REPLICA,
    ]
    found = assemblies(tables, states, files, texts, {1: (PLAIN, halves, Order((1, 2)))})

    def of(row: int) -> tuple[TensorFile, ...]:
        return tuple(TensorFile(folder, f"{rank}.{row}.npy") for rank in range(2))

    assert found == {
        0: Assembly(of(0)),
        1: Assembly(of(1), 0, 1, (PLAIN, halves)),  # two rows make no three parts
        3: Assembly(of(0)),
    }


def test_of_a_weight_without_data_the_order_is_not_told() -> None:
    """Its shards' statistics are the same whatever order they stand in, which the recipe says."""
    texts = Texts()
    tables = [table(texts, [[1.0, 0.0, 0.5, 2.0]], [2, 3]) for _ in range(2)]
    weights = [replace(one, section=one.section * 0 + Section.PARAMETERS) for one in tables]
    files = [{0: Assembly((TensorFile(Path(), f"{rank}.pt"),))} for rank in range(2)]
    activation = combine(tables, [SHARD], texts, [4, 5]).provenance.recipes[0]
    untold = combine(weights, [SHARD], texts, [4, 5]).provenance.recipes[0]
    told = combine(weights, [SHARD], texts, [4, 5], files).provenance.recipes[0]
    assert untold == (*activation, fact("recipe.no_order"))
    assert told == activation


@pytest.mark.parametrize(("second", "note"), [("0a", ""), ("0B", ""), ("", "missing")])
def test_checksums_on_which_all_ranks_agree_are_kept(second: str, note: str) -> None:
    """Whatever their case; of others it is said which rank has which."""
    texts = Texts()
    nan_row = [nan] * 4
    tables = [
        replace(table(texts, [nan_row, nan_row], [2, 3]), md5={0: "0b", 1: "aa"}),
        replace(table(texts, [nan_row, nan_row], [2, 3]), md5={0: second, 1: "aa"}),
    ]
    if not second:
        tables[1].md5.pop(0)
    found = combine(tables, [REPLICA, SHARD], texts, [4, 5])
    if second.lower() == "0b":
        assert found.table.md5 == {0: "0b"}
        assert found.drifted == []
    else:
        assert found.table.md5 == {}
        assert found.drifted == [0]
        (other,) = found.provenance.apart[0]
        assert other.rank == 5
        assert other.note is not None
        assert tell(other.note) == f"checksum {note or second}"
    assert 1 in found.provenance.unknown
