"""The model of error: readings of known differences, and cases that it has to judge alone."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
import yaml

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.certainty import probabilities
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.observations import Observations, surprise
from tests.conftest import REPOSITORY
from tests.recorded.case import RecordedCase, cases
from tests.recorded.judge import database_of
from tests.recorded.test_recorded import unpacked

CASES = {case.name: case for case in cases()}
LISTED = yaml.safe_load((REPOSITORY / "tests/data/model_cases.yaml").read_text("utf-8"))


def readings(own: np.ndarray, theirs: np.ndarray) -> Observations:
    """What maximum, minimum, mean and norm of two tensors tell."""
    numbers = [
        np.array([one.max(), one.min(), one.mean(), np.linalg.norm(one)]) for one in (own, theirs)
    ]
    rms = numbers[1][3] / np.sqrt(theirs.size)
    units = np.array(
        [max(rms, abs(numbers[1][0])), max(rms, abs(numbers[1][1])), rms, numbers[1][3]]
    )
    moved = (np.abs(numbers[0] - numbers[1]) / units)[:, None]
    one = np.ones(1)
    return Observations(
        size=moved.max(axis=0),
        moved=moved,
        exact=np.full(1, np.nan),
        rms=one,
        norm=one,
        mean=one,
        peak=one,
        smallest=one,
        elements=one * theirs.size,
        resolution=one * 2e-7,
        differs=np.ones(1, dtype=bool),
        is_factor=np.zeros(1, dtype=bool),
    )


@pytest.mark.parametrize("elements", [64, 4096, 131072])
@pytest.mark.parametrize("error", [1e-6, 1e-3, 1e-2])
def test_rounding_of_the_expected_size_surprises_nobody(elements: int, error: float) -> None:
    rng = np.random.default_rng(elements)
    scores = []
    for _ in range(40):
        theirs = rng.normal(size=elements)
        own = theirs + error * rng.normal(size=elements)
        scores.append(
            float(surprise(readings(own, theirs), np.zeros(1, int), np.array([error]))[0])
        )
    assert np.quantile(scores, 0.9) < 3


@pytest.mark.parametrize("error", [1e-6, 1e-3])
def test_a_factor_shows_where_noise_of_the_same_size_would_not(error: float) -> None:
    theirs = np.random.default_rng(1).normal(size=131072)
    seen = readings(theirs * (1 + 10 * error), theirs)
    assert surprise(seen, np.zeros(1, int), np.array([error]))[0] > 10


def test_a_single_element_says_little() -> None:
    theirs = np.random.default_rng(1).normal(size=4096)
    own = theirs.copy()
    own[theirs.argmax()] *= 1 + 1e-4
    rest = own.copy()
    rest *= 1 + 1e-4
    alone, all_of_them = (
        surprise(readings(one, theirs), np.zeros(1, int), np.array([1e-6]))[0]
        for one in (own, rest)
    )
    assert alone < all_of_them / 5


def test_chances_of_suspects_add_up_to_no_more_than_one() -> None:
    found = [Clue(50.0, 0, node, cause, node, 1.0, 0.01) for node, cause in enumerate(Cause)]
    chances = probabilities(found)
    assert sum(chances) <= 1
    assert chances[0] == max(chances)


def judged(case: RecordedCase, judge: str, folder: Path) -> Verdict:
    """The verdict of one judge on a recorded case."""
    dumps = None if case.archive is None else unpacked(case.archive)
    asked = replace(case, options=(*case.options, "--judge", judge))
    folder.mkdir(exist_ok=True)
    with opened(database_of(asked, dumps, folder)) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def is_named(pattern: str | list[str], node: str) -> bool:
    """Whether a node is one of those that are right."""
    several = [pattern] if isinstance(pattern, str) else pattern
    return any(fnmatchcase(node, one) for one in several)


@pytest.mark.parametrize("name", LISTED["first"])
def test_the_model_names_the_place(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    first = judged(case, "model", tmp_path).suspects[0]
    assert is_named(case.facts["first"]["node"], first.node)
    assert first.probability is not None


@pytest.mark.parametrize("name", LISTED["right"])
def test_neither_judge_accuses_a_run_that_is_right(name: str, tmp_path: Path) -> None:
    for judge in ("model", "both"):
        verdict = judged(CASES[name], judge, tmp_path / judge)
        assert not [one.node for one in verdict.suspects if one.strength == "strong"]


@pytest.mark.parametrize("name", LISTED["doubted"])
def test_what_one_judge_alone_sees_is_not_certain(name: str, tmp_path: Path) -> None:
    conclusions = {
        judge: judged(CASES[name], judge, tmp_path / judge).conclusion
        for judge in ("rules", "model", "both")
    }
    assert "fault" in conclusions.values()
    assert conclusions["both"] == "undecided"
