"""A fault below wrappers and other names that one side alone has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict
from tests.alignment.respell import (
    Change,
    Recording,
    chained,
    dropped_calls,
    is_layer,
    other_attributes,
    other_classes,
    recording,
    wrapped,
)
from tests.cases import tried_first
from tests.faults.case import HALF, Case
from tests.faults.record import run

RENAMED = chained(other_classes, other_attributes)
AROUND_LAYERS = wrapped(is_layer, "inner", "Sharded")
KINDS: dict[str, Change] = {
    "around layers": AROUND_LAYERS,
    "around modules": wrapped(bool, "inner", "Wrapped"),
    "other names": chained(RENAMED, AROUND_LAYERS),
}


def respelled(case: Case, change: Change, folder: Path) -> tuple[Verdict, set[str]]:
    """The verdict where the run under debug is spelled otherwise, and the names of the culprits."""
    truth = run(case, folder)
    before = recording(min((folder / "npu").rglob("dump.json")).parent)
    after = change(before)
    write(after, folder / "other" / "step0" / "rank")
    config = BuildConfig(folder / "other", folder / "bench" / "dump")
    with opened(build(config, folder / "out", workers=1).path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict, truth | {name for name, first in after.origin.items() if first in truth}


def write(recorded: Recording, directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "dump.json").write_text(json.dumps({**recorded.head, "data": recorded.data}))
    (directory / "construct.json").write_text(json.dumps(recorded.parent))
    (directory / "stack.json").write_text("{}")


def check(first: Suspect, truth: set[str]) -> None:
    assert (first.node in truth, first.strength) == (True, "strong"), first


@pytest.mark.parametrize("kind", tried_first(reversed(KINDS)))
@pytest.mark.parametrize(
    "case",
    [
        Case("windows", "mlp_not_added", 1, seed=504),
        Case("next", "final_norm_missing", seed=511),
        Case("kv", "key_norm_skipped", 1, seed=512),
        Case("kv", "heads_interleaved", 2, seed=514),
        Case("kv", "query_rows_interleaved", 1, seed=521),
    ],
    ids=lambda case: case.fault,
)
def test_no_wrapper_is_accused_of_what_a_call_inside_does(
    case: Case, kind: str, tmp_path: Path
) -> None:
    verdict, truth = respelled(case, KINDS[kind], tmp_path)
    check(verdict.suspects[0], truth)


def test_calls_whose_work_is_done_otherwise_hide_nothing(tmp_path: Path) -> None:
    """A tenth of the calls is not recorded on one side, but what they put out is used."""
    case = Case("kv", "looks_ahead", 1, seed=515)
    verdict, truth = respelled(case, dropped_calls(0.1, 5), tmp_path)
    check(verdict.suspects[0], truth)
    case = Case("routed", "expert_dropped", 1, seed=65)
    verdict, truth = respelled(case, dropped_calls(0.03, 3), tmp_path / "routed")
    check(verdict.suspects[0], truth)


@pytest.mark.parametrize(
    "case",
    [
        Case("retained", "one_ahead", 0, seed=702),
        Case("retained", "summed_over_rows", 2, seed=703),
        Case("retained", "keys_scaled", 1, seed=704),
    ],
    ids=lambda case: case.fault,
)
def test_what_moves_numbers_and_was_left_out_is_not_to_blame(case: Case, tmp_path: Path) -> None:
    """A view, a range or a transposition changes no norm; an argument that differs says more."""
    verdict, truth = respelled(case, dropped_calls(0.1, 5), tmp_path)
    check(verdict.suspects[0], truth)


def test_a_gradient_that_one_side_has_not_recorded_is_no_fault(tmp_path: Path) -> None:
    """What a normalisation makes of rounding shows only where both sides recorded it."""
    case = Case("retained", None, kind=HALF, seed=700)
    verdict, _ = respelled(case, dropped_calls(0.03, 11), tmp_path)
    assert verdict.conclusion != "fault", verdict.sentence
