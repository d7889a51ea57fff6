"""Clean is said where rounding is small, with what would have shown; else too much could hide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.facts.fact import fact
from msprobe_builder.verdict.ruling.all_ranks import PlaceRuling
from msprobe_builder.verdict.ruling.conclusion import CLEAN
from tests.builder.verdict.accusing import ruled, suspect
from tests.builder.verdict.test_mechanisms import Program, judged, values

Array = NDArray[Any]


def verdict_of(npu: Path, bench: Path, folder: Path) -> Verdict:
    built = build(BuildConfig(npu, bench), folder)
    with opened(built.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def codes(verdict: Verdict) -> set[str]:
    return {one.code for one in verdict.said}


def test_half_precision_beside_single_hides_too_much(dumps: Path, tmp_path: Path) -> None:
    half, single = dumps / "llama_statistics_bf16", dumps / "llama_statistics"
    told = verdict_of(half, single, tmp_path)
    assert told.conclusion == "undecided"
    assert not [one for one in told.suspects if one.strength == "strong"]


def test_of_one_run_in_half_precision_nothing_is_hidden(dumps: Path, tmp_path: Path) -> None:
    half = dumps / "llama_statistics_bf16"
    told = verdict_of(half, half, tmp_path)
    assert (told.conclusion, told.suspects) == ("clean", ())


def test_a_clean_run_of_several_steps_tells_the_limits_of_all(dumps: Path, tmp_path: Path) -> None:
    run = dumps / "llama_statistics"
    told = verdict_of(run, run, tmp_path)
    assert len(told.places) > 1
    assert {"clean", "limits", "limits.factor", "assumed_noise"} <= codes(told)
    [whole] = [one for one in told.said if one.code == "limits"]
    of_places = [one for place in told.places for one in place.said if one.code == "limits"]
    assert whole["forward"] == max(one["forward"] for one in of_places)  # type: ignore[type-var]


def masked(is_debug: bool) -> Program:
    """Attention whose mask is cut out of a tensor of infinity; one run loses a part of a row."""
    one, x = Program(), values(16, 16)
    given = one.call("Functional.tanh.0.forward", [x], np.tanh(x))
    infinite = np.full((16, 16), -np.inf)
    infinite = one.call("Torch.full.0.forward", [], infinite)
    mask = np.where(np.triu(np.ones((16, 16)), 1) > 0, -np.inf, 0.0)
    mask = one.call("Tensor.triu.0.forward", [infinite], mask)
    scores = one.call("Tensor.__add__.0.forward", [given, mask], given + mask)
    powers = np.exp(scores)
    weights = powers / powers.sum(axis=1, keepdims=True)
    if is_debug:
        weights[7] *= 0.97
    weights = one.call("Functional.softmax.0.forward", [scores], weights)
    last = one.call("Torch.matmul.0.forward", [weights, x], weights @ x)
    one.call("Functional.sigmoid.0.forward", [last], 1 / (1 + np.exp(-last)))
    return one


def test_what_is_infinite_throughout_hides_nothing_behind_it(tmp_path: Path) -> None:
    first = judged(tmp_path, masked)[0]
    assert (first.node, first.cause, first.strength) == (
        "Functional.softmax.0.forward",
        "output",
        "strong",
    )


def test_limits_of_the_whole_are_the_widest_of_all_places() -> None:
    limits = (
        fact("limits.forward", calls=95, forward=0.02),
        fact("limits", calls=90, forward=0.01, backward=0.2),
        fact("limits", calls=95, forward=0.03, backward=0.1),
    )
    noise = fact("assumed_noise.forward", forward=1e-3), fact("assumed_noise.forward", forward=2e-3)
    vanished = fact("vanished", calls=3), fact("vanished", calls=4)
    told = [
        (limits[0], noise[0], vanished[0]),
        (limits[1], noise[1], vanished[1]),
        (fact("limits.factor", calls=75, factor=1.5), limits[2], fact("limits.places")),
    ]
    places = [PlaceRuling(0, rank, CLEAN, said, 9) for rank, said in enumerate(told)]
    assert ruled(places=places).said == (
        fact("clean", nodes=27),
        fact("limits.factor", calls=75, factor=1.5),
        fact("limits", calls=90, forward=0.03, backward=0.2),
        fact("limits.places"),
        noise[1],
        vanished[0],
    )


def test_what_was_left_out_is_said_of_the_whole_once() -> None:
    asked = fact("without", kinds=["output"])
    places = [PlaceRuling(0, rank, CLEAN, (fact("clean", nodes=9), asked), 9) for rank in (0, 1)]
    assert ruled(places=places).said == (fact("clean", nodes=18), asked)
    assert ruled(places=places[:1]).said == (fact("clean", nodes=9), asked)
    assert ruled(suspect(), places=places).said[-1] == asked
