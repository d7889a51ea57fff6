"""Products of single precision whose operands the hardware rounds to fewer digits.

Matrix units take numbers of float32 rounded to 10 bits (TF32) or 11 (HF32). For convolutions and
recurrent layers that is the default of CUDA and of Ascend, for other products a switch. An error of
that size at such a call is rounding, provided that it looks like the habit of the run: convolutions
that are too small go the other way, so that of these one is enough, unless most are equal to the
last digit, as where both runs use the same kernels. What is made of them is off by as much.
"""

from __future__ import annotations

from msprobe_builder.facts.fact import fact
from msprobe_builder.operators.table import operator_of

# What such an operand is rounded by on average, times two of them; suspicious is eight times that,
# twice the largest error that was seen on an H100.
REDUCED = 2.0**-12
# By switch what its products are called; that of the first two is the default of the hardware.
PRODUCTS = (fact("product.convolutions"), fact("product.recurrent"), fact("product.matrix"))


def switch_of(stem: str) -> int:
    """Which switch of the hardware governs a product: of convolutions, recurrent layers, others."""
    traits = operator_of(stem).traits
    if "convolution" in traits:
        return 0
    return 1 if "recurrent" in traits else 2
