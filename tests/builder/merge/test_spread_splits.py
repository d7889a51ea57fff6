"""Experts and sequences that are spread over ranks, against the same training on one rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from merge_causes import spread_cause
from merge_truth import SPREAD_SPLITS, Agreement, Split, cause_lines, compare_split, table_lines

TIED = "of a weight that two stages hold each has its share of the gradient"
COPIES = "several ranks hold the same keys and values"
REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def found(dumps: Path) -> dict[str, list[Agreement]]:
    return {split.name: compare_split(dumps, split) for split in SPREAD_SPLITS}


@pytest.fixture(params=SPREAD_SPLITS, ids=lambda split: split.name)
def agreement(request: pytest.FixtureRequest, found: dict[str, list[Agreement]]) -> Agreement:
    split = request.param
    assert isinstance(split, Split)
    (one,) = found[split.name]
    return one


def test_every_difference_has_a_known_cause(agreement: Agreement) -> None:
    assert [item for item in agreement.findings if spread_cause(item) is None] == []


def test_every_module_is_there_once_in_its_order(agreement: Agreement) -> None:
    kinds = ("missing", "extra", "micro-step", "missing tensor", "extra tensor", "away")
    wrong = [item for item in agreement.findings if item.kind in kinds]
    modules = [item for item in wrong if item.call.startswith("Module.")]
    assert [item for item in modules if spread_cause(item) != TIED] == []


def test_no_value_of_the_model_is_wrong(agreement: Agreement) -> None:
    causes = {spread_cause(item) for item in agreement.findings if item.kind == "away"}
    assert causes <= {
        TIED,
        "a compiled function takes in its inputs as its compilation orders them",
        "a ring computes attention block by block",
        "sums and positions of the tokens of each rank",
        "the state of the random numbers",
        "the training script reduces gradient norms per rank",
        "uninitialised memory",
    }


def test_only_sums_and_gradients_of_modules_are_unknown(agreement: Agreement) -> None:
    """Outputs of experts are sums over their parts; gradients are of slices of the sequence."""
    unknown = [
        item
        for item in agreement.findings
        if item.kind == "unknown"
        and item.call.startswith("Module.")
        and spread_cause(item) != COPIES
    ]
    assert all("experts" in item.call or "grad" in item.parameter for item in unknown)


def test_ranks_that_agree_raise_no_finding(agreement: Agreement) -> None:
    codes = {found.code for found in agreement.diagnostics}
    assert codes <= {"released_from_backward", "call_without_record"}


def test_the_document_shows_the_current_numbers(found: dict[str, list[Agreement]]) -> None:
    document = (REPOSITORY / "benchmarks" / "results" / "parallel-merge.md").read_text(
        encoding="utf-8"
    )
    assert "\n".join(table_lines(found, spread_cause)) in document
    assert "\n".join(cause_lines(found, spread_cause)) in document
