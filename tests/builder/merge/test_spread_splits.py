"""Experts and sequences that are spread over ranks, against the same training on one rank."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from merge_causes import spread_cause
from merge_truth import SPREAD_SPLITS, Agreement, Split, cause_lines, compare_split, table_lines
from tests.cases import REPEATED

TIED = "of a weight that two stages hold each has its share of the gradient"
COPIES = "several ranks hold the same keys and values"
# Experts, chunks of stages, parts of sequences, rings, shared heads, weights of two stages.
TRIED = (
    *("shared_tp2ep2etp1", "interleaved_tp1pp2vpp2", "context_tp2cp2sp", "context_cp2ring"),
    *("heads_tp4", "tied_tp1pp2", "grouped_tp2ep2etp1"),
)
REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def compare(dumps: Path) -> Callable[[Split], list[Agreement]]:
    """Each split against its truth, once."""
    by_name = {split.name: split for split in SPREAD_SPLITS}
    compared = functools.cache(lambda name: compare_split(dumps, by_name[name]))
    return lambda split: compared(split.name)


@pytest.fixture(
    params=[
        pytest.param(one, marks=() if one.name in TRIED else REPEATED) for one in SPREAD_SPLITS
    ],
    ids=lambda split: split.name,
)
def agreement(
    request: pytest.FixtureRequest, compare: Callable[[Split], list[Agreement]]
) -> Agreement:
    (one,) = compare(request.param)
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


@REPEATED
def test_the_document_shows_the_current_numbers(
    compare: Callable[[Split], list[Agreement]],
) -> None:
    found = {split.name: compare(split) for split in SPREAD_SPLITS}
    document = (REPOSITORY / "benchmarks" / "results" / "parallel-merge.md").read_text(
        encoding="utf-8"
    )
    assert "\n".join(table_lines(found, spread_cause)) in document
    assert "\n".join(cause_lines(found, spread_cause)) in document
