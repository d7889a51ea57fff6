"""What rounding once to bfloat16 does to the norm of a weight, and a factor beside it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.verdict.differences.weights import errors_of_weights

Float = NDArray[np.float64]

UNIT = 2.0**-7
LINES, ELEMENTS = 16, 256


def _rounded(values: Float, way: str) -> Float:
    """To eight binary digits: to the nearest number, or towards zero."""
    digits, exponent = np.frexp(values)
    cut = np.round(digits * 256) if way == "nearest" else np.trunc(digits * 256)
    return np.asarray(np.ldexp(cut / 256, exponent))


def _table(weights: list[Float], kind: str, texts: Texts) -> ParameterTable:
    count = len(weights)
    whole = np.zeros(count, dtype=np.int64)
    statistics = [[one.max(), one.min(), one.mean(), np.linalg.norm(one)] for one in weights]
    return ParameterTable(
        node=np.arange(count),
        ordinal=whole,
        section=whole + Section.PARAMETERS,
        position=whole,
        is_tensor=np.ones(count, dtype=bool),
        name_id=whole + texts.id("weight"),
        type_id=whole + texts.id("torch.Tensor"),
        dtype_id=whole + texts.id(kind),
        shape_id=whole + texts.id(str(list(weights[0].shape))),
        value_id=whole - 1,
        requires_grad=whole + 1,
        missing=whole,
        statistics=np.array(statistics, dtype=np.float64).T,
        numel=np.array([float(one.size) for one in weights]),
        md5={},
        file={},
    )


def _errors(own: list[Float], theirs: list[Float], kind: str = "torch.bfloat16") -> Float:
    texts = Texts()
    bench = _table(theirs, "torch.float32", texts)
    npu = _table(own, kind, texts)
    every = np.arange(len(own))
    return errors_of_weights(npu, bench, every, np.zeros(len(own), dtype=bool), texts)


def _weights(seed: int) -> list[Float]:
    random = np.random.default_rng(seed)
    return [random.normal(size=ELEMENTS) * 0.1 for _ in range(LINES)]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=4),
    st.sampled_from(["nearest", "towards zero"]),
)
def test_no_rounding_makes_an_error(seed: int, few: list[float], way: str) -> None:
    """Not of a weight of one number, or of few, whose elements all round in one direction."""
    weights = [*_weights(seed), np.resize(np.array(few), ELEMENTS)]
    errors = _errors(
        [_rounded(one, "nearest") for one in weights[:-1]] + [_rounded(weights[-1], way)], weights
    )
    assert not errors.any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.9, 0.98, 0.99, 1.01, 1.02, 1.1]))
def test_a_factor_makes_as_many_errors_as_the_root_of_its_elements(
    seed: int, factor: float
) -> None:
    weights = _weights(seed)
    own = [_rounded(one, "nearest") for one in weights]
    own[3] = _rounded(weights[3] * factor, "nearest")
    errors = _errors(own, weights)
    assert np.flatnonzero(errors).tolist() == [3]
    # Half a unit over √n is what rounding does; the factor is rounded, too.
    assert errors[3] == pytest.approx(2 * abs(factor - 1) * np.sqrt(ELEMENTS), rel=0.1)


def test_nothing_is_told_where_most_weights_went_their_own_way() -> None:
    weights = _weights(1)
    own = [
        _rounded(one * (1.003 if turn % 2 else 1.0), "nearest") for turn, one in enumerate(weights)
    ]
    own[0] = _rounded(weights[0] * 1.02, "nearest")
    assert not _errors(own, weights).any()


def test_nor_where_both_sides_are_of_one_type() -> None:
    weights = _weights(2)
    own = [*weights[:-1], weights[-1] * 1.02]
    assert not _errors(own, weights, "torch.float32").any()


def test_nor_of_norms_that_were_rounded_themselves() -> None:
    """A recorder that keeps its numbers in the tensor's type tells no more of them than that."""
    texts = Texts()
    random = np.random.default_rng(3)
    weights = [random.normal(size=64 * ELEMENTS) * 0.1 for _ in range(LINES)]
    own = [_rounded(one, "nearest") for one in weights]
    own[0] = _rounded(weights[0] * 1.009, "nearest")
    bench, npu = _table(weights, "torch.float32", texts), _table(own, "torch.bfloat16", texts)
    npu.statistics[:] = _rounded(npu.statistics, "nearest")
    every = np.arange(LINES)
    assert not errors_of_weights(npu, bench, every, np.zeros(LINES, dtype=bool), texts).any()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sets(st.integers(0, LINES - 1), max_size=3),
    st.sets(st.integers(0, LINES - 1), max_size=8),
    st.sets(st.integers(0, LINES - 1), max_size=8),
)
def test_only_pairs_of_one_size_and_of_known_norms_are_judged(
    seed: int, off: set[int], resized: set[int], unknown: set[int]
) -> None:
    """The others count neither as rounded nor as errors; of fewer than six nothing is told."""
    weights = _weights(seed)
    own = [
        _rounded(one * (1.05 if place in off else 1.0), "nearest")
        for place, one in enumerate(weights)
    ]
    theirs = [one[::2] if place in resized else one for place, one in enumerate(weights)]
    texts = Texts()
    bench, npu = _table(theirs, "torch.float32", texts), _table(own, "torch.bfloat16", texts)
    npu.statistics[3, sorted(unknown)] = np.nan
    errors = errors_of_weights(npu, bench, np.arange(LINES), np.zeros(LINES, dtype=bool), texts)
    judged = set(range(LINES)) - resized - unknown
    wrong = off & judged
    found = set(np.flatnonzero(errors).tolist())
    tells = len(judged) >= 6 and len(wrong) <= len(judged) / 4
    # Of a hundred weights or so one is rounded further than usual, and may count as off as well.
    may_not_tell = len(wrong) + 1 > len(judged) / 4
    assert found == (wrong if tells else set()) or (may_not_tell and not found)
