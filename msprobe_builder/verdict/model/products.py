"""How much more of the errors of its factors is left in a product than in one of any factors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Float = NDArray[np.float64]

CLIP = 10.0  # the largest amplification by cancellation that is believed
_CANCELS = 100.0  # the same of what products put out
_PLACES = 8  # of the inputs of a product


def cancelling(seen: Observations, inputs: Int, node: Int, size: int) -> Float:
    """By row the length of a product of operands without a common direction over its own."""
    factors = np.zeros(size)
    elements = np.zeros(size)
    first = inputs[seen.norm[inputs] > 0]
    # Of the two largest operands; a bias adds little.
    order = first[np.lexsort((-seen.elements[first], node[first]))]
    turn = np.arange(len(order)) - np.searchsorted(node[order], node[order])
    for row_set in (order[turn == 0], order[turn == 1]):
        factors[node[row_set]] += np.log(seen.norm[row_set])
        elements[node[row_set]] += np.log(seen.elements[row_set])
    pairs = np.zeros(size, dtype=bool)
    pairs[node[order[turn == 1]]] = True
    inner = (elements[node] - np.log(seen.elements)) / 4  # √√(nₐ·n_b/n): of ‖a‖‖b‖/√k
    with np.errstate(all="ignore"):
        ratio = np.exp(factors[node] - inner - np.log(seen.norm))
    return np.where(pairs[node], np.clip(np.nan_to_num(ratio, nan=1.0), 1.0, _CANCELS), 1.0)


Factors = tuple[Int, Int, Int]


def cancelling_back(runs: Runs, factors: Factors, seen: Observations) -> Float:
    """The same of gradients: of what came in, and the other factor of the forward call."""
    back = runs.backward[runs.npu.table.node[factors[0]]]
    out, one, two = (rows[back] for rows in factors)
    result = np.ones(len(runs.npu.table))
    with np.errstate(all="ignore"):
        inner = np.sqrt(np.sqrt(seen.elements[one] * seen.elements[two] / seen.elements[out]))
        ratio = seen.norm[one] * seen.norm[two] / inner / seen.norm[out]
    result[out] = np.clip(np.nan_to_num(ratio, nan=1.0), 1.0, CLIP)
    return result


def uneven(runs: Runs, factors: Factors, seen: Observations) -> Float:
    """By row how many times shorter a product by elements is than one of unrelated factors.

    Large elements of one factor then meet small ones of the other, whose errors weigh more.
    """
    out, one, two = factors
    result = np.ones(len(runs.npu.table))
    with np.errstate(all="ignore"):
        ratio = seen.rms[one] * seen.rms[two] / seen.rms[out]
    result[out] = np.clip(np.nan_to_num(ratio, nan=1.0), 1.0, CLIP)
    return result


def factors_of(runs: Runs, inputs: Int, outputs: Int, seen: Observations) -> Factors:
    """Rows of products and of their gradients, and of the two factors of each."""
    table, size = runs.npu.table, len(runs.npu.tree)
    factor = np.full(size * _PLACES, -1)
    given = inputs[(table.position[inputs] < _PLACES) & (seen.norm[inputs] > 0)]
    factor[table.node[given] * _PLACES + table.position[given]] = given
    out = outputs[table.position[outputs] < 2]
    node = table.node[out]
    twin, back = runs.npu.calls.twin[node], runs.backward[node]
    second = np.where(back, twin * _PLACES + 1 - table.position[out], node * _PLACES + 1)
    one, two = factor[node * _PLACES], factor[second]
    told = np.flatnonzero((one >= 0) & (two >= 0) & (~back | (twin >= 0)))
    return out[told], one[told], two[told]
