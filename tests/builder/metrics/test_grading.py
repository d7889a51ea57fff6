"""From errors to the grade of a node, rule by rule."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.codes import Grade
from msprobe_builder.dump.task import Task
from msprobe_builder.metrics.grading import PROFILES, grades
from msprobe_builder.metrics.rollup import roll_up
from tests.builder.metrics.small_dump import Record, call, number, tensor, write_dump, write_npy

ADD = "Torch.add.0.forward"
MODULE = "Module.fc.Linear.forward.0"
BACKWARD = "Module.fc.Linear.backward.0"


@dataclass(frozen=True)
class Verdict:
    """A node as stored."""

    error: Any  # a number, None, or a number with a tolerance
    grade: str


class Bench:
    """Builds two dumps of the same calls and reads the verdicts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def compare(
        self, npu: dict[str, Record], bench: dict[str, Record], **options: Any
    ) -> dict[str, Verdict]:
        """Verdict of each npu node."""
        self.count += 1
        folder = self.folder / str(self.count)
        left = write_dump(folder / "npu", npu, **options)
        right = write_dump(folder / "bench", bench, **options)
        return self.build(left, right)

    def notes(self) -> dict[str, int]:
        """How many tensors of each call of the last build are told to hold no data."""
        query = (
            "SELECT name, count(*) FROM comparison JOIN text ON text_id = note_id"
            " JOIN node_name ON node_name.node_id = npu_node"
            " WHERE value LIKE '%pair.unwritten%' GROUP BY name"
        )
        with closing(sqlite3.connect(self.built)) as connection:
            return dict(connection.execute(query).fetchall())

    def build(self, npu: Path, bench: Path) -> dict[str, Verdict]:
        """Verdict of each npu node of two directories."""
        built = build(BuildConfig(npu, bench), npu.parent / "out")
        self.built = built.path
        with closing(sqlite3.connect(built.path)) as connection:
            return {
                name: Verdict(error, grade)
                for name, error, grade in connection.execute(
                    "SELECT name, error, grade FROM node_view WHERE side = 'npu'"
                )
            }

    def real_data(
        self,
        npu: tuple[list[Any], list[Any]],
        bench: tuple[list[Any], list[Any]],
        name: str = ADD,
    ) -> Verdict:
        """Verdict on one call with these input and output arrays."""
        self.count += 1
        folder = self.folder / str(self.count)
        for side, arrays in (("npu", npu), ("bench", bench)):
            files = {
                f"{section}.{i}.npy": array
                for section, values in zip(("in", "out"), arrays, strict=True)
                for i, array in enumerate(values)
                if array is not None
            }
            sections = [
                [
                    tensor([0.0] if array is None else array, data_name=f"{section}.{i}.npy")
                    for i, array in enumerate(values)
                ]
                for section, values in zip(("in", "out"), arrays, strict=True)
            ]
            write_dump(folder / side, {name: call(*sections)}, task="tensor")
            for file, array in files.items():
                write_npy(folder / side, file, array)
        return self.build(folder / "npu", folder / "bench")[name]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _one(inputs: list[Any], outputs: list[Any], **more: Any) -> dict[str, Record]:
    return {ADD: call(inputs, outputs, **more)}


# Statistics


def test_the_worst_output_statistic_counts_and_inputs_do_not(bench: Bench) -> None:
    npu = _one([tensor([9.0])], [tensor([2.0, 1.0], Max=2.0, Norm=3.0)])
    ref = _one([tensor([1.0])], [tensor([2.0, 1.0], Max=2.6, Norm=3.9)])
    found = bench.compare(npu, ref)[ADD]
    assert found == Verdict(pytest.approx(0.6 / 2.6), "slight")


@pytest.mark.parametrize("statistic", ["Max", "Min", "Mean", "Norm"])
@pytest.mark.parametrize(("n", "b"), [(100.0, 0.0), (0.0, 5.0), (nan, 5.0), (5.0, nan)])
def test_one_sided_zero_and_nan_are_worst(bench: Bench, statistic: str, n: float, b: float) -> None:
    values: Record = {"Max": 3.0, "Min": -3.0, "Mean": 1.0, "Norm": 4.0}
    npu, ref = (_one([], [{**tensor([1.0, 2.0]), **values, statistic: value}]) for value in (n, b))
    assert bench.compare(npu, ref)[ADD] == Verdict(1.0, "severe")


