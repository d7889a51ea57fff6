"""Parts of a tensor: what the whole is off by may all stand in one of them."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.outputs import of_outputs
from tests.builder.verdict.columns import Array, Run, compared, evidence_of, measured

SIZE, FEW, PLACE = 64, 4, 10
WHOLE = np.random.default_rng(1).normal(size=SIZE)
HERE = slice(PLACE, PLACE + FEW)
SURE = 7.0


def worn(several: slice, by: float) -> Array:
    """The tensor of a run whose update has moved some elements otherwise."""
    result = WHOLE.copy()
    result[several] *= 1 + by * np.random.default_rng(3).normal(size=len(result[several]))
    return result


def scores_of(whole: Array, part: Array, name: str = "Tensor.__getitem__.0.forward") -> list[float]:
    """Of clues at a part that is taken of a tensor, whose reference is the one above."""
    debug, reference = Run(), Run()
    for run, given, made in ((debug, whole, part), (reference, WHOLE, WHOLE[HERE])):
        run.call("Tensor.neg.0.forward", [measured(-given)], [measured(given)])
        run.call(name, [measured(given)], [measured(made)])
    evidence = evidence_of(compared(debug, reference))
    tree = evidence.runs.npu.tree
    return [
        one.score
        for one in of_outputs(evidence)
        if tree.names[one.node] == name and one.cause is Cause.OUTPUT and one.score > SURE
    ]


@pytest.mark.parametrize("by", [1e-5, 1e-3, 1e-2])
def test_a_part_in_which_all_differs_that_differs_is_no_clue(by: float) -> None:
    whole = worn(HERE, by)
    assert not scores_of(whole, whole[HERE])


def test_a_part_that_is_off_as_the_others_are_is_no_clue() -> None:
    whole = worn(slice(None), 1e-3)
    assert not scores_of(whole, whole[HERE])


def test_a_part_of_another_place_is_told() -> None:
    whole = worn(slice(None), 1e-3)
    assert scores_of(whole, whole[PLACE + FEW : PLACE + 2 * FEW])


def test_a_part_that_is_off_though_the_whole_agrees_is_told() -> None:
    assert scores_of(WHOLE, 1.001 * WHOLE[HERE])


def test_what_puts_out_all_that_it_is_given_has_no_such_excuse() -> None:
    whole = worn(HERE, 1e-3)
    assert scores_of(whole, 1.01 * whole[HERE], "Tensor.neg.1.forward")
