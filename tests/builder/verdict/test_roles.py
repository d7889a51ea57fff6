"""By default, too, no call is clean that differs, nor accused that puts out the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from msprobe_builder.database.open import opened
from tests.recorded.case import RecordedCase, cases
from tests.recorded.judge import database_of
from tests.recorded.measured import distances, wrong_roles
from tests.recorded.test_recorded import unpacked

# Without noise every number that differs follows from what was planted.
CASES = [
    case
    for case in cases()
    if case.told_from is not None and case.told_from < 1e-5 and case.name.startswith("transformers")
][::4]


@pytest.mark.parametrize("case", [pytest.param(one, id=one.name) for one in CASES])
def test_what_differs_is_told_to_carry_on(case: RecordedCase, tmp_path: Path) -> None:
    assert case.archive is not None
    assert case.told_from is not None
    dumps = unpacked(case.archive)
    asked = replace(case, options=(*case.options, "--judge", "both"))
    with opened(database_of(asked, dumps, tmp_path)) as connection:
        apart = distances(connection, dumps / str(case.npu), dumps / str(case.bench))
        assert not list(wrong_roles(connection, apart, case.told_from))
