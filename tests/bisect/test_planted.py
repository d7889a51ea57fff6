"""The bank of searches: planted causes end at the culprit, correct pairs at "no fault".

All of it is slow; continuous integration tries one of each, which the commit chooses.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from msprobe_bisect.runs import Budget
from msprobe_bisect.stages import Found, Round, concluded, verdict_of
from msprobe_bisect.traces import Part, Parting
from msprobe_builder.facts.fact import has_code
from tests.bisect.training import IN_TWO, reproduced, searched, settled
from tests.shares import head


class Cause(NamedTuple):
    """What a search has to end with; ``said`` is part of the sentence."""

    step: int
    culprit: str
    proof: str | None = None
    said: str = ""
    more: str = ""
    how: str = ""


CAUSES = {
    # Kernels, which are proven and reproduced.
    "gelu": Cause(0, "Functional.gelu.0", "operator"),
    "gelu_backward": Cause(0, "Functional.gelu.1", "operator"),
    "late": Cause(3, "Functional.gelu.1", "operator"),
    "softmax": Cause(0, "Functional.softmax.0", "operator"),
    "layer_norm": Cause(0, "Functional.layer_norm.0", "operator"),
    # Less than half precision shows: each call is run again.
    "hidden": Cause(0, "Functional.gelu.0", "operator", more="half"),
    # Arguments, those of another commit among them.
    "argument": Cause(0, "Tensor.__mul__.1", "argument"),
    "eps": Cause(0, "Functional.layer_norm.3", "argument"),
    "dim": Cause(0, "Functional.softmax.1", "argument"),
    "commit": Cause(0, "Functional.gelu.0", "argument"),
    # Wiring.
    "wiring": Cause(
        0, "Module.layers.0.second.LayerNorm.forward.1", said="The reference has no such call"
    ),
    "skipped": Cause(0, "Tensor.__add__.3.forward", said="Module.layers.1"),
    # What goes in.
    "data": Cause(2, "data", said="other data"),
    "labels": Cause(1, "Functional.cross_entropy.0"),
    "weights": Cause(0, "weights", said="layers.1.up.weight"),
    # The optimizer and what stands before and behind it.
    "rate": Cause(2, "settings", said="lr of group 0 is 0.0005, 0.00081 in the reference"),
    "betas": Cause(0, "settings", said="betas of group 0"),
    "schedule": Cause(1, "settings", said="lr of group 0 is 0.0005, 0.0009 in the reference"),
    "update": Cause(1, "update", said="head.weight"),
    "clip": Cause(0, "gradients", said="such as clipping or scaling"),
    "scaled": Cause(1, "gradients", said="such as clipping or scaling"),
    "reduction": Cause(1, "gradients", said="of rank 1", how=IN_TWO),
    "region": Cause(0, "layers.1", "compiler", said="Functional.gelu", more="compiled"),
}
PAIRS = {
    "the same": ("none", ""),
    "other kernels": ("kernels", ""),
    "other kernels in half precision": ("kernels", "half"),
    "products written out": ("written", ""),
    "products written out in half precision": ("written", "half"),
    "compiled": ("none", "compiled"),
}


def told_of_a_part(search: Path) -> Found:
    """What is found where the last record held some modules alone."""
    databases = [search / "calls.vis.db", search / "tensors1.vis.db"]
    sides = {side: search / "tensors1" / side for side in ("npu", "bench")}
    rounds = [Round(verdict_of(one), one, sides) for one in databases]
    return concluded(Parting(Part.VALUES), rounds, (), lambda _: None, Budget())


def rotating(names: Iterable[str]) -> list[Any]:
    """All of them slow but one."""
    names = list(names)
    chosen = int(head(), 16) % len(names)
    marks = [pytest.mark.repeated if at == chosen else pytest.mark.slow for at in range(len(names))]
    return [pytest.param(one, marks=mark) for one, mark in zip(names, marks, strict=True)]


@pytest.mark.parametrize("plant", rotating(CAUSES))
def test_a_search_ends_at_the_culprit(
    plant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(tmp_path, monkeypatch)
    cause = CAUSES[plant]
    status, found = searched(plant, more=cause.more, how=cause.how)
    assert (status, found["conclusion"]) == (4, "fault"), found
    assert found["step"] == cause.step, found
    assert cause.culprit in found["culprit"], found
    assert cause.said in found["sentence"], found
    if cause.proof is not None:
        assert found["proof"] == cause.proof, found
    assert reproduced() == {"npu": 1, "bench": 0}


@pytest.mark.parametrize("pair", rotating(PAIRS))
def test_a_correct_pair_is_not_accused(
    pair: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(tmp_path, monkeypatch)
    plant, more = PAIRS[pair]
    status, found = searched(plant, more=more)
    assert (status, found["conclusion"]) == (0, "clean"), found
    if pair == "products written out in half precision":  # which hides too much to be compared
        assert "each call of step 0 is right for what it is given, in both" in found["sentence"]
        assert "would have shown in 95 of 100" in found["sentence"], found
        part = told_of_a_part(tmp_path / "search")
        assert (part.conclusion, has_code(part.told, "bisect.each_right")) == ("undecided", False)
    assert not (tmp_path / "search" / "reproduce.py").exists()
