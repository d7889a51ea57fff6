"""Norms that ranks take of their own gradients, against the rule of it in plain words."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.provenance import NumberOf, Numbers, Provenance, Shares
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.ranks import norms
from msprobe_builder.verdict.ranks.norms import NOTHING, OwnNorms, Wrong
from tests.builder.verdict.columns import Array, Run, compared, evidence_of, measured, rows_by_name

TRIED = range(100)
Known = dict[int, Numbers]


@dataclass(frozen=True)
class Drawn:
    """Both runs' norms of gradients, with their sums over ranks."""

    evidence: Evidence
    npu: Provenance
    bench: Provenance


class Norms:
    """Two ranks that take norms of what they have, add squares up, and reduce the sums."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(4000 + seed)
        self.kinds: tuple[dict[str, NumberOf], ...] = {}, {}
        self.taken: tuple[dict[str, Array], ...] = {}, {}
        self.sides = Run(), Run()
        rng = self.rng
        self.half = rng.random() < 0.2
        gradients = [rng.normal(0.1, 1, 8) * rng.choice([1.0, 1.0, 3.0, 2e-4]) for _ in range(6)]
        for side in (0, 1):
            chosen = [gradients[place] for place in rng.permutation(6)]
            if side == 0 and rng.random() < 0.5:
                off = 1 + rng.choice([3e-5, 1e-3, 1e-2, 5e-2, 0.5])
                for place in range(int(rng.integers(1, 3))):
                    chosen[place] = chosen[place] * off
            if rng.random() < 0.08:
                chosen = chosen[1:]
            if side == 0 and rng.random() < 0.15:
                chosen[0] = chosen[0] * [*[1] * 7, -1]
            self.norms(side, chosen)

    def norms(self, side: int, gradients: list[Array]) -> None:
        rng, run = self.rng, self.sides[side]
        dtype = "bfloat16" if self.half and side == 0 else "float32"
        for place, one in enumerate(gradients):
            name = f"Torch.norm.{place}.forward"
            run.call(name, [measured(one)], [measured(np.ones(1), dtype)])
            self.kinds[side][name] = NumberOf.TENSOR
            self.taken[side][name] = one
        for stem, of in (
            ("Torch.stack", NumberOf.NUMBERS),
            ("Tensor.pow", NumberOf.VALUE),
            ("Distributed.all_reduce", NumberOf.RANKS),
        ):
            if stem != "Distributed.all_reduce" or rng.random() < 0.8:
                name = f"{stem}.0.forward"
                run.call(name, [measured(np.ones(1))], [measured(np.ones(1))])
                self.kinds[side][name] = of
        run.call("Torch.mul.0.forward", [measured(np.ones(3))], [measured(np.ones(3))])

    def numbers(self, side: int, rows: dict[str, int], *, alike: bool) -> Known:
        """By row what each rank has: its part of each gradient, or that all of it."""
        rng, found = self.rng, dict[int, Numbers]()
        exact = rng.random() < 0.6
        squares = np.zeros(2)
        for name, of in self.kinds[side].items():
            if of is NumberOf.TENSOR:
                norm = float(np.linalg.norm(self.taken[side][name]))
                share = 1.0 if alike else float(rng.uniform(0.2, 0.9))
                own = np.array([norm * share, norm * (share if alike else np.sqrt(1 - share**2))])
                squares += own**2
            elif of is NumberOf.NUMBERS:
                own = np.sqrt(squares)
            elif of is NumberOf.VALUE:
                own = squares.copy()
                if rng.random() < (0.15, 0.05)[side]:
                    own[0] *= 0.7
                squares = own
            else:
                total = squares.sum() if rng.random() < 0.85 else squares.sum() * 1.2
                own = np.array([total, total])
            strayed = 1 + (0.0 if exact else 10.0 ** rng.uniform(-7, -1))
            expected = own * (strayed if rng.random() < (0.06, 0.02)[side] else 1.0)
            ranks = (0, 1)[: 2 - side]  # the reference is not split
            found[rows[f"{name}:output.0"]] = Numbers(
                ranks,
                tuple(own.tolist())[: len(ranks)],
                tuple(expected.tolist())[: len(ranks)],
                of,
                of is NumberOf.VALUE,
            )
        return found


@functools.cache
def drawn(seed: int) -> Drawn:
    draw = Norms(seed)
    result = compared(*draw.sides)
    assert result.bench is not None
    tree, table = result.bench.tree, result.bench.table
    bench_rows = {
        f"{tree.names[node]}:{result.texts.values[name]}": row
        for row, (node, name) in enumerate(
            zip(table.node.tolist(), table.name_id.tolist(), strict=True)
        )
    }
    alike = bool(draw.rng.random() < 0.3)
    npu = draw.numbers(0, rows_by_name(result), alike=alike)
    bench = draw.numbers(1, bench_rows, alike=True)
    replicas = int(draw.rng.integers(1, 3))
    shares = {}
    for row, one in npu.items():
        if one.of is NumberOf.TENSOR and draw.rng.random() < 0.5:
            parts = draw.rng.normal(size=(2, 4))
            statistics = np.stack(
                [parts.max(1), parts.min(1), parts.mean(1), np.linalg.norm(parts, axis=1)], 1
            )
            shares[row] = Shares((0, 1), statistics, np.full(2, 4.0))
    return Drawn(
        evidence_of(result),
        Provenance(numbers=npu, replicas=replicas, shares=shares),
        Provenance(numbers=bench),
    )


def away(one: float, other: float) -> float:
    return abs(one - other) / max(one, other) if max(one, other) > 0 else 0.0


def wrong(one: Numbers, allowed: float) -> list[Wrong]:
    return [
        Wrong(rank, own, due)
        for rank, own, due in zip(one.ranks, one.own, one.expected, strict=True)
        if one.of is not NumberOf.RANKS and away(own, due) > allowed
    ]


def unpaired(evidence: Evidence, npu: Known, bench: Known) -> tuple[list[int], list[int]]:
    """Gradients of which one side alone takes a norm."""
    runs = evidence.runs

    def taken(known: Known, side: int) -> list[int]:
        table = (runs.npu, runs.bench)[side].table
        nodes = {int(table.node[row]) for row, one in known.items() if one.of is NumberOf.TENSOR}
        return [
            row
            for row, node in enumerate(table.node.tolist())
            if node in nodes and table.section[row] == Section.INPUT and table.is_tensor[row]
        ]

    here, there = taken(npu, 0), taken(bench, 1)
    alone = []
    for row in here:
        own = runs.npu.table.statistics[:, row]
        size = max(abs(own[0]), abs(own[1]))
        for other in there:
            due = runs.bench.table.statistics[:, other]
            gap = np.abs(own - due)
            near = [
                gap[place] <= 1e-4 * max(size, abs(own[place]), abs(due[place])) for place in (0, 1)
            ]
            if all(near) and gap[3] <= 1e-4 * max(own[3], due[3]):
                there.remove(other)
                break
        else:
            alone.append(row)
    return alone, there


def plain(one: Drawn) -> OwnNorms:
    evidence, npu, bench = one.evidence, one.npu.numbers, one.bench.numbers
    table, texts = evidence.runs.npu.table, evidence.runs.texts.values
    if any(wrong(each, 1e-5) for each in bench.values()):
        return NOTHING
    unit = {"torch.float32": 2.0**-23, "torch.bfloat16": 2.0**-7}
    allowed = {row: max(1e-5, 4 * unit[texts[table.dtype_id[row]]]) for row in npu}
    off = {row: wrong(each, max(1e-2, allowed[row])) for row, each in npu.items()}
    sound = {row: each for row, each in npu.items() if not wrong(each, allowed[row])}
    total, whole = norms._of_all_ranks(sound, {0, 1}), norms._of_all_ranks(bench, None)
    adds_up = bool(total and whole and away(total, whole) < 1e-4)
    if not any(off.values()) and not adds_up:
        coarsest = max(allowed.values())
        if any(norms._left_out(bench, coarsest).values()):
            return NOTHING
        off = norms._left_out(npu, coarsest)
    off = {row: several for row, several in off.items() if several}
    taken = [row for row, each in npu.items() if each.of is NumberOf.TENSOR]
    alone, reference = unpaired(evidence, npu, bench)
    if off or len(alone) != len(reference) or len(alone) * 4 > len(taken):
        return OwnNorms(frozenset(), 0, off, True)
    totals = {row: each for row, each in npu.items() if each.of is NumberOf.RANKS}
    is_whole = one.npu.replicas == 1
    if not all(norms._is_total(each, total, is_whole=is_whole) for each in totals.values()):
        odd = norms._no_totals(totals, total) if is_whole else {}
        return OwnNorms(frozenset(), 0, {}, True, odd=odd)
    node = {row: int(table.node[row]) for row in npu}
    others: dict[int, list[Wrong]] = {}
    statistics = evidence.runs.bench.table.statistics
    number = {node[row]: npu[row] for row in taken}
    largest = max(max(npu[row].own) for row in taken)
    sizes = sorted((norms._size(number[int(table.node[row])]), row) for row in alone)
    for (size, row), other in zip(
        sizes, sorted(reference, key=lambda each: statistics[3, each]), strict=True
    ):
        due = float(statistics[3, other])
        if away(size, due) > 2e-2 and max(size, due) > 1e-3 * largest:
            own = number[int(table.node[row])]
            others[row] = norms._ranks_of(own, one.npu.shares.get(row), statistics[:, other])
    values = [node[row] for row, each in sound.items() if each.of is NumberOf.VALUE]
    return OwnNorms(
        frozenset(node[row] for row in sound),
        len(taken),
        others,
        is_whole or not totals,
        frozenset(values),
    )


def found_in(one: Drawn) -> OwnNorms:
    return norms.own_norms(one.evidence.runs, one.npu, one.bench, one.evidence.runs.texts)


@pytest.mark.parametrize("seed", TRIED)
def test_norms_are_explained_that_follow_from_what_ranks_have(seed: int) -> None:
    one = drawn(seed)
    found = found_in(one)
    assert found == plain(one)
    runs = one.evidence.runs
    table = runs.npu.table
    clues = list(norms.wrong_numbers(table, found))
    told = found.wrong | found.odd
    assert [each.row for each in clues] == sorted(told)
    for each in clues:
        assert (each.score, each.side, each.cause) == (1000.0, 0, Cause.NUMBER)
        assert each.node == table.node[each.row]
        assert each.rival == ("merged" if each.row in found.odd else "")
        assert each.told == tuple(
            fact("number.of_rank", rank=rank, own=own, due=due)
            for rank, own, due in told[each.row][:2]
        )


def test_nothing_is_known_of_norms_of_one_side() -> None:
    one = drawn(0)
    runs = one.evidence.runs
    for npu, bench in ((None, one.bench), (one.npu, None), (Provenance(), one.bench)):
        assert norms.own_norms(runs, npu, bench, runs.texts) == NOTHING


@pytest.mark.parametrize("seed", TRIED[::4])
def test_a_clue_at_a_norm_is_explained_unless_it_is_used_for_what_is_off(seed: int) -> None:
    from tests.builder.verdict.drawn_ranks import ranks_drawn

    evidence, _, _ = ranks_drawn(seed // 4)
    runs, rng = evidence.runs, np.random.default_rng(seed)
    table = runs.npu.table
    for _ in range(3):
        explained = frozenset(np.flatnonzero(rng.random(len(runs.npu.tree)) < 0.5).tolist())
        taken_out = frozenset(node for node in explained if rng.random() < 0.4)
        known = OwnNorms(explained, 0, {}, True, taken_out)

        def explains(at: int, known: OwnNorms = known) -> bool:
            if at not in known.explained:
                return False
            if at in evidence.arguments and at not in known.taken_out:
                return False
            users = {
                int(table.node[row])
                for row, made in enumerate(runs.maker.tolist())
                if made >= 0 and table.node[made] == at
            } - known.explained
            return not any(
                evidence.off[row]
                and table.section[row] == Section.OUTPUT
                and table.numel[row] != 1
                and table.node[row] in users
                for row in range(len(table))
            )

        right = {at: explains(at) for at in range(len(runs.npu.tree))}
        for at, due in right.items():
            assert known.explains(evidence, Clue(9.0, 0, at, Cause.OUTPUT, -1)) == due
            assert not known.explains(evidence, Clue(9.0, 1, at, Cause.OUTPUT, -1))
        for row in range(len(table)):
            clue = Clue(9.0, 1, 1, Cause.OUTPUT, row)
            assert known.explains(evidence, clue) == right[int(table.node[row])]
