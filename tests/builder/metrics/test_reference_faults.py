"""Wrong results of the reference tool, each with a dump on which it shows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.read import read_dump
from msprobe_builder.dump.task import Task
from msprobe_builder.graph.parameter_table import order_parameters
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.match.matching import Matching, Unmatched, inverse
from msprobe_builder.metrics.measure import Measured, measure
from tests.builder.metrics.small_dump import Record, call, tensor, write_dump, write_npy
from tests.worded import worded

CALL = "Functional.loss.0.forward"
LINEAR = "Module.fc.Linear.forward.0"


def _query(npu: Path, bench: Path, query: str) -> list[Any]:
    built = build(BuildConfig(npu, bench), npu.parent / "out")
    with closing(sqlite3.connect(built.path)) as connection:
        return worded(connection.execute(query))


def _verdict(npu: Path, bench: Path, name: str = CALL) -> tuple[float | None, str]:
    query = f"SELECT error, grade FROM node_view WHERE side = 'npu' AND name = '{name}'"
    [verdict] = _query(npu, bench, query)
    return verdict[0], verdict[1]


def _statistics(directory: Path, **output: Any) -> Path:
    return write_dump(directory, {CALL: call([tensor([1.0])], [{**tensor([5.0]), **output}])})


def _real_data(directory: Path, *outputs: Any, dtype: str = "torch.float32") -> Path:
    records = [
        tensor(np.abs(array), dtype=dtype, data_name=f"{i}.npy") for i, array in enumerate(outputs)
    ]
    write_dump(directory, {CALL: call([], records)}, task="tensor")
    for i, array in enumerate(outputs):
        write_npy(directory, f"{i}.npy", array)
    return directory


@pytest.mark.parametrize(
    ("npu", "bench"), [({"Max": 100.0}, {"Max": 0.0}), ({}, {"Max": nan}), ({}, {"Norm": nan})]
)
def test_b2_a_reference_of_zero_or_nan_is_not_perfect(
    tmp_path: Path, npu: Record, bench: Record
) -> None:
    left, right = _statistics(tmp_path / "npu", **npu), _statistics(tmp_path / "bench", **bench)
    assert _verdict(left, right) == (1.0, "severe")


@pytest.mark.parametrize(
    ("dtype", "largest", "grade"),
    [
        ("torch.float32", 3e38, "ok"),  # 3e38² leaves the range of float32
        ("torch.float32", 300.0, "severe"),
        ("torch.float16", 300.0, "ok"),  # 300² leaves that of float16
        ("torch.float16", 100.0, "severe"),
    ],
)
def test_a_norm_that_left_the_range_on_one_side_is_no_error(
    tmp_path: Path, dtype: str, largest: float, grade: str
) -> None:
    values = {"dtype": dtype, "Max": 0.0, "Min": -largest, "Mean": -largest / 2}
    sides = [_statistics(tmp_path / str(norm), **values, Norm=norm) for norm in (largest, inf)]
    assert _verdict(sides[0], sides[1])[1] == grade
    assert _verdict(sides[1], sides[0])[1] == grade


def test_b3_equal_sparse_half_precision_is_perfect(tmp_path: Path) -> None:
    array = np.array([0, 0, 0, 0, 0, 0, 0, 1e-3], dtype=np.float16)
    npu, bench = (
        _real_data(tmp_path / side, array, dtype="torch.float16") for side in ("npu", "bench")
    )
    columns = "cosine, max_elementwise_relative_err, one_thousandth_ratio, error"
    assert _query(npu, bench, f"SELECT {columns} FROM tensor_view WHERE side = 'npu'") == [
        (1, 0, 1, 0)
    ]


def test_b4_opposite_infinities_are_wrong(tmp_path: Path) -> None:
    npu = _real_data(tmp_path / "npu", np.array([1.0, inf]))
    bench = _real_data(tmp_path / "bench", np.array([1.0, -inf]))
    query = "SELECT one_thousandth_ratio, cosine FROM tensor_view WHERE side = 'npu'"
    assert _query(npu, bench, query) == [(0.5, "NaN")]


def test_b4_imaginary_parts_count(tmp_path: Path) -> None:
    npu = _real_data(tmp_path / "npu", np.array([1 + 2j]))
    bench = _real_data(tmp_path / "bench", np.array([1 - 2j]))
    [(distance, ratio)] = _query(
        npu,
        bench,
        "SELECT euclidean_distance, one_thousandth_ratio FROM tensor_view WHERE side = 'npu'",
    )
    assert (distance, ratio) == (4.0, 0.0)


def test_b4_one_pair_of_other_shape_does_not_harm_the_others(tmp_path: Path) -> None:
    npu = _real_data(tmp_path / "npu", np.array(1.0), np.array([1.0]))
    bench = _real_data(tmp_path / "bench", np.array(1.0), np.array([1.0]))
    write_npy(bench, "0.npy", np.array([1.0]))
    query = "SELECT note, cosine FROM tensor_view WHERE side = 'npu' ORDER BY ordinal"
    assert _query(npu, bench, query) == [("shape: [] and [1]", None), (None, 1.0)]


def test_b5_a_loss_of_nan_is_flagged_in_real_data(tmp_path: Path) -> None:
    npu, bench = (_real_data(tmp_path / side, np.array(nan)) for side in ("npu", "bench"))
    assert _verdict(npu, bench) == (1.0, "severe")


def test_b6_collections_know_the_tensors_of_their_calls(tmp_path: Path) -> None:
    names = ("Torch.a.0.forward", "Torch.b.0.forward")
    for side, value in (("npu", 2.0), ("bench", 1.0)):
        records = {name: call([], [tensor([1.0], data_name=f"{name}.npy")]) for name in names}
        write_dump(tmp_path / side, records, task="tensor")
        write_npy(tmp_path / side, f"{names[0]}.npy", [1.0])
        write_npy(tmp_path / side, f"{names[1]}.npy", [value])
    verdict = _verdict(tmp_path / "npu", tmp_path / "bench", "Apis_Between_Modules.0")
    assert verdict == (1.0, "severe")


def test_b7_equal_uninitialised_memory_is_good_in_md5(tmp_path: Path) -> None:
    name = "Torch.empty.0.forward"
    for side in ("npu", "bench"):
        write_dump(tmp_path / side, {name: call([], [tensor([1.0], md5="00c0ffee")])})
    assert _verdict(tmp_path / "npu", tmp_path / "bench", name) == (0.0, "ok")


def _side(directory: Path, texts: Texts) -> Side:
    dump = read_dump(directory, texts)
    tree, _ = build_tree(dump)
    return Side(dump, tree, order_parameters(tree, dump.parameters))


def _measure(npu: Path, bench: Path) -> tuple[Side, Side, Measured]:
    """Compare two dumps whose nodes match in order, whatever their parameters."""
    texts = Texts()
    left, right = _side(npu, texts), _side(bench, texts)
    partner = np.arange(len(left.tree))
    none = np.empty(0, dtype=np.int64)
    nothing = Unmatched(none, none, none, [])
    matching = Matching(
        partner, inverse(partner, len(right.tree)), np.zeros_like(partner), nothing, nothing
    )
    return left, right, measure(Task.STATISTICS, left, right, matching, texts)


def _names(left: Side, right: Side, measured: Measured) -> list[tuple[str, str]]:
    text = left.dump.parameters.texts.values
    pairs = measured.comparisons.pairs
    return [
        (text[left.table.name_id[row]], text[right.table.name_id[other]])
        for row, other in zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True)
    ]


def test_b8_weights_are_compared_with_weights_whatever_their_number(tmp_path: Path) -> None:
    def records(weights: dict[str, float]) -> dict[str, Record]:
        parameters = {name: tensor([value]) for name, value in weights.items()}
        return {LINEAR: call([tensor([1.0])], [tensor([2.0])], parameters=parameters)}

    npu = write_dump(tmp_path / "npu", records({"weight": 3.0, "bias": 4.0}))
    bench = write_dump(tmp_path / "bench", records({"weight": 3.0}))
    left, right, measured = _measure(npu, bench)
    assert set(_names(left, right, measured)) == {
        ("input.0", "input.0"),
        ("parameters.weight", "parameters.weight"),
        ("output.0", "output.0"),
    }
    assert measured.comparisons.error.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("surplus_on_npu", [True, False])
def test_b9_a_surplus_parameter_has_no_pair_and_does_no_harm(
    tmp_path: Path, surplus_on_npu: bool
) -> None:
    more = {CALL: call([tensor([1.0])], [tensor([2.0]), tensor([7.0, 8.0])])}
    less = {CALL: call([tensor([1.0])], [tensor([2.0])])}
    npu = write_dump(tmp_path / "npu", more if surplus_on_npu else less)
    bench = write_dump(tmp_path / "bench", less if surplus_on_npu else more)
    left, right, measured = _measure(npu, bench)
    assert _names(left, right, measured) == [("input.0", "input.0"), ("output.0", "output.0")]
    assert measured.error[left.tree.names.index(CALL)] == 0.0


def test_b23_values_keep_their_digits_and_words(tmp_path: Path) -> None:
    arguments: list[Record] = [
        {"type": "torch.device", "value": "cpu:None"},
        {"type": "torch.Size", "value": [2, 3]},
        {"type": "str", "value": "it's"},
    ]
    record = {**tensor([1.23456789e-4]), "Min": -inf, "Mean": nan}
    records = {CALL: call(arguments, [record, tensor(np.empty((0, 3)))])}
    npu, bench = (write_dump(tmp_path / side, records) for side in ("npu", "bench"))
    found = _query(
        npu,
        bench,
        "SELECT value, NULL, NULL, NULL FROM argument JOIN text ON text_id = value_id"
        " JOIN node USING (node_id) WHERE graph_id = 1"
        " UNION ALL SELECT max, min, mean, shape FROM tensor_view WHERE side = 'npu'",
    )
    assert found == [
        *[("cpu:None", None, None, None), ("[2, 3]", None, None, None), ("it's", None, None, None)],
        (1.23456789e-4, -inf, "NaN", "[1]"),
        (None, None, None, "[0, 3]"),
    ]
