"""Products of single precision whose operands the hardware rounds to fewer digits.

Matrix units take numbers of float32 rounded to 10 bits (TF32) or 11 (HF32). For convolutions and
recurrent layers that is the default of CUDA and of Ascend, for other products a switch. An error of
that size at such a call is rounding, provided that it looks like the habit of the run: convolutions
that are too small go the other way, so that of these one is enough, unless most are equal to the
last digit, as where both runs use the same kernels. What is made of them is off by as much.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.calls import Calls
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.habits import Seen
from msprobe_builder.verdict.findings import SUSPICIOUS

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

# What such an operand is rounded by on average, times two of them; suspicious is eight times that,
# twice the largest error that was seen on an H100.
REDUCED = 2.0**-12
# Gradients of weights are sums that may cancel, which the rounding of their operands does not.
REDUCED_GRADIENTS = 4.0 * REDUCED


@dataclass(frozen=True)
class _Kind:
    """Operators that one switch governs, and what they are called."""

    told: Fact
    is_default: bool  # whether the hardware does it unless told otherwise


_OTHERS = _Kind(fact("product.matrix"), is_default=False)
_KINDS = (
    _Kind(fact("product.convolutions"), is_default=True),
    _Kind(fact("product.recurrent"), is_default=True),
    _OTHERS,
)


def reduced_products(
    calls: Calls, is_product: Bool, seen: Seen, told: Collection[int]
) -> tuple[Bool, list[Fact]]:
    """The calls whose operands were rounded so, and what they are called.

    ``is_product`` are all products, modules where nothing else was recorded; ``told`` are calls
    whose arguments differ, of which nothing is learnt and nothing excused.
    """
    is_forward = calls.direction == Direction.FORWARD
    number = np.where(is_product, calls.of_stems(switch_of), -1)
    number[list(told)] = -1
    with np.errstate(invalid="ignore"):
        agrees = (number >= 0) & (seen.given <= SUSPICIOUS * seen.floor)
        fine = agrees & (seen.put_out <= SUSPICIOUS * seen.floor)
        limit = np.where(is_forward, REDUCED, REDUCED_GRADIENTS)
        coarse = agrees & ~fine & (seen.put_out <= SUSPICIOUS * limit)
    is_equal = agrees & is_forward & (seen.put_out == 0)
    found, names = np.zeros(len(number), dtype=bool), []
    for place, kind in enumerate(_KINDS):
        of_kind = number == place
        many, few = (int(np.count_nonzero(of_kind & one)) for one in (coarse, fine))
        equal, all_there = (
            np.count_nonzero(of_kind & one) for one in (is_equal, agrees & is_forward)
        )
        is_likely = kind.is_default and 2 * equal <= all_there
        if many and (is_likely or many >= few):
            found |= of_kind
            names.append(kind.told)
    return found, names


def made_of(npu: Part, is_reduced: Bool, producer: Int) -> Bool:
    """The rows that such products are behind: of calls given what these put out, and gradients."""
    table, calls = npu.table, npu.calls
    node_of, made_by = table.node.tolist(), producer.tolist()
    reached = is_reduced.tolist()
    for _ in range(2):  # what a module puts out stands before the calls in it that make it
        for node, row in zip(node_of, made_by, strict=True):
            if row >= 0 and reached[node_of[row]]:
                reached[node] = True
    behind = np.arange(len(reached)) > int(np.argmax(is_reduced))
    found = np.array(reached) | (behind & (calls.direction == Direction.BACKWARD))
    return np.asarray(found[table.node])


def switch_of(stem: str) -> int:
    """Which switch of the hardware governs a product: of convolutions, recurrent layers, others."""
    traits = operator_of(stem).traits
    if "convolution" in traits:
        return 0
    return 1 if "recurrent" in traits else 2