@pytest.mark.parametrize("value", [nan, inf, -inf])
@pytest.mark.parametrize("statistic", ["Max", "Min"])
@pytest.mark.parametrize("shape", [[], [2]])
def test_an_npu_output_that_is_not_finite_is_worst_even_if_equal(
    bench: Bench, value: float, statistic: str, shape: list[int]
) -> None:
    both = _one([], [{**tensor([1.0, 1.0]), "shape": shape, statistic: value}])
    assert bench.compare(both, both)[ADD] == Verdict(1.0, "severe")
    only_input = _one([{**tensor([1.0]), statistic: value}], [tensor([1.0])])
    assert bench.compare(only_input, only_input)[ADD] == Verdict(0.0, "ok")


def test_means_that_are_noise_do_not_colour(bench: Bench) -> None:
    statistics: Record = {"Max": 1.0, "Min": -1.0, "Norm": 10.0}
    npu, ref = (_one([], [tensor(np.ones(100), **statistics, Mean=mean)]) for mean in (3e-9, -1e-9))
    assert bench.compare(npu, ref)[ADD] == Verdict(0.0, "ok")
    one_sided = _one([], [tensor(np.ones(100), **statistics, Mean=0.5)])
    assert bench.compare(one_sided, ref)[ADD] == Verdict(1.0, "severe")


def test_numbers_among_the_outputs_count(bench: Bench) -> None:
    npu, ref = _one([number(5)], [number(2.0)]), _one([number(1)], [number(2.5)])
    assert bench.compare(npu, ref)[ADD] == Verdict(pytest.approx(0.2), "slight")
    broken = _one([], [number(nan)])
    assert bench.compare(broken, broken)[ADD] == Verdict(1.0, "severe")
    flags = _one([], [number(True)]), _one([], [number(False)])
    assert bench.compare(*flags)[ADD] == Verdict(0.0, "ok")
    for pair in ((number("eager"), number(2.0)), (number(2.0), number("eager"))):
        npu, ref = (_one([], [one]) for one in pair)
        assert bench.compare(npu, ref)[ADD] == Verdict(0.0, "ok"), "a text is no number"


def test_flags_are_equal_differ_or_are_unknown(bench: Bench) -> None:
    known = [(False, False, 1), (True, True, 1), (True, False, 0), (False, True, 0)]
    flags: list[tuple[bool | None, bool | None, int | None]] = [*known]
    flags += [(None, False, None), (True, None, None)]
    npu, ref = (
        _one([tensor([1.0], requires_grad=pair[side]) for pair in flags], [tensor([1.0])])
        for side in (0, 1)
    )
    bench.compare(npu, ref)
    [path] = (bench.folder / "1" / "out").glob("*.vis.db")
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(
            "SELECT requires_grad_equal FROM tensor_view"
            " WHERE side = 'npu' AND direction = 'input' ORDER BY ordinal"
        )
        assert [equal for (equal,) in found] == [equal for _, _, equal in flags]


def test_a_statistic_of_one_side_is_told(bench: Bench) -> None:
    ref = _one([], [tensor([1.0]), tensor([2.0])])
    bare = tensor([1.0])
    del bare["Mean"]
    bench.compare(_one([], [bare, tensor([2.0])]), ref)
    [path] = (bench.folder / "1" / "out").glob("*.vis.db")
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT severity, code, subject, count FROM diagnostic")
        assert ("warning", "one_sided_statistic", ADD, 1) in found.fetchall()


def test_nothing_to_compare_is_ok_and_no_record_is_ungraded(bench: Bench) -> None:
    empty = _one([], [tensor(np.empty((0, 3)))])
    parents: dict[str, str | None] = {ADD: MODULE, MODULE: None}
    found = bench.compare(empty, empty, parents=parents)
    assert found[ADD] == Verdict(0.0, "ok")
    assert found[MODULE] == found["DefaultModel"] == Verdict(None, "ungraded")


def test_gradients_are_graded_by_themselves(bench: Bench) -> None:
    def records(gradient: float) -> dict[str, Record]:
        backward = {"input": [tensor([1.0])], "output": [tensor([1.0])]}
        gradients = {"weight": [tensor([gradient])]}
        return {BACKWARD: backward, "Module.fc.Linear.parameters_grad": gradients}

    found = bench.compare(records(3.0), records(2.0), parents={BACKWARD: None})
    assert found["Module.fc.Linear.parameters_grad"] == Verdict(0.5, "moderate")
    assert found[BACKWARD] == Verdict(0.0, "ok")


