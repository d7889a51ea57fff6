"""md5 mode: whether the checksums of two tensors agree.

Recorders make them in two ways: eight hexadecimal digits of a CRC-32, and ``0x`` with sixteen of an
exclusive or. Whether two of different kinds are of equal tensors nobody knows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.pairing import Pairs

UNKNOWN = -1


def is_in_any_order(checksum: str) -> bool:
    """Whether it is made by exclusive or, which comes to the same in any order of the words."""
    return checksum.startswith("0x")


def equal_checksums(npu: ParameterTable, bench: ParameterTable, pairs: Pairs) -> NDArray[np.int8]:
    """1 where they are equal, 0 where they differ, -1 where either side has none."""
    result = np.full(len(pairs), UNKNOWN, dtype=np.int8)
    if not npu.md5 or not bench.md5:
        return result
    for position, (row, other) in enumerate(
        zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True)
    ):
        of_npu, of_bench = npu.md5.get(row), bench.md5.get(other)
        if of_npu and of_bench and is_in_any_order(of_npu) == is_in_any_order(of_bench):
            result[position] = of_npu.lower() == of_bench.lower()
    return result
