"""Updates of a rank that has other parts of parameters, against the rule in plain numbers."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.ranks.updates import Updates, updates_of_parts
from tests.builder.small_dumps import Record, number
from tests.builder.verdict.columns import Array, Run, compared, evidence_of, measured, rows_by_name

SIZES = (12, 20, 20, 32, 48)
FUNCTIONS = ("Tensor.mul_", "Tensor.lerp_", "Tensor.addcdiv_", "Tensor.add_", "Torch._foreach_mul_")
# They write no update: what is copied, a constant, another tensor than they are given.
OTHERS = ("Tensor.copy_", "Tensor.zero_", "Torch.sqrt", "Tensor.__iadd__", "Torch._foreach_copy_")
WAYS = ("slices", "whole", "same", "mixed")
TRIED = [(seed, way) for seed in range(30) for way in WAYS]


class Optimizers:
    """A training step of both runs: one module there and back, then the loops of optimizers."""

    def __init__(self, seed: int, way: str) -> None:
        self.rng = np.random.default_rng(900 + seed)
        self.way = way
        self.sides = Run(), Run()
        self.counts: tuple[Counter[str], ...] = Counter(), Counter()
        self.module("forward")
        if self.rng.random() < 0.95:
            self.module("backward")
        rng = self.rng
        functions = [str(one) for one in rng.choice(FUNCTIONS, size=3, replace=False)]
        if rng.random() < 0.05:
            functions = []
        parameters = [self.parameter(size) for size in SIZES]
        for place, stem in enumerate([*functions, str(rng.choice(OTHERS))]):
            self.loop(1, stem, parameters, [0.9, 0.999, 0.25][place % 3])
            if rng.random() < 0.85:
                self.loop(0, stem, self.parts(parameters), [0.9, 0.999, 0.25][place % 3])
        if rng.random() < 0.1:
            self.loop(0, "Tensor.sub_", self.parts(parameters), 0.5)

    def module(self, direction: str) -> None:
        one = measured(self.rng.normal(size=6))
        for side in self.sides:
            side.call(f"Module.net.Net.{direction}.0", [one], [one])

    def parameter(self, size: int) -> Array:
        scale = 10.0 ** self.rng.choice([-3.5, -2.5, 0.0, 0.0, 0.0])
        values = self.rng.normal(0.2, 1.0, size=size) * scale
        return np.asarray(values * (self.rng.random() > 0.05))

    def parts(self, parameters: list[Array]) -> list[Array]:
        """What this rank has of them."""
        rng = self.rng
        if self.way == "same":
            return parameters
        if self.way == "slices":
            return [one[: len(one) // 2] for one in parameters]
        own = [parameters[place] for place in rng.permutation(len(parameters))[:3]]
        return own if self.way == "whole" else [own[0], own[1][:10], own[2]]

    def strayed(self, values: Array) -> Array:
        """A tensor after a loop, now and then off by what tells or does not."""
        if self.rng.random() < 0.75:
            return values
        return np.asarray(values * (1 + 10.0 ** self.rng.uniform(-3.2, -1)))

    def given(self, usual: float) -> float:
        chance = self.rng.random()
        if chance < 0.8:
            return usual
        return usual * (1 + 10.0 ** self.rng.uniform(-6.5, -3)) if chance < 0.95 else usual / 2

    def loop(self, side: int, stem: str, tensors: list[Array], usual: float) -> None:
        rng, own = self.rng, self.sides[side]
        records = [[measured(each) for each in (one, self.strayed(one))] for one in tensors]
        if side and rng.random() < 0.2:
            records[0][0] = {**records[0][0], "Mean": None}
        if rng.random() < 0.1:
            records[1][0] = {**records[1][0], "Norm": float("nan")}
        second = [measured(rng.normal(size=6)), number(2), number("text"), measured(np.ones(1))]
        calls: list[tuple[list[Any], list[Record]]]
        if "_foreach_" in stem:
            calls = [([[one[0] for one in records]], [one[1] for one in records])]
        else:
            calls = [([one[0], second[rng.integers(4)]], [one[1]]) for one in records]
        lower = rng.random() < 0.3  # of one group of parameters another number
        for place, (inputs, outputs) in enumerate(calls):
            call = self.counts[side][stem]
            self.counts[side][stem] += 1
            value = self.given(usual / 4 if lower and place == len(calls) - 1 else usual)
            own.call(f"{stem}.{call}.forward", [*inputs, number(value)], outputs)


@dataclass
class Call:
    """What an update is given and puts out, as a dump tells it."""

    name: str
    stem: str
    function: str
    tensors: list[tuple[str, str, Record]]  # by its own name and that of the argument
    numbers: list[float]


def updates_in(run: Run) -> list[Call]:
    """In-place calls behind the last pass, by the names in a dump."""
    names = list(run.data)
    behind = names[max(place for place, one in enumerate(names) if one.startswith("Module.")) + 1 :]
    found = []
    for name in behind:
        stem = name.removesuffix(".forward").rpartition(".")[0]
        if stem in OTHERS:
            continue
        tensors, numbers = [], []
        for section, content in (("input", "input_args"), ("output", "output")):
            for place, one in enumerate(run.data[name][content]):
                argument = f"{section}.{place}"
                if isinstance(one, list):
                    tensors += [(f"{argument}.{at}", argument, each) for at, each in enumerate(one)]
                elif "shape" in one:
                    is_member = section == "output" and "_foreach_" in stem
                    tensors.append((argument, "output.0" if is_member else argument, one))
                elif one["type"] == "float":
                    numbers.append(one["value"])
        tensors = [one for one in tensors if np.prod(one[2]["shape"]) > 1]
        function = stem.rpartition(".")[2].removeprefix("_foreach_")
        found.append(Call(name, stem, function, tensors, numbers))
    return found


def distance(own: Record, other: Record) -> float:
    """Of the most different statistic, by the size of this tensor."""
    keys = ("Max", "Min", "Mean", "Norm")
    if any(other[key] is None or np.isnan(other[key]) for key in keys):
        return 1.0
    size = max(abs(own["Max"]), abs(own["Min"]))
    with np.errstate(all="ignore"):
        several = [
            np.float64(abs(own[key] - other[key])) / (own["Norm"] if key == "Norm" else size)
            for key in keys
        ]
    return 1.0 if np.isnan(several).any() else float(min(1.0, max(several)))


def numel(record: Record) -> int:
    return int(np.prod(record["shape"]))


Kinds = dict[tuple[str, str, int], list[tuple[str, Record]]]


def kinds(calls: list[Call]) -> Kinds:
    found: Kinds = {}
    for call in calls:
        for own, argument, one in call.tensors:
            found.setdefault((call.function, argument, numel(one)), []).append(
                (f"{call.name}:{own}", one)
            )
    return found


def is_same_number(one: float, other: float) -> bool:
    return abs(one - other) <= 8e-6 * max(one, other)


def has_parameter(call: Call, own: Kinds) -> bool:
    return any(
        one["Norm"] > 0
        and argument.startswith("input")
        and all(one[key] is not None for key in ("Max", "Min", "Mean", "Norm"))
        and any(distance(one, each) < 8e-6 for _, each in several)
        for _, argument, one in call.tensors
        for (_, _, size), several in own.items()
        if size == numel(one)
    )


def plain(debug: Run, reference: Run) -> tuple[int, int, dict[Any, Any]] | None:
    """How many agree, how many are slices, and what is said by side and call."""
    if not any(".backward" in name for name in debug.data):
        return None
    npu, bench = updates_in(debug), updates_in(reference)
    own, other = kinds(npu), kinds(bench)
    loops: list[dict[str, Counter[int]]] = []
    for several in (own, other):
        loop: dict[str, Counter[int]] = {}
        for (function, argument, size), rows in several.items():
            if argument == "input.0":
                loop.setdefault(function, Counter())[size] += len(rows)
        loops.append(loop)
    same = [function for function, sizes in loops[1].items() if loops[0].get(function) == sizes]
    if not bench or not len(same) * 2 <= len(loops[1]) or len(same) == len(loops[1]):
        return None
    agreeing = slices = 0
    off: list[tuple[str, Record]] = []
    for (function, argument, size), rows in own.items():
        norms = [
            each["Norm"]
            for (name, place, _), several in own.items()
            if (name, place) == (function, argument)
            for _, each in several
        ]
        largest = max([one for one in norms if not np.isnan(one)], default=0.0)
        for name, one in rows:
            if (function, argument, size) not in other:
                slices += 1
            elif np.isnan(one["Norm"]) or one["Norm"] <= 1e-3 * largest:
                pass
            elif min(distance(one, each) for _, each in other[function, argument, size]) > 1e-2:
                off.append((name, one))
            else:
                agreeing += 1
    said: dict[tuple[int, str], list[Fact]] = {}
    is_vague = slices > 0 and agreeing == 0
    for stem in dict.fromkeys(one.stem for one in npu if one.numbers):
        calls = [one for one in npu if one.stem == stem]
        theirs = [one for one in bench if one.stem == stem]
        due = list(dict.fromkeys(number for one in theirs for number in one.numbers))
        given = list(dict.fromkeys(number for one in calls for number in one.numbers))
        if not theirs:
            continue
        for value in given:
            if not any(is_same_number(value, each) for each in due):
                first = next(call for call in calls if value in call.numbers)
                told = fact("updates.given", own=value, theirs=due[:4])
                said.setdefault((0, first.name), []).append(told)
        lost = [
            one
            for one in due
            if not any(is_same_number(one, each) for each in given)
            and (
                is_vague or any(has_parameter(call, own) for call in theirs if one in call.numbers)
            )
        ]
        if lost:
            told = fact("updates.never_given", numbers=lost[:4])
            said.setdefault((0, calls[0].name), []).append(told)
    order = list(debug.data)
    if off:
        name, one = min(off, key=lambda each: (order.index(each[0].split(":")[0]), off.index(each)))
        node = name.split(":")[0]
        if all(order.index(node) < order.index(told) for _, told in said):
            told = fact("updates.unlike", name=name.split(":")[1], norm=one["Norm"])
            said.setdefault((0, node), []).append(told)
    functions = {one.function for one in npu}
    if lacking := sorted({one.function for one in bench} - functions):
        first = next(one for one in bench if one.function in lacking)
        told = fact("updates.never_called", functions=lacking[:4])
        said.setdefault((1, first.name), []).append(told)
    return agreeing, slices, said


@functools.cache
def drawn(seed: int, way: str) -> tuple[Optimizers, PairResult]:
    sides = Optimizers(seed, way)
    return sides, compared(*sides.sides)


def found_in(result: PairResult, replicas: int) -> Updates | None:
    evidence = evidence_of(result)
    assert result.comparisons is not None
    with np.errstate(all="ignore"):
        return updates_of_parts(
            evidence.runs, Provenance(replicas=replicas), result.comparisons.pairs
        )


@pytest.mark.parametrize("case", TRIED, ids=str)
def test_updates_of_other_parts(case: tuple[int, str]) -> None:
    sides, result = drawn(*case)
    found, right = found_in(result, 2), plain(*sides.sides)
    assert (found is None) == (right is None)
    if found is None or right is None:
        return
    agreeing, slices, said = right
    assert result.bench is not None
    names = result.npu.tree.names, result.bench.tree.names
    told = {
        (side, names[side][node]): list(several) for (side, node), several in found.told.items()
    }
    assert told == said
    assert (found.agreeing, found.uncompared) == (agreeing, slices)
    assert names[0][found.last] == "Module.net.Net.backward.0"
    rows = rows_by_name(result)
    for (side, node), row in found.rows.items():
        [first, *_] = found.told[side, node]
        is_row = first.code == "updates.unlike"
        assert row == (rows[f"{names[side][node]}:{first.arguments['name']}"] if is_row else -1)


@pytest.mark.parametrize("case", TRIED, ids=str)
def test_other_parts_are_told_by_sizes_where_there_is_one_replica(case: tuple[int, str]) -> None:
    _, result = drawn(*case)
    assert result.comparisons is not None
    assert result.bench is not None
    pairs, table, bench = result.comparisons.pairs, result.npu.table, result.bench.table
    last = evidence_of(result).runs.npu.calls.last_pass
    has_other_sizes = any(
        table.node[row] > last
        and table.section[row] == Section.INPUT
        and table.is_tensor[row]
        and table.numel[row] != bench.numel[other]
        for row, other in zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True)
    )
    found = found_in(result, 1)
    assert (found is None) == (not has_other_sizes or found_in(result, 2) is None)


@pytest.mark.parametrize("case", TRIED[::5], ids=str)
def test_what_stands_behind_the_last_pass_is_explained_but_not_its_own(
    case: tuple[int, str],
) -> None:
    _, result = drawn(*case)
    evidence = evidence_of(result)
    found = found_in(result, 2)
    if found is None:
        return
    assert result.bench is not None
    causes = (Cause.OUTPUT, Cause.NUMBER, Cause.RANK, Cause.PART)
    for cause in causes:
        is_own = cause is not Cause.OUTPUT
        for node, name in enumerate(result.npu.tree.names):
            is_behind = name.startswith("T") and node > found.last
            clue = Clue(9.0, 0, node, cause, -1)
            assert found.explains(evidence, clue) == (is_behind and not is_own)
        for row, node in enumerate(result.npu.table.node.tolist()):
            for side in (0, 1):  # where it shows tells
                assert found.explains(evidence, Clue(9.0, side, 1, cause, row)) == (
                    node > found.last and not is_own
                )
        names = result.bench.tree.names
        last = names.index("Module.net.Net.backward.0")
        for node in range(len(names)):
            clue = Clue(9.0, 1, node, cause, -1)
            assert found.explains(evidence, clue) == (node > last and not is_own)
    clues = [(one.side, one.node, one.row, one.told, one.score, one.cause) for one in found.clues()]
    assert clues == [
        (*place, found.rows[place], told, 20.0, Cause.PART) for place, told in found.told.items()
    ]
    said = found.told_of_all()
    assert said["agreeing"] == found.agreeing
    slices = fact("updates.slices", count=found.uncompared) if found.uncompared else None
    assert said == fact("updates.of_parts", agreeing=found.agreeing, slices=slices)
