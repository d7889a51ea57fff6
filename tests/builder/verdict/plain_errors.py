"""The errors that are expected of a comparison, written down one tensor at a time.

The rules are those of docs/design/verdict.md, "Propagation".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
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
)
from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.runs import Runs

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
            return 0.0
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
        is_exponential = is_forward and bool(does.exponential[node])
        if kind == REACH and not is_exponential:
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
            found += [0.0 if self.is_above(one) else self.of_smallest(one) for one in inputs]
        amount = max(min(one, MOST) for one in found if not math.isnan(one))
        single = all(math.isfinite(seen.rms[one]) and seen.elements[one] == 1 for one in inputs)
        if is_forward and "cat" in runs.npu.tree.names[node] and single and rms > 0:
            amount = min(absolute / rms, MOST)
        if is_exponential:
            amount = min(largest([self.of_height(one, error) for one, error in each]), MOST)
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
            slopes = does.kind[ahead] == REACH
            errors = [self.latent[one] * (self.reach(one) if slopes else 1.0) for one in kept]
            error = min(largest(errors), MOST)
            if does.kinks[node] and error < 1 and error * n > 0.01:
                error = max(math.sqrt(error), 1 / math.sqrt(n))
            is_known = does.kinks[node] and not math.isnan(seen.exact[row])
            weight = 1 if is_known else 3 * (4 if does.composite[node] else 1)
            result = math.hypot(result, weight * error)
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
        is_measured = not math.isnan(seen.exact[row])
        if is_measured and (does.bounded[node] or does.kinks[node]):
            size_in = largest([seen.rms[one] for one in given])
            left = largest([self.latent[one] for one in given]) * over(size_in, seen.rms[row])
            result = max(result, min(MOST, left) if not math.isnan(left) else 0.0)
        is_first = ahead >= 0 and not runs.npu.table.position[row]
        if is_measured and is_first and does.normalises[node] and kind != REACH:
            result *= self.centred(given, ahead, row)
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
        power = int(does.steep[node])
        if ahead >= 0 and power > 1:
            result *= min(steep**power, 1e4)
        elif ahead >= 0 and kind in (PLAIN, SUMS) and math.isnan(seen.exact[row]):
            result *= min(steep, 3.0)
        return result

    def is_above(self, row: int) -> bool:
        """Whether a quotient divides it."""
        node, table = self.node[row], self.runs.npu.table
        given = [one for one in self.rows[node] if self.section[one] == Section.INPUT]
        last = max([1, *(int(table.position[one]) for one in given)])
        return bool(self.does.divides[node]) and row in given and int(table.position[row]) < last

    def of_height(self, row: int, error: float) -> float:
        """What an exponential makes of the error of what it is given."""
        lowest, other = float(self.runs.npu.table.statistics[1, row]), int(self.runs.other[row])
        highest = float(self.runs.bench.table.statistics[0, other]) if other >= 0 else 0.0
        sizes = [one for one in (float(self.seen.rms[row]), highest) if math.isfinite(one)]
        is_masked = lowest < -9e3 and -lowest > 1e3 * abs(self.runs.npu.table.statistics[0, row])
        found = error * max([1.0 if is_masked else 0.0, *sizes])
        one_side = self.runs.fine[row] * -lowest < 1 < self.runs.coarse[row] * -lowest
        return max(found, 0.1) if is_masked and one_side else found

    def reach(self, row: int) -> float:
        rms = float(self.seen.rms[row])
        is_open = math.isnan(rms) or math.isnan(self.seen.exact[row])
        return 1.0 if is_open else min(max(rms, 1.0), 10.0)

    def centred(self, given: list[int], ahead: int, row: int) -> float:
        """What a normalisation g·w/σ leaves of a gradient, or how far rows of small σ exceed it."""
        seen = self.seen
        kept = [one for one in self.rows[ahead] if self.section[one] in (0, 2)]
        first = [one for one in kept if not self.runs.npu.table.position[one]]
        flat = [1 - over(seen.mean[one], seen.rms[one]) ** 2 for one in first]
        scale = largest(
            [
                seen.rms[one] * math.sqrt(share) if share >= 0 else math.nan
                for one, share in zip(first, flat, strict=True)
            ]
        )
        trained = [one for one in kept if self.runs.npu.table.requires_grad[one] == 1]
        weight = largest([seen.rms[one] for one in trained if one not in first]) or 1.0
        size_in = largest([seen.rms[one] for one in given])
        told = over(over(size_in * weight, scale), seen.rms[row])
        told = 1.0 if math.isnan(told) or math.isinf(told) else told
        return min(max(told, 1 / max(told, 0.1), 1.0), 10.0)

    def varies(self, row: int) -> float:
        """The share of a size that is no mean, a hundredth at least."""
        share = 1 - over(self.seen.mean[row], self.seen.rms[row]) ** 2
        return 1.0 if math.isnan(share) else min(max(share, 0.01), 1.0)

    def steep(self, row: int) -> float:
        if self.is_above(row):
            return 1.0
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
