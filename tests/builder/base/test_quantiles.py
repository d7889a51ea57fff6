"""Quantiles against those of numpy, and that nothing of numpy is loaded to tell them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder.base.quantiles import median, quantile

_ALONE = """
import sys
import numpy as np
from msprobe_builder.base.quantiles import median, quantile
median(np.ones(9)), quantile(np.ones(9), 0.25)
sys.exit("numpy.ma" in sys.modules)
"""


def _values(seed: int) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 60))
    powers = 10.0 ** random.integers(-300, 300, size).astype(np.float64)
    kinds = (random.normal(size=size), powers, np.ones(size))
    values = kinds[seed % 3]
    special = (np.inf, -np.inf, np.nan, 0.0)[seed % 4]
    values[random.random(size) < 0.1 * (seed % 2)] = special
    return values


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("share", [0.0, 0.05, 0.25, 0.5, 0.9, 0.95, 1.0])
def test_quantiles_are_those_of_numpy(share: float) -> None:
    """To the last digit, also where values are infinite or no numbers."""
    for seed in range(200):
        values = _values(seed)
        np.testing.assert_equal(quantile(values, share), np.quantile(values, share))
        np.testing.assert_equal(median(values), np.median(values))


def test_nothing_has_no_quantile() -> None:
    """NaN, as nothing is known."""
    assert np.isnan([quantile(np.empty(0), 0.25), median(np.empty(0))]).all()


def test_numpy_loads_nothing_for_it() -> None:
    """Its masked arrays take 10 ms, which is a hundredth of a build."""
    assert subprocess.run([sys.executable, "-c", _ALONE], check=False).returncode == 0