@pytest.mark.parametrize("operator", ["empty", "empty_like", "new_empty", "new_empty_strided"])
def test_uninitialised_memory_is_never_wrong(bench: Bench, operator: str) -> None:
    name = f"Torch.{operator}.0.forward"
    npu, ref = ({name: call([], [tensor([value])])} for value in (nan, 1.0))
    assert bench.compare(npu, ref)[name] == Verdict(0.0, "ok")
    npu, ref = ({name: call([], [tensor([1.0], md5=text)])} for text in ("aa", "bb"))
    assert bench.compare(npu, ref)[name] == Verdict(0.0, "ok")
    assert bench.real_data(([], [[1.0]]), ([], [[2.0]]), name) == Verdict(0.0, "ok")


EMPTY, VIEW, PART = "Torch.empty.0.forward", "Tensor.view.0.forward", "Tensor.__getitem__.0.forward"
FILLED, USED = "Tensor.normal_.0.forward", "Torch.mul.0.forward"


def _with_memory(found: list[float], written: list[float]) -> dict[str, Record]:
    """Memory, views of it, and what a call has put in its place."""
    whole, part, new = tensor(found), tensor(found[1:]), tensor(written)
    return {
        EMPTY: call([], [whole]),
        VIEW: call([whole], [whole]),
        PART: call([whole], [part]),
        FILLED: call([whole], [new]),
        USED: call([new], [new]),
    }


def test_views_of_uninitialised_memory_are_never_wrong(bench: Bench) -> None:
    npu = _with_memory([1.0, nan, 3.0, 4.0], [1.0, 2.0, 3.0, 9.0])
    ref = _with_memory([5.0, -6.0, 7.5, 0.0], [1.0, 2.0, 3.0, 4.0])
    found = bench.compare(npu, ref)
    for name in (EMPTY, VIEW, PART):
        assert found[name] == Verdict(0.0, "ok"), name
    assert found[FILLED].grade == found[USED].grade == "severe"  # somebody has written to it
    assert bench.notes() == {EMPTY: 1, VIEW: 2, PART: 2, FILLED: 1}


def test_views_of_uninitialised_memory_are_never_wrong_in_md5(bench: Bench) -> None:
    def records(text: str) -> dict[str, Record]:
        whole = tensor([1.0, 2.0], md5=text)
        return {EMPTY: call([], [whole]), VIEW: call([whole], [whole])}

    found = bench.compare(records("aa"), records("bb"))
    assert found[EMPTY] == found[VIEW] == Verdict(0.0, "ok")


def test_a_view_of_what_was_given_is_graded_beside_uninitialised_memory(bench: Bench) -> None:
    def records(value: float) -> dict[str, Record]:
        real = tensor([1.0, value])
        empty = call([], [tensor([7.0, 8.0])])
        return {EMPTY: empty, ADD: call([], [real]), VIEW: call([real], [real])}

    found = bench.compare(records(2.0), records(4.0))
    assert found[EMPTY] == Verdict(0.0, "ok")
    assert found[VIEW] == found[ADD] == Verdict(0.5, "moderate")


def test_collections_have_the_worst_of_what_they_hold(bench: Bench) -> None:
    names = [f"Torch.add.{i}.forward" for i in range(3)]
    npu = {name: call([], [tensor([1.0 + i])]) for i, name in enumerate(names)}
    ref = {name: call([], [tensor([1.0])]) for name in names}
    assert bench.compare(npu, ref)["Apis_Between_Modules.0"] == Verdict(1.0, "severe")
    parents: dict[str, str | None] = dict.fromkeys(names)
    nothing = bench.compare({}, {}, task="structure", parents=parents)
    assert nothing["Apis_Between_Modules.0"] == Verdict(None, "ungraded")


# md5


def test_any_input_output_or_number_that_differs_is_severe(bench: Bench) -> None:
    def records(one: str, two: str, scale: float) -> dict[str, Record]:
        return _one([tensor([1.0], md5=one), number(scale)], [tensor([nan], md5=two)])

    same = records("aa", "bb", 1.0)
    assert bench.compare(same, same)[ADD] == Verdict(0.0, "ok")
    for other in (records("ab", "bb", 1.0), records("aa", "ba", 1.0), records("aa", "bb", 2.0)):
        assert bench.compare(other, same)[ADD] == Verdict(1.0, "severe")


def test_weights_and_their_gradients_count_in_md5(bench: Bench) -> None:
    def records(weight: str) -> dict[str, Record]:
        return {MODULE: call([], [], parameters={"weight": tensor([1.0], md5=weight)})}

    assert bench.compare(records("aa"), records("ab"))[MODULE].grade == "severe"


# Real data

