"""How much more of the errors of its factors is left in a product than in one of any factors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

CLIP = 10.0  # the largest amplification by cancellation that is believed
_CANCELS = 100.0  # the same of what products put out
_PLACES = 8  # of the inputs of a product


def cancelling(seen: Observations, inputs: Int, outputs: Int, node: Int, products: Bool) -> Float:
    """By output of ``products`` the length of one of unrelated operands over its own.

    ``node`` is that of each row.
    """
    factors, elements = np.zeros((2, len(products)))
    first = inputs[products[node[inputs]] & (seen.norm[inputs] > 0)]
    # Of the two largest operands; a bias adds little.
    order = first[np.lexsort((-seen.elements[first], node[first]))]
    turn = np.arange(len(order)) - np.searchsorted(node[order], node[order])
    for row_set in (order[turn == 0], order[turn == 1]):
        factors[node[row_set]] += np.log(seen.norm[row_set])
        elements[node[row_set]] += np.log(seen.elements[row_set])
    pairs = np.zeros(len(products), dtype=bool)
    pairs[node[order[turn == 1]]] = True
    made = node[outputs]
    inner = (elements[made] - np.log(seen.elements[outputs])) / 4  # √√(nₐ·n_b/n): of ‖a‖‖b‖/√k
    with np.errstate(all="ignore"):
        ratio = np.exp(factors[made] - inner - np.log(seen.norm[outputs]))
    return np.where(pairs[made], np.clip(np.nan_to_num(ratio, nan=1.0), 1.0, _CANCELS), 1.0)


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
    table = runs.npu.table
    out = outputs[table.position[outputs] < 2]
    node = table.node[out]
    twin, back = runs.npu.calls.twin[node], runs.backward[node]
    asked = np.zeros(len(runs.npu.tree), dtype=bool)
    asked[node], asked[twin[twin >= 0]] = True, True
    place = np.cumsum(asked) - 1  # of those that are asked for
    given = inputs[asked[table.node[inputs]] & (table.position[inputs] < _PLACES)]
    given = given[seen.norm[given] > 0]
    factor = np.full((int(asked.sum()), _PLACES), -1, dtype=np.int32)
    factor[place[table.node[given]], table.position[given]] = given
    second = np.where(back, twin, node), np.where(back, 1 - table.position[out], 1)
    one, two = factor[place[node], 0], factor[place[second[0]], second[1]]
    told = np.flatnonzero((one >= 0) & (two >= 0) & (~back | (twin >= 0)))
    return out[told], one[told].astype(np.int64), two[told].astype(np.int64)
