"""A loss that each side divides by the micro-steps it makes.

Gradients add up over the passes of a step, so that a script divides by their number, or multiplies
by its inverse. With another number of passes, as where two replicas share them, that is no fault;
what it puts out differs all the same, and so does everything behind it. A script does that to the
loss, which is one number and outside of all modules: a factor inside of one knows no passes.
"""

from __future__ import annotations

from math import isclose

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import tensors_of
from msprobe_builder.graph.tree import is_outside_of_modules
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.runs import Runs

_SAME = 1e-6  # two spellings of one number


def loss_divided(evidence: Evidence, clue: Clue) -> tuple[int, int] | None:
    """The micro-steps of both sides where all that differs of a call goes with them."""
    runs = evidence.runs
    debug, reference = runs.npu.tree.micro_steps, runs.bench.tree.micro_steps
    several = evidence.arguments.get(clue.node, []) if clue.side == 0 else []
    if debug == reference or not several or not _is_of_a_loss(runs, clue.node):
        return None
    operator = operator_of(runs.npu.tree.parsed[clue.node].stem).name
    due = {"div": debug / reference, "mul": reference / debug}.get(operator)
    if due is None:
        return None
    for one in several:
        try:
            ratio = float(one.npu) / float(one.bench)
        except (ValueError, ZeroDivisionError):
            return None
        if not isclose(ratio, due, rel_tol=_SAME):
            return None
    return debug, reference


def _is_of_a_loss(runs: Runs, node: int) -> bool:
    """Whether a call outside of all modules puts out one number."""
    table = runs.npu.table
    rows = tensors_of(table, node, Section.OUTPUT)
    one_number = len(rows) > 0 and bool((table.numel[rows] == 1).all())
    return one_number and is_outside_of_modules(runs.npu.tree, node)
