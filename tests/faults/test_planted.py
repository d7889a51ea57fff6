"""The bank of planted faults: each a test, of which ``--planted`` says which are tried.

Single cases may miss, as a verdict is no proof; what must hold is the share of faults whose call is
named first (tests/shares.py). That nobody is accused without a fault must hold each time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.case import Case
from tests.faults.cases import developed, held_out
from tests.faults.scoring import score
from tests.faults.unseen_cases import thirteenth, twelfth
from tests.shares import RecordShare

CASES = [case for part in (developed, held_out, twelfth, thirteenth) for case in part()]


@pytest.mark.control
@pytest.mark.parametrize(
    "case", [case for case in CASES if case.is_control], ids=lambda case: case.name
)
def test_nobody_is_accused_without_a_fault(case: Case, tmp_path: Path) -> None:
    assert not score(case, tmp_path).is_strong


@pytest.mark.planted
@pytest.mark.parametrize(
    "case", [case for case in CASES if not case.is_control], ids=lambda case: case.name
)
def test_a_planted_fault_counts(case: Case, tmp_path: Path, record_share: RecordShare) -> None:
    record_share(case.kind, is_right=score(case, tmp_path).place == 1)
