"""The verdict on models with one planted fault, and on models without any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.case import (
    AUTOCAST,
    FP16,
    HALF,
    KERNELS,
    NOISE,
    PURE,
    REFERENCE_KERNELS,
    REFERENCE_RECOMPUTED,
    SAME,
    Case,
)
from tests.faults.scoring import score

FEW = [
    Case("llama", "attention_scale", 1, kind=SAME),
    Case("llama", "dead_gradient", 1, kind=NOISE),
    Case("rounded", "block_begins_late", 1, kind=HALF, seed=2094),
    Case("gpt2", "gradient_scaled", kind=HALF, direction="backward"),
    Case("hidden", "bent_before_norm", kind=SAME, seed=2037),
    Case("latent", "latent_epsilon", 1, kind=KERNELS),
    Case("latent", "states_detached", kind=REFERENCE_RECOMPUTED),
    Case("mixed", "clamped_in_place", 0, kind=HALF, seed=323),
    Case("opponents", "reflected", kind=HALF, seed=424),
    Case("preferred", "turned_whole", kind=SAME, seed=758),
    Case("points", "one_neighbour_more", kind=NOISE, seed=742),
    Case("retained", "summed_over_rows", 2, kind=HALF, seed=703, task="tensor"),
    Case("retriever", "answers_detached", kind=HALF, seed=815, direction="backward"),
    Case("segmenter", "skip_overwritten", kind=NOISE, seed=828),
    Case("kept", "kept_behind", 0, kind=SAME, seed=917),
    Case("foretold", "last_word_judged", kind=HALF, seed=1454),
    Case("ranked", "nobody_looked", kind=NOISE, seed=1714),
    Case("dreamed", "sides_not_cut", kind=HALF, seed=1848, direction="backward"),
    # A running sum, one term of which looks more like another.
    Case("rewarded", "last_aims_left", kind=HALF, seed=2242, direction="backward"),
    Case("chunked", "carried_whole", kind=HALF, seed=2432, direction="backward"),
    # A gradient that is a sum, beside which a function has made for itself what looks like it.
    Case("braided", "not_told_what_follows", kind=SAME, seed=2663, direction="backward"),
    Case("folded", "ends_are_seen", 1, kind=NOISE, seed=2639),
    Case("splatted", "farthest_first", kind=HALF, seed=2719),
]
CONTROLS = [
    Case("linked", "equal_shares", kind=HALF, seed=2126),
    Case("latent", None, kind=REFERENCE_KERNELS),
    Case("objects", None, kind=NOISE, seed=200),
    Case("resnet", None, kind=HALF, task="tensor"),
    Case("resnet", None, kind=FP16),
    Case("rounded", None, kind=NOISE, seed=2140),  # limits that chance decides
    Case("answering", None, kind=HALF, seed=801),
    Case("flow", None, kind=HALF, seed=900),
    Case("reversed", None, kind=AUTOCAST, seed=906),
    Case("corrected", "equal_solved", kind=HALF, seed=1499),
    Case("ranked", "equal_pairs", kind=HALF, seed=1736),
    Case("growing", None, kind=HALF, seed=1931),  # gradients that cancel in a largest exponent
    Case("squashed", "equal_density", kind=HALF, seed=1273),
    Case("asked", None, kind=HALF, seed=1310, task="tensor"),
    Case("anchorless", None, kind=PURE, seed=1310),
    Case("film", "equal_groups", 1, kind=HALF, seed=2577),
    Case("braided", None, kind=NOISE, seed=2790),  # eigenvectors of another sign
    Case("unmasked", "equal_blocks", kind=HALF, seed=2762),
]


@pytest.mark.parametrize("case", FEW, ids=lambda case: case.name)
def test_the_best_suspect_is_the_culprit(case: Case, tmp_path: Path) -> None:
    found = score(case, tmp_path)
    assert found.place == 1
    assert found.verdict.conclusion == "fault"


@pytest.mark.parametrize("case", CONTROLS, ids=lambda case: case.name)
def test_nobody_is_accused_without_a_fault(case: Case, tmp_path: Path) -> None:
    found = score(case, tmp_path)
    assert not found.is_strong
    assert found.verdict.conclusion != "fault"


def test_modules_alone_lead_to_the_module_of_the_culprit(tmp_path: Path) -> None:
    case = replace(FEW[0], level="L0")
    found = score(case, tmp_path)
    assert found.verdict.suspects[0].node.startswith("Module.layers.1.attention.LlamaAttention.")


INSIDE = [
    # What its first module is given was made in it.
    (Case("flow", "gain_not_exp", 1, level="L0", seed=901), "Module.layers.1.Coupling.", "between"),
    # Nothing that was recorded uses the output that is wrong.
    (
        Case("flow", "volume_of_one_pixel", 0, level="L0", seed=902),
        "Module.layers.0.Coupling.",
        "output",
    ),
    (
        Case("kept", "kept_is_cut", level="L0", seed=920, direction="backward"),
        "Module.layers.0.KeptBlock.forward.1",
        "gradient",
    ),
    # Only the reference's was made by calls that nobody recorded.
    (
        Case("asked", "cover_of_last", level="L0", seed=1165),
        "Module.asking.Asking.forward.2",
        "unrecorded",
    ),
    # Where a gradient was differentiated again those of all parameters are off.
    (
        Case("drifted", "spread_taken_twice", level="L0", seed=1489),
        "Module.pressed.Linear.backward.",
        "unrecorded",
    ),
    # Its gradient is missing as well, and comes first.
    (
        Case("roomy", "always_open", 1, kind=HALF, level="L0", seed=1177),
        "Module.layers.1.open.Linear.forward.",
        "missing",
    ),
]


@pytest.mark.parametrize(("case", "start", "cause"), INSIDE, ids=lambda value: str(value)[:40])
def test_modules_alone_tell_what_was_made_in_them(
    case: Case, start: str, cause: str, tmp_path: Path
) -> None:
    best = score(case, tmp_path).verdict.suspects[0]
    assert best.node.startswith(start)
    assert best.cause == cause


def test_what_is_made_of_nothing_cuts_nothing_off(tmp_path: Path) -> None:
    found = score(Case("drifted", "last_step_missing", seed=1485), tmp_path)
    assert all(one.cause != "gradient" for one in found.verdict.suspects)


def test_what_a_function_with_its_own_derivative_calls_cuts_nothing_off(tmp_path: Path) -> None:
    """It runs without a history; plain calls, as this side makes them, have one."""
    found = score(Case("chunked", "equal_smoothed", kind=HALF, seed=2575), tmp_path)
    assert all(one.cause != "gradient" for one in found.verdict.suspects)


def test_modules_alone_accuse_no_module_of_a_fault_in_the_loss(tmp_path: Path) -> None:
    """The module that is first given a gradient is not at fault; what is next holds the loss."""
    case = Case("capsules", "painted_summed", level="L0", seed=969)
    verdict = score(case, tmp_path).verdict
    assert verdict.conclusion == "fault"
    assert [one.cause for one in verdict.suspects if one.strength == "strong"] == ["unrecorded"]
    assert verdict.suspects[0].node.startswith("Module.paint.Sequential.backward.")
    told = "The fault is in the loss or its labels, behind Module.paint.Sequential.forward."
    assert told in verdict.sentence
    assert verdict.next_dump is not None
    config = verdict.next_dump["config"]
    assert config["level"] == "mix"
    assert "list" not in config["statistics"]  # the loss is in no module


def test_a_tensor_that_one_side_alone_gives_is_an_argument_that_differs(tmp_path: Path) -> None:
    found = score(Case("states", "classes_not_weighed", kind=HALF, seed=811), tmp_path)
    assert found.place == 1
    first = found.verdict.suspects[0]
    assert first.cause == "argument"
    assert "Argument weight is None, in the reference a tensor." in first.evidence


def test_a_cast_that_one_side_alone_has_is_named(tmp_path: Path) -> None:
    """Each of the two is one: which of them shows above the noise depends on the machine."""
    found = score(Case("tied", "weights_rounded", 1, kind=NOISE, seed=84), tmp_path)
    assert found.place == 1
    first = found.verdict.suspects[0]
    assert (first.node.partition(".")[2].partition(".")[0], first.cause) == ("half", "extra")
