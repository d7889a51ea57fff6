"""What is wrong in a training step that is computed here is named, sized and followed."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.base.codes import CallRole, Strength
from msprobe_builder.facts.fact import Fact
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.judge import judge_pair
from msprobe_builder.verdict.ruling.judged import Judgement
from tests.builder.verdict.columns import compared
from tests.builder.verdict.simulated import Plan, both

LAYERS = 5
# Which call is named for what is wrong in a layer, on which side, and its cause.
NAMED = {
    "output": ("Functional.linear.{}.forward", 0, Cause.OUTPUT),
    "argument": ("Torch.mul.{}.forward", 0, Cause.ARGUMENT),
    "missing": ("Torch.sinh.0.forward", 1, Cause.MISSING),
    "extra": ("Torch.asinh.0.forward", 0, Cause.EXTRA),
    "weight": ("Module.layers.{}.Layer.forward.0", 0, Cause.WEIGHT),
    "weights": ("Module.layers.0.Layer.forward.0", 0, Cause.WEIGHTS),
    "wiring": ("Functional.linear.{}.forward", 0, Cause.WIRING),
    "gradient": ("Torch.tanh.{}.backward", 0, Cause.OUTPUT),
    "data": ("Module.layers.0.Layer.forward.0", 0, Cause.EXTERNAL),
}
FIRST = ("weights", "data")  # what is wrong before everything
TRIED = [
    (what, layer, seed, noise)
    for place, what in enumerate(NAMED)
    for layer in ((0,) if what in FIRST else (1, 3))
    for seed, noise in ((place, 1e-8), (place + 20, 1e-7), (place + 40, 1e-6))
]


@functools.cache
def judged(plan: Plan) -> tuple[PairResult, Judgement]:
    result = compared(*both(plan))
    found = judge_pair(result)
    assert found is not None
    return result, found


def name_of(result: PairResult, side: int, node: int) -> str:
    graph = (result.npu, result.bench)[side]
    assert graph is not None
    return str(graph.tree.names[node])


def said(facts: tuple[Fact, ...], code: str) -> dict[str, object]:
    [one] = [one for one in facts if one.code == code]
    return dict(one.arguments)


@pytest.mark.parametrize(("what", "layer", "seed", "noise"), TRIED)
def test_what_is_wrong_is_named(what: str, layer: int, seed: int, noise: float) -> None:
    result, found = judged(Plan(what, layer, seed=seed, noise=noise))
    name, side, cause = NAMED[what]
    first = found.suspects[0]
    assert found.conclusion == "fault"
    assert name_of(result, first.side, first.node) == name.format(layer)
    assert (first.side, first.cause, first.strength) == (side, cause, Strength.STRONG)
    strong = [one for one in found.suspects if one.strength is Strength.STRONG]
    assert strong == [first]
    percent = said(first.evidence, "probability")["percent"]
    assert isinstance(percent, int)
    assert 80 <= percent <= 97


@pytest.mark.parametrize("what", ["output", "gradient", "argument", "data"])
@pytest.mark.parametrize("share", [0.002, 0.02, 0.2])
def test_its_size_is_that_of_what_was_planted(what: str, share: float) -> None:
    """Of noise extremes show a part; what is a factor shows as it is."""
    plan = Plan(what, 0 if what == "data" else 2, share=share, seed=7)
    _, found = judged(plan)
    first = found.suspects[0]
    if what in ("argument", "data"):
        assert first.error == pytest.approx(share, rel=0.02)
    else:
        assert share / 8 <= first.error <= 1.5 * share
    assert first.expected < share / 100
    margin = said(first.evidence, "size.of_output") if has(first.evidence, "size.of_output") else {}
    assert all(isinstance(one, float) for one in margin.values())


def has(facts: tuple[Fact, ...], code: str) -> bool:
    return any(one.code == code for one in facts)


ORDER = ("Functional.linear", "Torch.tanh", "Torch.sinh", "Torch.asinh", "Torch.mul", "Torch.add")


@pytest.mark.parametrize("what", ["output", "argument", "gradient", "extra"])
@pytest.mark.parametrize(("layer", "seed"), [(1, 3), (3, 4), (2, 5)])
def test_what_comes_of_it_carries_it_and_what_was_before_is_clean(
    what: str, layer: int, seed: int
) -> None:
    result, found = judged(Plan(what, layer, share=0.2, seed=seed))
    first = found.suspects[0]
    tree = result.npu.tree
    carriers = 0
    for node, name in enumerate(tree.names):
        if node == 0 or tree.parsed[node].kind.name == "COLLECTION":
            continue
        role = CallRole(int(found.role[node]))
        if node == first.node:
            assert (role, found.suspect[node]) == (CallRole.SUSPECT, 0)
        elif follows(name, what, layer, is_before=node < first.node):
            assert (role, found.suspect[node]) == (CallRole.CARRIER, 0), name
            carriers += 1
        elif role is not CallRole.UNKNOWN:
            assert (role, found.suspect[node]) == (CallRole.CLEAN, -1), name
    followers = int(np.count_nonzero(found.suspect == 0)) - 1
    assert (first.followers, said(first.evidence, "followers")["nodes"]) == (followers, followers)
    assert followers >= carriers


def follows(name: str, what: str, layer: int, *, is_before: bool) -> bool:
    """Whether a call is given what is wrong, by the way that a layer is computed."""
    is_back = "backward" in name or "parameters_grad" in name
    own = int(next(part for part in name.split(".") if part.isdecimal()))
    if name.startswith("Torch.norm"):
        return what != "gradient"
    if name.startswith("Torch.sinh"):
        own = layer
    if what == "gradient":
        if not is_back or own > layer:
            return False
        later = ("Functional.linear", "Module")
        return own < layer or name.startswith(later)
    if is_back:
        return True
    if own == layer and name.startswith("Module"):
        return True
    return own > layer or (own == layer and not is_before)


def test_a_run_of_noise_alone_is_clean_and_tells_its_noise() -> None:
    for seed, noise in ((1, 1e-7), (2, 3e-7), (3, 1e-6)):
        _, found = judged(Plan(noise=noise, seed=seed))
        assert (found.conclusion, found.suspects) == ("clean", [])
        assert noise / 6 <= found.noise <= 3 * noise
        assumed = said(found.said, "assumed_noise")
        assert max(noise, 4e-8) / 4 <= float(str(assumed["forward"])) <= 60 * max(noise, 1.2e-7)


def test_a_quiet_run_has_no_noise() -> None:
    _, found = judged(Plan(noise=0.0))
    assert (found.conclusion, found.suspects, found.noise) == ("clean", [], 0.0)


@pytest.mark.parametrize("noise", [1e-8, 1e-6])
@pytest.mark.parametrize("what", ["output", "gradient"])
def test_what_a_clean_verdict_says_would_have_shown_shows(what: str, noise: float) -> None:
    quiet = Plan(noise=noise, seed=11)
    limit = said(judged(quiet)[1].said, "limits")
    least = float(str(limit["backward" if what == "gradient" else "forward"]))
    shown = 0
    for layer in range(LAYERS):
        # A single reading of noise may be an eighth of it.
        found = judged(replace(quiet, what=what, layer=layer, share=8 * least))[1]
        named = [one.node for one in found.suspects]
        shown += bool(named) and found.conclusion != "clean"
    assert shown >= LAYERS - 1


def test_columns_tell_what_calls_are_given_and_put_out() -> None:
    result, found = judged(Plan("argument", 2, share=0.1, seed=9))
    names = list(result.npu.tree.names)
    wrong = names.index("Torch.mul.2.forward")
    assert found.shown[wrong] == pytest.approx(0.1, rel=0.02)
    assert found.given[wrong] < 1e-5
    before = names.index("Functional.linear.1.forward")
    assert max(found.given[before], found.shown[before]) < 1e-5
    assert found.expected[wrong] < 1e-4
    edges = {(names[one], names[two]) for one, two in found.edges.T.tolist()}
    assert ("Torch.mul.2.forward", "Torch.add.2.forward") in edges
    reached = {"Torch.mul.2.forward"}
    for _ in edges:
        reached |= {two for one, two in edges if one in reached}
    assert {"Functional.linear.3.forward", "Torch.norm.0.forward"} <= reached
    assert not [one for one in reached if ".0.forward" in one and "linear" in one]


def test_chances_of_a_place_and_step_add_up_to_one_at_most() -> None:
    _, found = judged(Plan("weights", 0, seed=6))
    percents = [said(one.evidence, "probability")["percent"] for one in found.suspects]
    assert sum(int(str(one)) for one in percents) <= 100 + len(percents)
    strengths = [one.strength is Strength.STRONG for one in found.suspects]
    assert strengths == sorted(strengths, reverse=True)
