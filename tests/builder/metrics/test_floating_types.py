"""Rounding and range of floating-point types, by the names of both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.floating import epsilons, lowest_numbers


@pytest.mark.parametrize(
    ("words", "epsilon"),
    [
        (("torch.float64", "Float64", "mindspore.float64"), 2.0**-52),
        (("torch.float32", "Float32", "torch.complex64", "Complex64"), 2.0**-23),
        (("torch.float16", "Float16", "torch.half"), 2.0**-10),
        (("torch.bfloat16", "BFloat16"), 2.0**-7),
        (("torch.float8_e4m3fn", "Float8E4M3FN"), 2.0**-3),
        (("torch.float8_e5m2", "Float8E5M2"), 2.0**-2),
        (("torch.int64", "Bool", "unheard of"), 2.0**-23),
    ],
)
def test_rounding_units_of_both_frameworks(words: tuple[str, ...], epsilon: float) -> None:
    texts = Texts()
    ids = np.array([*(texts.id(word) for word in words)])
    assert set(epsilons(ids, texts).tolist()) == {epsilon}
    assert epsilons(np.array([-1]), texts).tolist() == [2.0**-23]


def test_rounding_units_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    texts = Texts()
    for name in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        unit = torch.finfo(getattr(torch, name)).eps
        assert epsilons(np.array([texts.id(f"torch.{name}")]), texts).tolist() == [unit]


@pytest.mark.parametrize(
    ("words", "lowest"),
    [
        (("torch.float32", "Float32", "torch.float"), -3.4028234663852886e38),
        (("torch.float16", "Float16"), -65504.0),
        (("torch.bfloat16", "BFloat16"), -3.3895313892515355e38),
        (("torch.float8_e4m3fn", "Float8E4M3FN"), -448.0),
        (("torch.float8_e5m2", "Float8E5M2"), -57344.0),
        (("torch.int64", "Bool", "torch.complex64", "unheard of"), -np.inf),
    ],
)
def test_lowest_numbers_of_both_frameworks(words: tuple[str, ...], lowest: float) -> None:
    texts = Texts()
    ids = np.array([-1, *(texts.id(word) for word in words)])
    assert lowest_numbers(ids, texts).tolist() == [-np.inf, *[lowest] * len(words)]


def test_lowest_numbers_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    texts = Texts()
    types = "float64 float32 float16 bfloat16 float8_e4m3fn float8_e4m3fnuz".split()
    for name in (*types, "float8_e5m2", "float8_e5m2fnuz"):
        lowest = torch.finfo(getattr(torch, name)).min
        assert lowest_numbers(np.array([texts.id(f"torch.{name}")]), texts).tolist() == [lowest]
