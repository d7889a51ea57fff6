"""md5 mode: whether the checksums of two tensors agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.pairing import Pairs

UNKNOWN = -1


def equal_checksums(npu: ParameterTable, bench: ParameterTable, pairs: Pairs) -> NDArray[np.int8]:
    """1 where they are equal, 0 where they differ, -1 where either side has none."""
    result = np.full(len(pairs), UNKNOWN, dtype=np.int8)
    if not npu.md5 or not bench.md5:
        return result
    for position, (row, other) in enumerate(
        zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True)
    ):
        own, theirs = npu.md5.get(row), bench.md5.get(other)
        if own and theirs:
            result[position] = own.lower() == theirs.lower()
    return result
