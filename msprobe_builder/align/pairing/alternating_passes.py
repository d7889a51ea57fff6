"""Rounds of forward and backward that are no micro-steps, for each does something else.

Micro-steps repeat the same work, and the first of one side is the first of the other. A network
that is trained against another one goes back once for each loss: one author for what is real and
what is made apart, another one for both at once. Such rounds are one sequence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.dump.names import Kind

Float = NDArray[np.float64]

_ALIKE = 0.5  # least share of the weights of the larger round


def in_one_round(npu: Traits, bench: Traits) -> tuple[Traits, Traits]:
    """The sides with all rounds as one, unless each side repeats its own or those of both agree."""
    debug, reference = _work(npu), _work(bench)
    repeat = _near(debug, np.ones_like(debug)) and _near(reference, np.ones_like(reference))
    if repeat or (len(debug) == len(reference) and _near(debug, reference)):
        return npu, bench
    return _joined(npu), _joined(bench)


def _near(some: Float, others: Float) -> bool:
    return bool((np.minimum(some, others) >= _ALIKE * np.maximum(some, others)).all())


def _work(side: Traits) -> Float:
    """By round with weights how many its modules have, each call counted, relative to the first."""
    tree = side.outline.tree
    modules = np.flatnonzero(side.forward & (side.outline.kind == Kind.MODULE))
    weights = side.parameters.numel[modules]
    result = np.bincount(tree.micro_step[modules], weights=weights, minlength=tree.micro_steps)
    result = result[result > 0]
    return np.asarray(result / result[:1])


def _joined(side: Traits) -> Traits:
    tree = side.outline.tree
    one = replace(tree, micro_step=np.zeros_like(tree.micro_step), micro_steps=1)
    return replace(side, outline=replace(side.outline, tree=one))
