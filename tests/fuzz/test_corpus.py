"""Every input that fuzzing has kept, again, without the fuzzer; and a few mutated files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.mutated import KINDS, runs
from tests.fuzz.targets import TARGETS, run

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_ends_well(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for path in inputs:
        run(name, path.read_bytes())


@pytest.mark.parametrize("kind", KINDS)
def test_what_keeps_its_form_with_other_values_ends_well(kind: str) -> None:
    """A few of what ``make mutate`` runs for hours."""
    assert sum(runs(kind, 12, 0).values()) >= 12