EXACT, HALF, WRONG = [1.0] * 4, [1.0, 1.0, 2.0, 2.0], [2.0] * 4


@pytest.mark.parametrize(
    ("inputs", "outputs", "error", "grade"),
    [
        ([EXACT], [EXACT], 0.0, "ok"),
        ([EXACT], [HALF], 0.5, "severe"),
        ([HALF], [WRONG], 0.5, "severe"),
        ([HALF], [HALF], 0.0, "ok"),
        ([WRONG], [EXACT], 0.0, "ok"),
        ([EXACT, HALF], [EXACT, WRONG], 0.5, "severe"),
        ([EXACT], [[1.0] * 19 + [2.0]], 0.05, "slight"),
        ([EXACT], [[1.0] * 8 + [2.0]], 1 / 9, "moderate"),
        ([EXACT], [[1.0] * 5 + [2.0]], 1 / 6, "serious"),
        ([], [HALF], 0.5, "severe"),
        ([], [EXACT], 0.0, "ok"),
        ([HALF], [], 0.0, "ok"),
        ([EXACT], [2.0], 1.0, "severe"),
        ([EXACT], [[nan, 1.0, 1.0, 1.0]], 1.0, "severe"),
        ([EXACT], [nan], 1.0, "severe"),
        ([nan], [EXACT], 0.0, "ok"),
        ([None], [HALF], None, "ungraded"),
        ([None], [EXACT], 0.0, "ok"),
        ([EXACT], [None], None, "ungraded"),
        ([EXACT], [None, HALF], 0.5, "severe"),
    ],
)
def test_the_share_of_exact_elements_that_is_lost(
    bench: Bench, inputs: list[Any], outputs: list[Any], error: float | None, grade: str
) -> None:
    """None stands for a file that is missing."""

    def ones(values: list[Any]) -> list[Any]:
        return [None if value is None else np.ones(np.shape(value)) for value in values]

    found = bench.real_data((inputs, outputs), (ones(inputs), ones(outputs)))
    assert found == Verdict(None if error is None else pytest.approx(error), grade)


# Bands


@given(error=st.floats(0, 1))
@pytest.mark.parametrize("task", [Task.STATISTICS, Task.TENSOR, Task.MD5])
def test_every_error_lies_in_one_band(task: Task, error: float) -> None:
    bounded = [
        (band.grade, band.low, band.high)
        for band in PROFILES[task]
        if band.low is not None and band.high is not None
    ]
    assert (bounded[0][1], bounded[-1][2]) == (0.0, 1.0)
    [grade] = grades(np.array([error]), np.array([0]), PROFILES[task])
    [low, high] = next([low, high] for own, low, high in bounded if own == grade)
    assert low <= error
    assert error < high or error == 1.0
    matched = grades(np.array([error, nan, nan]), np.array([-1, -1, 0]), PROFILES[task])
    assert matched.tolist() == [Grade.UNMATCHED, Grade.UNMATCHED, Grade.UNGRADED]


@st.composite
def _trees(draw: st.DrawFn) -> list[int]:
    """Parents of a pre-order tree."""
    parents, open_nodes = [-1], [0]
    for node in range(1, draw(st.integers(1, 30))):
        depth = draw(st.integers(1, len(open_nodes)))
        parents.append(open_nodes[depth - 1])
        open_nodes = [*open_nodes[:depth], node]
    return parents


@given(parents=_trees(), data=st.data())
def test_roll_ups_count_every_descendant(parents: list[int], data: st.DataObject) -> None:
    size = len(parents)
    several = {"min_size": size, "max_size": size}
    grade = data.draw(st.lists(st.sampled_from(Grade), **several))  # type: ignore[arg-type]
    overflow = data.draw(st.lists(st.integers(0, 3), **several))  # type: ignore[arg-type]
    below: list[list[int]] = [[] for _ in parents]
    for node in range(size - 1, 0, -1):
        below[parents[node]] += [node, *below[node]]
    end = np.array([max([node, *below[node]]) for node in range(size)])
    found = roll_up(end, np.array(grade, dtype=np.int64), np.array(overflow, dtype=np.int64))
    inner = [node for node in range(size) if below[node]]
    assert found.node.tolist() == inner
    for place, node in enumerate(inner):
        own = [grade[child] for child in below[node]]
        assert found.counts[:, place].tolist() == [own.count(one) for one in Grade]
        graded = [one for one in own if Grade.OK <= one <= Grade.SEVERE]
        assert found.worst[place] == max(graded, default=0)
        assert found.worst_overflow[place] == max(overflow[child] for child in below[node])
