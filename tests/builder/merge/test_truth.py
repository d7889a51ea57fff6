"""Merged splits of a training against the same training on one rank: same weights, same data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from merge_causes import Finding, cause
from merge_truth import SPLITS, Agreement, Split, cause_lines, compare_split, table_lines

Compare = Callable[[Split], list[Agreement]]
REPOSITORY = Path(__file__).resolve().parents[3]
# Calls of the training on a single rank, with the nodes of modules.
CALLS = {"megatron_tp1pp1": 1357, "megatron_tp1pp1_L0": 318, "megatron_tp1pp1dp2": 1357}


@pytest.fixture(scope="module", params=SPLITS, ids=lambda split: split.name)
def split(request: pytest.FixtureRequest) -> Split:
    found = request.param
    assert isinstance(found, Split)
    return found


@pytest.fixture(scope="module")
def compare(dumps: Path) -> Compare:
    """Each split against its truth, once."""
    done: dict[str, list[Agreement]] = {}

    def once(split: Split) -> list[Agreement]:
        if split.name not in done:
            done[split.name] = compare_split(dumps, split)
        return done[split.name]

    return once


@pytest.fixture(scope="module")
def agreements(split: Split, compare: Compare) -> list[Agreement]:
    return compare(split)


def of_kind(agreements: list[Agreement], *kinds: str) -> list[Finding]:
    return [item for one in agreements for item in one.findings if item.kind in kinds]


def test_every_difference_has_a_known_cause(agreements: list[Agreement]) -> None:
    unexplained = [item for one in agreements for item in one.findings if cause(item) is None]
    assert unexplained == []


def test_every_call_is_there_in_its_order_and_micro_step(
    agreements: list[Agreement], split: Split
) -> None:
    branch = 18 if split.layout["tp"] > 1 and not split.name.endswith("L0") else 0
    for one in agreements:
        assert one.nodes == CALLS[split.truth] - branch
        missing = of_kind([one], "missing")
        assert len(missing) == branch
        assert {item.call.rsplit(".", 2)[0] for item in missing} <= {"Tensor.view_as"}
    assert of_kind(agreements, "micro-step") == []


def test_only_calls_of_many_ranks_are_added(agreements: list[Agreement], split: Split) -> None:
    causes = Counter(cause(item) for item in of_kind(agreements, "extra"))
    assert set(causes) <= {
        "communication between the ranks",
        "a buffer that every process allocates once",
        "vocabulary masks of each rank",
        "the training script reduces gradient norms per rank",
    }
    if split.layout["tp"] == 1:
        assert "vocabulary masks of each rank" not in causes


def test_what_modules_hold_agrees(agreements: list[Agreement]) -> None:
    """Outputs, gradients of activations, weights and their gradients."""
    wrong = of_kind(agreements, "away", "unknown", "other shape", "missing tensor", "extra tensor")
    assert [item for item in wrong if item.call.startswith("Module.")] == []


def test_values_away_from_the_truth_are_no_values_of_the_model(agreements: list[Agreement]) -> None:
    causes = {cause(item) for item in of_kind(agreements, "away", "other shape")}
    assert causes <= {
        "uninitialised memory",
        "the training script reduces gradient norms per rank",
    }


def test_ranks_that_agree_raise_no_finding(agreements: list[Agreement]) -> None:
    codes = {found.code for one in agreements for found in one.diagnostics}
    assert codes <= {"released_from_backward", "call_without_record"}


def test_the_document_shows_the_current_numbers(compare: Compare) -> None:
    document = (REPOSITORY / "benchmarks" / "results" / "parallel-merge.md").read_text(
        encoding="utf-8"
    )
    found = {one.name: compare(one) for one in SPLITS}
    assert "\n".join(table_lines(found)) in document
    assert "\n".join(cause_lines(found)) in document
