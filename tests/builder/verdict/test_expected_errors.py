"""Expected errors of drawn programs, held against the same written down one tensor at a time.

The rules are those of docs/design/verdict.md, "Propagation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.verdict.model.conduct import (
    MOVES,
    PLAIN,
    PRODUCTS,
    REACH,
    SUMS,
    Conduct,
    conduct_of,
)
from msprobe_builder.verdict.model.observations import Observations, observe
from msprobe_builder.verdict.model.propagation import beside_noise, propagate
from msprobe_builder.verdict.model.runs import Runs, runs_of
from tests.builder.verdict.columns import compared
from tests.builder.verdict.drawn_programs import drawn_program

Array = NDArray[Any]
MOST = 10.0


@dataclass
class Plain:
    """The model in plain numbers; ``latent`` and ``told`` by row."""

    runs: Runs
    seen: Observations
    does: Conduct
    noise: Array
    chosen: Array

    def __post_init__(self) -> None:
        table = self.runs.npu.table
        self.size = [float(one) for one in self.seen.size]
        self.node = table.node.tolist()
        self.section = table.section.tolist()
        self.rows: dict[int, list[int]] = {}
        for row in np.flatnonzero(table.is_tensor).tolist():
            self.rows.setdefault(self.node[row], []).append(row)
        self.latent = [
            1.0 if self.runs.discrete[row] and self.seen.differs[row] else min(one, MOST)
            for row, one in enumerate(self.size)
        ]
        self.told = [math.nan] * len(self.size)
        self.whole = [True] * len(self.size)

    def settle(self) -> Plain:
        for _ in range(60):
            for node in sorted(self.rows):
                self._read_inputs(node)
            for node in sorted(self.rows):
                self._judge(node)
        return self

    def is_judged(self, node: int) -> bool:
        calls = self.runs.npu.calls
        return bool(calls.is_api[node] or (calls.is_module[node] and not self.runs.open[node]))

    def inputs(self, node: int) -> list[int]:
        takes = {int(Section.INPUT)}
        if not self.runs.open[node]:
            takes.add(int(Section.PARAMETERS))
        return [row for row in self.rows[node] if self.section[row] in takes]

    def outputs(self, node: int) -> list[int]:
        return [row for row in self.rows[node] if self.section[row] == Section.OUTPUT]

    def hidden(self, row: int) -> float:
        """The share of an expected error that readings cannot deny."""
        if not math.isnan(self.seen.exact[row]):
            return 0.3
        known = int(np.count_nonzero(~np.isnan(self.seen.moved[:, row])))
        return 1.0 if not known else 0.6 if known <= 2 else 0.3

    def _read_inputs(self, node: int) -> None:
        calls = self.runs.npu.calls
        if not (self.is_judged(node) or calls.is_module[node]):
            return
        for row in self.inputs(node):
            maker = int(self.runs.maker[row])
            made = self.latent[maker] if maker >= 0 else math.nan
            if math.isnan(self.size[row]):
                self.latent[row] = made
            elif self.runs.discrete[row] and self.seen.differs[row]:
                self.latent[row] = 1.0
            else:
                unseen = self.hidden(row) * made if made < 1 else 0.0
                read = max(min(self.size[row], MOST), self.of_few(row), self.held(row))
                self.latent[row] = max(read, unseen)
            if self.seen.remains[row]:
                self.latent[row] = 1.0

    def held(self, row: int) -> float:
        """What an even spread over a unit is off by, where one side alone has the digits."""
        coarse, fine = float(self.runs.coarse[row]), float(self.runs.fine[row])
        known = not math.isnan(self.seen.exact[row]) or self.runs.discrete[row]
        return 0.0 if known or coarse == fine or not self.size[row] > 0 else coarse / math.sqrt(12)

    def of_few(self, row: int) -> float:
        """What mean and norm say of elements that half precision has a unit off."""
        paired = [one for one in range(len(self.size)) if self.runs.other[one] >= 0]
        usual = float(np.quantile(self.runs.coarse[paired], 0.95))
        unit = max(float(self.runs.coarse[row]), usual)
        if unit <= SINGLE or not math.isnan(self.seen.exact[row]) or self.runs.discrete[row]:
            return 0.0
        spread = 0.12 + 1 / math.sqrt(self.seen.elements[row])
        return min(largest([one / spread for one in self.seen.moved[2:, row]]), 0.6 * unit)

    def _judge(self, node: int) -> None:
        if self.runs.open[node]:
            for row in self.outputs(node):
                maker = int(self.runs.maker[row])
                made = self.latent[maker] if maker >= 0 else math.nan
                self.latent[row] = made if math.isnan(self.size[row]) else self.size[row]
            return
        if not self.is_judged(node):
            return
        for row in self.outputs(node):
            told = min(self.expected(node, row), MOST)
            if self.chosen[row] and math.isnan(self.seen.exact[row]):
                told = max(told, self.by_choice())
            self.told[row] = told
            self.whole[row] = not any(math.isnan(self.latent[one]) for one in self.inputs(node))
            if self.runs.discrete[row] and self.seen.differs[row]:
                self.latent[row] = 1.0
            elif math.isnan(self.size[row]):
                self.latent[row] = told
            elif self.does.free[node]:
                self.latent[row] = self.size[row]
            else:
                least = self.hidden(row) * min(told, 1.0)
                self.latent[row] = max(min(self.size[row], MOST), least)

    def by_choice(self) -> float:
        sizes = [
            self.size[row]
            for row in range(len(self.size))
            if self.chosen[row]
            and math.isnan(self.seen.exact[row])
            and self.section[row] == Section.OUTPUT
            and self.runs.npu.table.is_tensor[row]
            and not self.runs.discrete[row]
            and not math.isnan(self.size[row])
        ]
        return min(0.3, 10 * float(np.quantile(sizes, 0.25))) if sizes else 0.3

    def rounding(self, node: int, row: int) -> float:
        runs, calls = self.runs, self.runs.npu.calls
        unit = runs.coarse if runs.is_mixed else runs.fine
        floats = [unit[one] for one in self.inputs(node) if not runs.discrete[one]]
        of_inputs = max(floats, default=0.0)
        own = float(unit[row])
        if not runs.is_mixed and runs.other[row] < 0 and of_inputs:
            own = min(own, of_inputs)
        if runs.is_mixed:
            if self.does.composite[node]:
                paired = [runs.coarse[one] for one in range(len(self.size)) if runs.other[one] >= 0]
                own = max(paired, default=0.0)
            if self.does.kind[node] == PRODUCTS or calls.is_module[node] or runs.backward[node]:
                own = max(own, of_inputs)
        return 0.0 if runs.discrete[row] else max(0.6 * own, float(self.noise[node]))

    def expected(self, node: int, row: int) -> float:
        seen, does, runs = self.seen, self.does, self.runs
        inputs = self.inputs(node)
        errors = [0.0 if math.isnan(self.latent[one]) else self.latent[one] for one in inputs]
        each = list(zip(inputs, errors, strict=True))
        n, rms, norm = seen.elements[row], seen.rms[row], seen.norm[row]
        most = max((seen.elements[one] for one in inputs), default=0.0)
        kind, is_forward = int(does.kind[node]), not runs.backward[node]
        relative = min(root(errors), MOST)
        absolute = root([error * seen.rms[one] for one, error in each])
        reach = largest([error * seen.peak[one] for one, error in each])
        found = [relative]
        if kind in (SUMS, MOVES) and (is_forward or not does.averages[node]):
            found.append(over(absolute, rms))
        if is_forward and does.bounded[node]:
            found.append(over(absolute, math.sqrt(rms * seen.peak[row])))
        if does.adds_up[node] and not does.averages[node]:
            found.append(over(root([error * seen.norm[one] for one, error in each]), norm))
        if is_forward and does.averages[node]:
            found.append(math.sqrt(n / most) * over(absolute, rms) if most else 0.0)
        if does.multiplies[node]:
            found.append(3 * math.sqrt(most) * relative)
        if kind == REACH:
            found.append(reach)
        if does.near_zero[node]:
            found.append(over(max(relative, reach), rms))
        if is_forward and kind == PRODUCTS:
            found.append(relative * self.cancelled(node, row))
        if is_forward and does.scales[node]:
            found.append(relative * self.uneven(self.inputs(node), node, 1, row))
        if does.normalises[node] and kind != REACH:
            found += [error / math.sqrt(self.varies(one)) for one, error in each]
        jumps = does.breaks[node] and not runs.discrete[row] and relative > 0
        if jumps or (runs.discrete[row] and relative * n > 0.01):
            found += [math.sqrt(relative), 2 / math.sqrt(n)]
        if jumps and norm == 0:
            found.append(MOST)
        if does.turns[node] and relative > 0:
            found.append(1.0)
        if is_forward and does.steep[node] > 1:
            found.append(relative * max((self.steep(one) for one in inputs), default=1.0))
            found += [self.of_smallest(one) for one in inputs]
        amount = max(min(one, MOST) for one in found if not math.isnan(one))
        single = all(math.isfinite(seen.rms[one]) and seen.elements[one] == 1 for one in inputs)
        if is_forward and "cat" in runs.npu.tree.names[node] and single and rms > 0:
            amount = min(absolute / rms, MOST)
        lacks_norm = any(math.isnan(seen.norm[one]) and self.size[one] >= 0 for one in inputs)
        is_module = runs.npu.calls.is_module[node] and not does.is_known[node]
        if lacks_norm or does.composite[node] or is_module:
            amount *= 4
        gain = {PLAIN: 1.0, SUMS: 1.5, PRODUCTS: 1.5, REACH: 3.0, MOVES: 1.5}[kind]
        result = math.hypot(gain * amount, own := self.rounding(node, row))
        return result if is_forward else self.of_gradient(node, row, result, own)

    def of_gradient(self, node: int, row: int, result: float, own: float) -> float:
        seen, does, runs = self.seen, self.does, self.runs
        ahead = int(runs.npu.calls.twin[node])
        kept = self.rows.get(ahead, []) if ahead >= 0 else []
        n, kind = seen.elements[row], int(does.kind[node])
        steep = max([1.0, *(self.steep(one) for one in kept)])
        if ahead >= 0:
            error = min(largest([self.latent[one] for one in kept]), MOST)
            if does.kinks[node] and error < 1 and error * n > 0.01:
                error = max(math.sqrt(error), 1 / math.sqrt(n))
            result = math.hypot(result, 3 * error * (4 if does.composite[node] else 1))
            if kind == PRODUCTS:
                result *= self.cancelled(node, row) * self.cancelled_back(node, ahead, row)
            place = int(runs.npu.table.position[row])
            if does.scales[node] and place < 2:
                result *= self.uneven(self.inputs(node), ahead, 1 - place, row)
        given = [one for one in self.inputs(node) if not runs.discrete[one]]
        length = largest([seen.norm[one] for one in given])
        most = max((seen.elements[one] for one in given), default=0.0)
        error_in = max(own, largest([self.latent[one] for one in given]))
        longer = over(length, seen.norm[row])
        if n < most and math.isfinite(longer):
            together = math.sqrt(1 + 0.12**2 * most / n)
            result = max(result, min(MOST, error_in * longer * together))
        if n < most and seen.norm[row] == 0:
            together = math.sqrt(1 + 0.12**2 * most / n)
            here = float(runs.npu.table.statistics[3, row])
            result = MOST if here <= error_in * length * together else result
        if ahead >= 0 and does.normalises[node] and kind == REACH:
            put_out = [one for one in self.outputs(ahead) if not runs.discrete[one]]
            of_forward = min(largest([seen.rms[one] for one in put_out]), 1.0)
            left = error_in * longer * of_forward
            result = max(result, min(MOST, left) if not math.isnan(left) else 0.0)
        is_faint = most > 0 and own * length / math.sqrt(most) > seen.rms[row]
        if ahead >= 0 and does.composite[node] and is_faint:
            result = MOST
        if ahead >= 0 and kind in (PLAIN, SUMS):
            power = int(does.steep[node])
            result *= min(steep**power, 1e4) if power > 1 else min(steep, 3.0)
        return result

    def varies(self, row: int) -> float:
        """The share of a size that is no mean, a hundredth at least."""
        share = 1 - over(self.seen.mean[row], self.seen.rms[row]) ** 2
        return 1.0 if math.isnan(share) else min(max(share, 0.01), 1.0)

    def steep(self, row: int) -> float:
        smallest, rms = self.seen.smallest[row], self.seen.rms[row]
        ratio = rms / smallest if smallest > 0 else over(self.seen.peak[row], rms)
        return 1.0 if math.isnan(ratio) else min(max(ratio, 1.0), 1e4)

    def of_smallest(self, row: int) -> float:
        other = int(self.runs.other[row])
        if other < 0:
            return 0.0
        both = [
            part.table.statistics[:2, at].tolist()
            for part, at in ((self.runs.npu, row), (self.runs.bench, other))
        ]
        if not all(one[0] * one[1] > 0 for one in both):
            return 0.0
        debug, reference = (min(map(abs, one)) for one in both)
        return float(abs(debug - reference) / reference)

    def cancelled(self, node: int, row: int) -> float:
        """How much shorter a product is than factors without a common direction make it."""
        seen = self.seen
        some = [one for one in self.inputs(node) if seen.norm[one] > 0]
        some.sort(key=lambda one: -seen.elements[one])
        if len(some) < 2:
            return 1.0
        one, two = some[:2]
        inner = math.sqrt(seen.elements[one] * seen.elements[two] / seen.elements[row])
        product = seen.norm[one] * seen.norm[two] / math.sqrt(inner)
        ratio = over(product, seen.norm[row])
        return 1.0 if math.isnan(ratio) else min(max(ratio, 1.0), 100.0)

    def uneven(self, given: list[int], other: int, place: int, row: int) -> float:
        """How much shorter a product by elements is than one of factors that are unrelated."""
        seen, position = self.seen, self.runs.npu.table.position
        one = [seen.rms[each] for each in given if not position[each] and seen.norm[each] > 0]
        some = [each for each in self.inputs(other) if seen.norm[each] > 0]
        two = [seen.rms[each] for each in some if position[each] == place]
        ratio = over(one[0] * two[0], seen.rms[row]) if one and two else 1.0
        return 1.0 if math.isnan(ratio) else min(max(ratio, 1.0), 10.0)

    def cancelled_back(self, node: int, ahead: int, row: int) -> float:
        """The same of a gradient: of what comes back, and the other factor of the call ahead."""
        seen, position = self.seen, self.runs.npu.table.position
        place = int(position[row])
        some = [[one for one in self.inputs(at) if seen.norm[one] > 0] for at in (node, ahead)]
        back = [one for one in some[0] if not position[one]]
        other = [one for one in some[1] if position[one] == 1 - place]
        if place > 1 or not back or not other:
            return 1.0
        inner = math.sqrt(seen.elements[back[0]] * seen.elements[other[0]] / seen.elements[row])
        product = seen.norm[back[0]] * seen.norm[other[0]] / math.sqrt(inner)
        ratio = over(product, seen.norm[row])
        return 1.0 if math.isnan(ratio) else min(max(ratio, 1.0), 10.0)


def root(values: list[float]) -> float:
    return math.sqrt(sum(one * one for one in values if not math.isnan(one)))


def largest(values: list[float]) -> float:
    return max([0.0, *(one for one in values if not math.isnan(one))])


def over(one: float, other: float) -> float:
    if other == 0:
        return math.nan if one == 0 else math.inf
    return one / other


def both_ways(seed: int, *, mixed: bool) -> tuple[Plain, Any]:
    result = compared(*drawn_program(seed, mixed=mixed))
    assert result.comparisons is not None
    runs = runs_of(result)
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        seen = observe(runs, result.comparisons)
        exact = (rng.random(len(seen.size)) < 0.1) & ~np.isnan(seen.size)
        seen.exact[exact] = seen.size[exact]
        does = conduct_of(runs.npu, result.texts, runs.npu.calls.is_api | runs.npu.calls.is_module)
        noise = np.where(
            rng.random(len(runs.npu.tree)) < 0.5, 0, 10.0 ** rng.uniform(-7, -3, len(runs.npu.tree))
        )
        chosen = rng.random(len(seen.size)) < (0.15 if seed % 3 == 0 else 0.0)
        found = propagate(runs, seen, does, noise, chosen)
    return Plain(runs, seen, does, noise, chosen).settle(), found


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_an_expected_error_is_as_in_plain_numbers(seed: int, mixed: bool) -> None:
    plain, found = both_ways(seed, mixed=mixed)
    names = plain.runs.npu.tree.names
    for row in range(len(plain.size)):
        where = f"{names[plain.node[row]]} {row}"
        if not plain.runs.npu.table.is_tensor[row]:
            continue
        assert found.told[row] == pytest.approx(plain.told[row], rel=0.03, nan_ok=True), where
        assert found.latent[row] == pytest.approx(plain.latent[row], rel=0.03, nan_ok=True), where
        if not math.isnan(plain.told[row]):
            assert bool(found.is_whole[row]) is plain.whole[row], where


def test_a_second_run_of_the_reference_is_expected_three_times() -> None:
    result = compared(*drawn_program(3))
    assert result.comparisons is not None
    runs = runs_of(result)
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        seen = observe(runs, result.comparisons)
        does = conduct_of(runs.npu, result.texts, runs.npu.calls.is_api)
        none = np.zeros(len(runs.npu.tree))
        before = propagate(runs, seen, does, none, none[runs.npu.table.node] > 0)
    noise = np.where(rng.random(len(runs.bench.table)) < 0.3, np.nan, 0.02)
    after = beside_noise(runs, before, noise)
    for row, other in enumerate(runs.other.tolist()):
        own = math.nan if other < 0 else float(noise[other])
        for column, times, was in (
            (after.told, 3.0, float(before.told[row])),
            (after.latent, 1.0, float(before.latent[row])),
        ):
            is_open = math.isnan(was) and times > 1
            right = was if math.isnan(own) or is_open else np.fmax(was, times * own)
            assert column[row] == pytest.approx(right, nan_ok=True)
