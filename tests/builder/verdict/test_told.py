"""What is said of a suspect: the code of what has happened, and the numbers of what was planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.codes import Strength
from msprobe_builder.facts.fact import Fact
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.judge import judge_pair
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.telling import _told_of_group
from msprobe_builder.verdict.ruling.judged import Judgement
from msprobe_builder.verdict.ruling.same_data import told_of_group
from tests.builder.verdict.columns import Run, compared, evidence_of, measured
from tests.builder.verdict.drawn_programs import drawn_program
from tests.builder.verdict.simulated import FACTOR, Plan, both

SAID: dict[str, dict[str, Any]] = {
    "output": {"inputs_agree": {"name": "output.0"}},
    "argument": {"argument": {"name": "1", "own": f"{FACTOR * 1.1:.3g}", "theirs": f"{FACTOR}"}},
    "missing": {"call_missing.behind": {"name": "input.0", "node": "Torch.mul.3.forward"}},
    "extra": {"call_extra.behind": {"name": "input.0", "node": "Torch.mul.3.forward"}},
    "weight": {"weight": {"name": "parameters.weight"}},
    "weights": {"weights": {"name": "parameters.weight"}},
    "wiring": {"wiring": {"name": "input.0"}},
    "gradient": {"inputs_agree": {"name": "output.0"}},
    "data": {"external.other_data": {"name": "input.0"}},
}


def judgement(debug: Run, reference: Run) -> Judgement:
    found = judge_pair(compared(debug, reference))
    assert found is not None
    return found


@pytest.mark.parametrize("what", SAID)
def test_what_has_happened_is_said_with_its_names(what: str) -> None:
    first = what in ("weights", "data")
    found = judgement(*both(Plan(what, 0 if first else 3, share=0.1, seed=2))).suspects[0]
    said = {one.code: one for one in found.evidence}
    for code, arguments in SAID[what].items():
        own = dict(said[code].arguments)
        assert {name: own[name] for name in arguments} == arguments
        if "how" in own:
            assert isinstance(own["how"], Fact)
    assert {"size", "followers", "probability"} <= said.keys()
    assert "meets_again" not in said
    assert not [code for code in said if code.startswith("rival")]


def half(length: int, side: int, extra: str, *, is_used: bool) -> Run:
    """Products in half precision on one side, and a call that this side alone makes."""
    rng, noise = np.random.default_rng(0), np.random.default_rng(1)
    run = Run()
    x = rng.normal(size=(8, 8))
    dtype = "float32" if side else "bfloat16"
    for place in range(length):
        given, weight = x, rng.normal(size=(8, 8)) / 3
        made = given @ weight
        rounded = made if side else made * (1 + 2.0**-10 * noise.normal(size=made.shape))
        before = measured(given, dtype)
        if extra and place == length // 2:
            handed = measured(given * (1 + 1e-4), dtype)
            run.call(f"{extra}.0.forward", [before], [handed])
            before = handed if is_used else before
        run.call(
            f"Torch.matmul.{place}.forward",
            [before, measured(weight, dtype)],
            [measured(rounded, dtype)],
        )
        x = made
    return run


@pytest.mark.parametrize(
    ("extra", "is_used", "code"),
    [
        ("Torch.flip", True, "call_lacking.order"),
        ("Torch.erfinv", True, "call_lacking.without_effect"),
        ("Torch.erfinv", False, "call_lacking.unseen"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_a_call_of_one_side_alone_of_which_nothing_shows(
    extra: str, is_used: bool, code: str, side: int
) -> None:
    sides = [half(40, one, extra if one == side else "", is_used=is_used) for one in (0, 1)]
    found = judgement(*sides)
    told = [one for one in found.suspects if one.evidence[0].code == code]
    assert [(one.side, one.strength) for one in told] == [(side, Strength.WEAK)]
    who = told[0].evidence[0].arguments["side"]
    assert isinstance(who, Fact)
    assert ("reference" in who.code) is (side == 0)


def test_without_such_a_call_nobody_is_named() -> None:
    found = judgement(half(40, 0, "", is_used=False), half(40, 1, "", is_used=False))
    assert (found.conclusion, found.suspects) == ("clean", [])


@pytest.mark.parametrize("seed", [424, 425, 430, 436, 438, 443])
def test_calls_that_are_judged_as_one_are_told_with_those_of_their_group(seed: int) -> None:
    evidence = evidence_of(compared(*drawn_program(seed, 30, mixed=True, richly=True)))
    owners = [] if evidence.groups is None else sorted(set(evidence.groups.owner.tolist()))
    assert owners
    groups = [] if evidence.groups is None else [evidence.groups.groups[one] for one in owners]
    names = evidence.runs.npu.tree.names, evidence.runs.bench.tree.names
    for node in range(1, len(names[0])):
        own = [one for one in groups if node in one.npu]
        found = _told_of_group(evidence, Clue(9.0, 0, node, Cause.OUTPUT, -1))
        assert found == (told_of_group(own[0], *names) if own else [])
        for clue in (Clue(9.0, 1, node, Cause.OUTPUT, -1), Clue(9.0, 0, node, Cause.WIRING, -1)):
            assert _told_of_group(evidence, clue) == []
