"""Who seeds is recorded, and the words name what differs most."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from msprobe_builder.configuration.compare import compare_packs
from msprobe_builder.configuration.conclusion import conclusion
from msprobe_builder.configuration.pack import read_pack
from msprobe_collector import ConfigChecker
from tests.checks.configuration.test_configuration import pack_of, said, said_of, train


@pytest.mark.parametrize(
    ("seed", "name"),
    [
        (lambda: torch.manual_seed(5), "torch.manual_seed(5)"),
        (lambda: torch.manual_seed(seed=5), "torch.manual_seed(5)"),
        (lambda: torch.cuda.manual_seed_all(5), "torch.cuda.manual_seed_all(5)"),
        (lambda: random.seed(5), "random.seed(5)"),
        (lambda: np.random.seed(5), "numpy.random.seed(5)"),
        (lambda: random.seed("five"), "random.seed"),
    ],
)
def test_a_call_that_seeds_is_missed_where_it_is_removed(
    tmp_path: Path, seed: Callable[[], object], name: str
) -> None:
    for pack, is_seeded in (("a.zip", True), ("b.zip", False)):
        ConfigChecker.apply_patches()
        if is_seeded:
            seed()
        ConfigChecker(None, [], tmp_path / pack)
    a, b = (read_pack(tmp_path / one) for one in ("a.zip", "b.zip"))
    comparison = compare_packs(a, b)
    [sheet] = [one for one in comparison.sheets if one.name == "random"]
    assert sheet.outcome == "error"
    words = said(sheet.first)
    assert f"look at this first: {words}" in said(conclusion(comparison))
    assert f"{name} is called 0 times against 1" in words
    assert Path(__file__).name in words


def test_another_seed_is_another_call(tmp_path: Path) -> None:
    train(tmp_path / "a.zip", 0)
    train(tmp_path / "c.zip", 1)
    a, c = (read_pack(tmp_path / one) for one in ("a.zip", "c.zip"))
    [sheet] = [one for one in compare_packs(a, c).sheets if one.name == "random"]
    names = {one.name for one in sheet.differences}
    assert names == {"torch.manual_seed(0) of rank 0", "torch.manual_seed(1) of rank 0"}


@pytest.mark.parametrize(
    ("variables", "options"),
    [
        ({"NCCL_ALGO": "Tree"}, {"seed": 2, "lr": 0.2, "dropout": 0.6}),
        ({"NCCL_ALGO": "Tree"}, {"seed": 2, "lr": 0.2}),
        ({}, {"seed": 2, "lr": 0.2, "dropout": 0.6}),
        ({"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL"}, {"seed": 2}),
        ({}, {"lr": 0.2}),
        ({"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL"}, {"seed": 2, "lr": 0.2, "dropout": 0.6}),
    ],
)
def test_the_first_three_settings_that_differ_stand_in_the_conclusion(
    tmp_path: Path, variables: dict[str, str], options: dict[str, float]
) -> None:
    """Of all parts, not of the first that has one."""
    usual = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
    defaults: dict[str, float] = {"seed": 1, "lr": 0.1, "dropout": 0.5}

    def script(exported: dict[str, str], given: dict[str, float]) -> str:
        exports = " ".join(f"{name}={value}" for name, value in exported.items())
        words = " ".join(f"--{name} {value}" for name, value in given.items())
        return f"export {exports}\npython a.py {words}\n"

    bench = pack_of(tmp_path, "bench", script(usual, defaults))
    other = pack_of(tmp_path, "other", script(usual | variables, defaults | options))
    words = said_of(bench, other)
    said_first = [
        f"{name} is '{value}' against '{usual[name]}'" for name, value in variables.items()
    ]
    said_first += [f"{name} is '{value}' against" for name, value in options.items()]
    assert sum(one in words for one in said_first) == min(3, len(said_first))
    more = len(said_first) - 3
    assert (f"and {more} more" in words) if more > 0 else (" more" not in words)
    assert not variables or any(one in words for one in said_first[: len(variables)])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"mean": 8.5e-9, "norm": 4.4}, "its norm is 4.4 against 4"),
        ({"mean": -1e-8, "max": 1.5}, "its max is 1.5 against 1"),
        ({"mean": 3e-9, "min": -1.25}, "its min is -1.25 against -1"),
        ({"mean": 1e-7, "norm": 2.0}, "its norm is 2 against 4"),
        ({"mean": 0.5, "norm": 4.4}, "its mean is 0.5 against 1e-09"),
    ],
)
def test_a_mean_near_zero_is_not_what_differs_most(
    tmp_path: Path, changed: dict[str, float], words: str
) -> None:
    numbers = {"max": 1.0, "min": -1.0, "mean": 1e-9, "norm": 4.0, "shape": [4]}
    for pack, here in (("a.zip", {}), ("b.zip", changed)):
        content = {"w": {**numbers, **here}}
        with zipfile.ZipFile(tmp_path / pack, "w") as target:
            target.writestr("weights/step0/rank0/weight.json", json.dumps(content))
    a, b = (read_pack(tmp_path / one) for one in ("a.zip", "b.zip"))
    [sheet] = compare_packs(a, b).sheets
    assert said(sheet.first) == f"w of micro-step 0, rank 0 differs: {words}"
