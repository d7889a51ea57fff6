"""Every input that fuzzing has kept, again, without the fuzzer; and a few mutated files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.changes import KINDS
from tests.fuzz.mutated import runs
from tests.fuzz.targets import TARGETS, run

CORPUS = Path(__file__).parent / "corpus"
LINES = (Path(__file__).parent / "mutations.tsv").read_text("utf-8").splitlines()[1:]
FAILED = [(line.split("\t")[0], int(line.split("\t")[1])) for line in LINES]


@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_ends_well(name: str) -> None:
    inputs = sorted((CORPUS / name).iterdir())
    assert inputs
    for path in inputs:
        run(name, path.read_bytes())


@pytest.mark.parametrize("kind", KINDS)
def test_what_keeps_its_form_with_other_values_ends_well(kind: str) -> None:
    """A few of what ``make night`` runs for hours, and those that have failed there."""
    numbers = [*range(12), *(number for of, number in FAILED if of == kind)]
    assert runs(kind, numbers).total() >= len(numbers)
