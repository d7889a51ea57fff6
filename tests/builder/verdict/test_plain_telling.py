"""Which fact tells what has happened at a clue, against the rules of it in plain words."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.left_out import LeftOut
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.passes import loss_divided
from msprobe_builder.verdict.model.telling import _story, evidence_of
from msprobe_builder.verdict.ruling.same_data import micro_step_of_same
from msprobe_builder.verdict.ruling.wording import differing, shortened, size_of
from tests.builder.verdict.drawn_evidence import evidence_drawn
from tests.builder.verdict.drawn_ranks import ranks_drawn

TRIED = [(seed, is_of_ranks) for seed in range(10) for is_of_ranks in (False, True)]
APIS = ("Torch.", "Tensor.", "Functional.", "Distributed.")
LEFT_OUT = (LeftOut(), LeftOut(), LeftOut(inputs=True), LeftOut(skips=(True, False)))


@functools.cache
def told_evidence(seed: int, is_of_ranks: bool) -> Evidence:
    """Of a drawn program: also what a filter may have left out, and what checksums alone tell."""
    one = ranks_drawn(seed)[0] if is_of_ranks else evidence_drawn(700 + seed, seed % 2 == 1)
    rng = np.random.default_rng(seed)
    by_sum = one.runs.by_sum | (rng.random(len(one.runs.by_sum)) < 0.1)
    exact = np.where(rng.random(len(by_sum)) < 0.1, 0.25, one.seen.exact)
    return replace(
        one,
        runs=replace(one.runs, by_sum=by_sum),
        seen=replace(one.seen, exact=exact),
        left_out=LEFT_OUT[seed % 4],
        is_merged=seed % 3 == 0,
        where={
            row: (fact("unknown"),)
            for row in np.flatnonzero(rng.random(len(by_sum)) < 0.1).tolist()
        },
    )


@pytest.fixture(params=TRIED, ids=str)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return told_evidence(*request.param)


def clues(evidence: Evidence) -> list[Clue]:
    """Of each cause at each tensor and call, of both sides."""
    table = evidence.runs.npu.table
    sizes = len(evidence.runs.npu.tree), len(evidence.runs.bench.tree)
    rng = np.random.default_rng(len(table))
    found = []
    for row in np.flatnonzero(table.is_tensor).tolist():
        for number in rng.choice(len(Cause), size=6, replace=False).tolist():
            cause = Cause(number)
            side = int(rng.random() < 0.1)
            node = int(table.node[row])
            if side or rng.random() < 0.1:
                node = int(rng.integers(1, sizes[side]))
            error = float(rng.choice([0.0, 0.01, 20.0]))
            expected = float(rng.choice([0.0, 0.001]))
            found.append(Clue(9.0, side, node, cause, row, error, expected))
    for side in (0, 1):
        for node in range(1, sizes[side]):
            for cause in (Cause.MISSING, Cause.EXTRA, Cause.GRADIENT, Cause.ARGUMENT):
                found.append(Clue(9.0, side, node, cause, -1))
    return found


def operator(part: Part, node: int) -> Operator:
    return operator_of(part.calls.stems[int(part.calls.stem[node])])


def difference(evidence: Evidence, row: int) -> Fact:
    runs = evidence.runs
    other = int(runs.other[row]) if row >= 0 else -1
    if other >= 0 and runs.by_sum[row]:
        return fact("differs.checksum")
    exact = evidence.seen.exact[row] if row >= 0 else 0.0
    share = 0.0 if np.isnan(exact) else float(exact)
    where = evidence.where.get(row, ())
    return differing(runs.npu.table, runs.bench.table, row, other, share, where)


class Plain:
    """One clue, and what is asked of it."""

    def __init__(self, evidence: Evidence, clue: Clue) -> None:
        self.evidence, self.clue, self.runs = evidence, clue, evidence.runs
        self.table, self.tree = self.runs.npu.table, self.runs.npu.tree
        names, row = self.runs.texts.values, clue.row
        self.name = names[self.table.name_id[row]] if row >= 0 else ""
        self.section = int(self.table.section[row]) if row >= 0 else -1
        self.how = difference(evidence, row)
        self.own = self.tree.names[clue.node] if clue.side == 0 else ""

    def fact(self, code: str, *, at_node: bool = False, **more: object) -> Fact:
        arguments = {"name": self.name, "how": self.how, **more}
        if at_node:
            arguments["node"] = self.tree.names[self.table.node[self.clue.row]]
        return fact(code, **arguments)  # type: ignore[arg-type]

    def story(self) -> Fact:
        cause, row = self.clue.cause, self.clue.row
        is_in_model = "Module." in self.own
        is_back = ".backward" in self.own
        match cause:
            case Cause.MISSING | Cause.EXTRA if row < 0:
                return self.lacking()
            case Cause.MISSING:
                return self.fact("call_missing.behind", at_node=True)
            case Cause.EXTRA:
                return self.fact("call_extra.behind", at_node=True)
            case Cause.ORDER:
                return self.fact("order.of_output", at_node=True)
            case Cause.BETWEEN:
                return self.fact("between", at_node=True)
            case Cause.NUMBER if self.section == Section.INPUT:
                return fact("number.norm_of_none", name=self.name)
            case Cause.NUMBER:
                is_reduced = "all_reduce" in self.tree.names[self.clue.node]
                code = "number.no_sum" if is_reduced else "number.not_of_gradients"
                return fact(code, name=self.name)
            case Cause.GRADIENT if self.section == Section.PARAMETERS:
                return fact("gradient.frozen", name=self.name)
            case Cause.GRADIENT:
                code = "gradient.lacking" if row < 0 or is_back else "gradient.cut_off"
                return fact(code) if code == "gradient.lacking" else fact(code, name=self.name)
            case Cause.ARGUMENT if row < 0:
                return fact("argument.tensor_lacking")
            case Cause.RANK:
                return fact("ranks_unlike")
            case Cause.RANDOM:
                return fact("drawn_otherwise", name=self.name)
            case Cause.WIRING | Cause.WEIGHT | Cause.WEIGHTS:
                return self.fact(cause.name.lower())
            case Cause.UNRECORDED:
                return self.unrecorded()
            case Cause.EXTERNAL:
                return self.external()
        assert not (cause is Cause.OUTPUT and is_in_model and row < 0)
        return self.output()

    def lacking(self) -> Fact:
        """A call of which nothing shows: by what it does, or whether anybody reads it."""
        runs, clue = self.runs, self.clue
        part, makers = [(runs.npu, runs.maker), (runs.bench, runs.bench_maker)][clue.side]
        does = operator(part, clue.node)
        is_api = part.tree.names[clue.node].startswith(APIS)
        is_used = any(made >= 0 and part.table.node[made] == clue.node for made in makers.tolist())
        code = "without_effect" if is_used else "unseen"
        if is_api and (does.kind is Kind.CAST or "itself" in does.keeps):
            code = "cast"
        elif is_api and does.kind is Kind.TURN:
            code = "order"
        return fact(f"call_lacking.{code}", side=fact(("the_reference", "this_run")[clue.side]))

    def unrecorded(self) -> Fact:
        """Behind the last module around of the same pass, else behind the loss."""
        if self.section == Section.PARAMETERS_GRAD:
            return self.fact("unrecorded.backward_calls")
        if self.evidence.left_out.calls:
            return self.fact("unrecorded.calls")
        parent = self.tree.parent.tolist()
        before = [
            name
            for node, name in enumerate(self.tree.names[: self.clue.node])
            if name.startswith("Module.") and parent[node] == parent[self.clue.node]
        ]
        name = self.tree.names[self.clue.node]
        directions = [
            word
            for word in ("forward", "backward")
            if f".{word}." in f"{name}." and "parameters_grad" not in name
        ]
        same = [
            one
            for one in before
            if (f".{directions[0]}." in one if directions else one.endswith("parameters_grad"))
        ]
        node = self.tree.names[self.clue.node]
        if same:
            return fact("unrecorded.behind", last=same[-1], name=self.name, node=node, how=self.how)
        if directions == ["backward"] and before:
            return fact("unrecorded.loss", last=before[-1], name=self.name, node=node, how=self.how)
        return self.fact("unrecorded.calls")

    def external(self) -> Fact:
        runs, clue = self.runs, self.clue
        name = self.tree.names[clue.node]
        step = micro_step_of_same(self.table, runs.bench, clue.row, int(runs.other[clue.row]))
        if step >= 0:
            return self.fact("external.of_micro_step", micro_step=step)
        if ".backward" in name:
            return self.fact("external.unrecorded")
        passes = [
            node
            for node, one in enumerate(self.tree.names)
            if one.startswith("Module.") and "parameters_grad" not in one
        ]
        last = max(passes, default=0)
        around = self.tree.names[int(self.tree.parent[clue.node])]
        is_within = around.startswith("Module.") and "parameters_grad" not in around
        is_api = name.startswith(APIS)
        trains = ".backward." in self.tree.names[last]
        if is_api and trains and clue.node > last and not is_within:
            return self.fact("external.accumulated")
        if is_api and is_within and self.section != Section.PARAMETERS:
            return self.fact("external.buffer")
        return self.fact("external.other_data")

    def output(self) -> Fact:
        """What is known of what it was given."""
        runs, clue, table = self.runs, self.clue, self.table
        if clue.side:
            return self.fact("inputs_agree")
        names = runs.texts.values
        given = [
            row
            for row in np.flatnonzero(table.is_tensor).tolist()
            if table.node[row] == clue.node and table.section[row] == Section.INPUT
        ]
        paired = [row for row in given if self.evidence.paired[row] >= 0]
        for row in paired:
            sizes = table.numel[row], runs.bench.table.numel[self.evidence.paired[row]]
            if sizes[0] != sizes[1] and not np.isnan(sizes).any():
                text, own, theirs = names[table.name_id[row]], int(sizes[0]), int(sizes[1])
                return self.fact("input_resized", input=text, own=own, theirs=theirs)
        if self.evidence.left_out.inputs:
            return self.fact("unrecorded.given")
        unknown = [
            names[table.name_id[row]]
            for row in paired
            if np.isnan(self.evidence.expected.latent[row]) and not runs.discrete[row]
        ]
        if unknown:
            code = "merged" if self.evidence.is_merged else "one_side"
            return self.fact(f"inputs_unknown.{code}", inputs=unknown[:3])
        return self.fact("inputs_agree")


def test_what_has_happened_is_told_by_the_kind_of_clue(evidence: Evidence) -> None:
    for clue in clues(evidence):
        if clue.cause is Cause.PART or (clue.side and clue.cause is Cause.UNRECORDED):
            continue
        if clue.side and clue.cause in (Cause.EXTERNAL, Cause.NUMBER):
            continue  # they are of this run
        assert _story(evidence, clue) == [Plain(evidence, clue).story()], clue


def test_all_that_is_known_of_a_clue_stands_in_its_order(evidence: Evidence) -> None:
    runs = evidence.runs
    rivals = ("", "passes", "chosen", "unknown", "sum_of_uses", "places", "merged")
    for turn, one in enumerate(clues(evidence)):
        if one.cause in (Cause.UNRECORDED, Cause.EXTERNAL, Cause.NUMBER, Cause.OUTPUT):
            continue  # with what is told of them above
        own = (fact("unknown"),) if turn % 3 == 0 else ()
        clue = replace(one, rival=rivals[turn % len(rivals)], meets_again=turn % 5 == 0, told=own)
        arguments = evidence.arguments.get(clue.node, []) if clue.side == 0 else []
        right: list[Fact] = []
        speaks = clue.cause is Cause.ARGUMENT and clue.row < 0 and len(arguments) > 0
        if not speaks and clue.cause is not Cause.PART:
            right += _story(evidence, clue)
        right += own
        for each in arguments[:3]:
            debug, reference = shortened(each.npu, each.bench)
            right.append(fact("argument", name=each.name, own=debug, theirs=reference))
        if steps := loss_divided(evidence, clue):
            right.append(fact("micro_steps", own=steps[0], theirs=steps[1]))
        if clue.meets_again:
            right.append(fact("meets_again"))
        elif clue.rival:
            right.append(fact(f"rival.{clue.rival}"))
        if clue.row >= 0 and runs.by_sum[clue.row] and clue.error > 0:
            right.append(fact("size.of_checksums"))
        elif clue.error > 0 and clue.expected > 0 and clue.cause is not Cause.RANK:
            right.append(size_of(clue.error, clue.expected))
        assert evidence_of(evidence, clue) == right, clue
