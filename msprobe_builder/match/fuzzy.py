"""The fuzzy rule: modules by name wherever they are, the calls inside them as sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Kind
from msprobe_builder.match.calls import (
    Tokens,
    completed,
    moved_calls,
    pair_calls,
    pair_collections,
    with_shapes,
)
from msprobe_builder.match.exact import available
from msprobe_builder.match.outline import Outline
from msprobe_builder.match.signature import agreeing, differing, equal_counts

Int = NDArray[np.int64]


def match_fuzzy(
    npu: Outline, bench: Outline, namesake: Int, fixed: Int, exact: Int, operation: Tokens
) -> Int:
    """Partner of each npu node by the fuzzy rule, around the matches that are fixed.

    Number and shapes of the parameters must agree, for calls only as far as both sides have
    parameters; types need not.
    """
    partner = fixed.copy()
    wanted = available(namesake, fixed, len(bench))
    i = np.flatnonzero((wanted >= 0) & (fixed < 0) & (npu.kind == Kind.MODULE))
    i = i[bench.kind[wanted[i]] == Kind.MODULE]
    i = i[equal_counts(npu.signatures, bench.signatures, i, wanted[i])]
    _, shape_differs = differing(npu.signatures, bench.signatures, i, wanted[i])
    i = i[~shape_differs]
    partner[i] = wanted[i]

    tokens = [with_shapes(npu, bench, operation), operation]
    partner = pair_calls(npu, bench, partner, exact, tokens)
    moved = moved_calls(npu, bench, partner, namesake)
    moved = moved[agreeing(npu.signatures, bench.signatures, moved, namesake[moved])]
    partner = completed(partner, namesake, moved, len(bench))
    calls = np.flatnonzero(npu.kind == Kind.API)
    partner = completed(partner, exact, calls, len(bench))
    return pair_collections(npu, bench, partner)
