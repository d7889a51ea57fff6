"""What a norm tells of errors that have nothing in common with the tensor."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.verdict.differences.hidden import largest_unseen
from msprobe_builder.verdict.findings import SUSPICIOUS


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([16, 64, 500, 4096]),
    st.floats(1e-6, 8.0),
    st.sampled_from(["normal", "uniform", "few large"]),
)
def test_no_such_error_is_larger(seed: int, elements: int, size: float, kind: str) -> None:
    random = np.random.default_rng(seed)
    tensor = random.normal(size=elements)
    if kind == "uniform":
        tensor = random.random(elements)
    elif kind == "few large":
        tensor[: elements // 8] *= 30
    error = np.abs(tensor) * random.normal(size=elements)  # as rounding is, up as often as down
    error *= size * np.linalg.norm(tensor) / np.linalg.norm(error)
    apart = abs(float(np.linalg.norm(tensor + error) / np.linalg.norm(tensor)) - 1)
    bound = float(largest_unseen(np.array(apart), np.array(float(elements))))
    assert size <= (bound if kind != "few large" else SUSPICIOUS * bound)


def test_a_tensor_that_agrees_holds_little() -> None:
    assert largest_unseen(np.array(0.0), np.array(4096.0)) < 0.1
    assert largest_unseen(np.array(0.0), np.array(2.0**20)) < 0.006
    assert largest_unseen(np.array(0.01), np.array(2.0**20)) < 0.3
