"""Norms that each rank takes of its own gradients: no fault, unless somebody planted one."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from merge_truth import OTHER_SPLITS, SPLITS
from tests.builder.merge.gradient_norms import NOBODY, Fault, with_fault
from tests.builder.merge.test_verdict_of_splits import judge
from tests.cases import REPEATED, tried_first

SPLIT = {one.name: one for one in (*SPLITS, *OTHER_SPLITS)}
NAMES = (
    *("megatron_tp2pp1dp2", "uneven_tp1pp4", "megatron_tp2pp2"),
    *("megatron_tp1pp2vpp2", "megatron_tp1pp2", "megatron_tp2pp1", "recompute_tp2pp2sp"),
)
# Each fault and each of three ways to split is tried by make test.
TRIED = {
    *(("norm", "megatron_tp2pp2"), ("gradient", "uneven_tp1pp4")),
    *(("left out", "megatron_tp2pp1dp2"), ("sum", "uneven_tp1pp4")),
}


def larger(value: float) -> float:
    return value * 1.05


# What is said of a fault on a rank; the call of it, where that is not numbered by the split.
FAULTS = {
    "norm": (Fault(0, 1, norm=larger), "output.0 is not what follows from"),
    "gradient": (Fault(0, 1, gradient=larger), "a norm of no gradient like input.0"),
    "left out": (Fault(0, left_out=1), "output.0 is not what follows from"),
    "sum": (Fault(0, total=larger), "output.0 is not what follows from"),
}


def judged(name: str, fault: Fault, dumps: Path, folder: Path) -> list[tuple[str, str]]:
    """What the verdict says of the split with a fault on its last rank."""
    split = SPLIT[name]
    rank = split.layout["rank_size"] - 1
    own = Fault(rank, **{k: v for k, v in vars(fault).items() if k != "rank"})
    changed = with_fault(dumps / name, folder / "dump", NOBODY if fault is NOBODY else own)
    return judge(split, changed, dumps / split.truth, folder / "out")


@pytest.mark.parametrize("name", [*tried_first(NAMES[:3], 2, REPEATED), *tried_first(NAMES[3:], 0)])
def test_without_a_fault_all_norms_are_explained(name: str, dumps: Path, tmp_path: Path) -> None:
    """The numbers of the script, computed anew, are those that it computed."""
    found = judged(name, NOBODY, dumps, tmp_path)
    assert {conclusion for conclusion, _ in found} == {"clean"}
    assert "Each rank takes norms of its own parameters" in found[0][1]


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        pytest.param(
            *one,
            marks=() if one in TRIED else REPEATED if one[1] in NAMES[:3] else pytest.mark.slow,
        )
        for one in product(FAULTS, NAMES)
    ],
)
def test_the_rank_of_a_fault_is_named(name: str, fault: str, dumps: Path, tmp_path: Path) -> None:
    planted, said = FAULTS[fault]
    found = judged(name, planted, dumps, tmp_path)
    [(conclusion, sentence), *_] = [one for one in found if one[0] != "clean"]
    assert conclusion == "fault"
    assert said in sentence
    last = SPLIT[name].layout["rank_size"] - 1
    assert f"Rank {last} has " in sentence
    assert all(f"Rank {rank} has " not in sentence for rank in range(last))


def test_a_script_may_count_once_what_ranks_hold_alike(dumps: Path, tmp_path: Path) -> None:
    found = judged("megatron_tp2pp1", Fault(0, once=True), dumps, tmp_path)
    assert {conclusion for conclusion, _ in found} == {"clean"}


@pytest.mark.parametrize("name", tried_first(["uneven_tp1pp4", "megatron_tp2pp2"], 1, REPEATED))
def test_a_reduction_that_does_not_add_up_is_looked_at_first(
    name: str, dumps: Path, tmp_path: Path
) -> None:
    conclusion, sentence = judged(name, Fault(0, reduce=max), dumps, tmp_path)[0]
    assert conclusion == "undecided"
    assert "Distributed.all_reduce" in sentence
    assert "output.0 is not the sum of what all ranks put in. Rank 0 has " in sentence


@pytest.mark.parametrize("name", tried_first(["megatron_tp2pp2", "uneven_tp1pp4"], 1, REPEATED))
def test_a_rank_that_keeps_its_sum_is_named(name: str, dumps: Path, tmp_path: Path) -> None:
    _, sentence = judged(name, Fault(0, kept=True), dumps, tmp_path)[0]
    assert "Distributed.all_reduce" in sentence
    assert "rank 3 has " in sentence.lower()
