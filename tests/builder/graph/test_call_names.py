"""Names of calls that are held as columns are the names that the dump has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.dump.names import ROOT, Direction, parse_name
from msprobe_builder.dump.numbers_of_names import NumbersOfNames
from msprobe_builder.graph import shared, tree
from msprobe_builder.graph.call_names import ParsedNames, WrittenNames
from msprobe_builder.graph.calls import calls_of
from msprobe_builder.pipeline import compare
from tests.builder.pipeline.test_workers import content

NAMES = [
    ROOT,
    "Module.layers.0.q_proj.Linear.forward.0",
    "Module.layers.0.q_proj.Linear.backward.0",
    "Module.layers.0.q_proj.Linear.forward.123456789",
    "Module.layers.0.q_proj.Linear.parameters_grad",
    "Module.layers.0.q_proj.Linear.parameters_grad.7",
    "Tensor.__add__.0.forward",
    "Tensor.__add__.0.backward",
    "Tensor.__add__.00.forward",  # no call number
    "Tensor.add.forward.0",  # neither a call of a module nor of an operator
    "optimizer",
    "Communication_Between_Stages.3",
    "",
    "ü.🙂.4.forward",
]


def test_names_and_their_parts_are_those_they_were_made_of() -> None:
    parsed = [parse_name(name) for name in NAMES]
    calls = calls_of(parsed)
    written, taken_apart = WrittenNames(calls), ParsedNames(calls)
    assert list(written) == NAMES
    assert list(taken_apart) == parsed
    assert [written[node] for node in range(len(NAMES))] == NAMES
    assert [taken_apart[int(node)] for node in np.arange(len(NAMES))] == parsed
    assert written[-1] == NAMES[-1]
    assert taken_apart[2:5] == parsed[2:5]
    assert all(
        one.direction is other.direction for one, other in zip(taken_apart, parsed, strict=True)
    )
    with pytest.raises(IndexError):
        written[len(NAMES)]


def test_names_are_equal_when_their_texts_are() -> None:
    one, other = (WrittenNames(calls_of([parse_name(name) for name in NAMES])) for _ in range(2))
    assert one == other
    assert one == NAMES
    assert one != NAMES[:-1]
    assert one != [*NAMES[:-1], "another"]


def test_a_number_is_found_by_name_and_by_the_parts_of_a_name() -> None:
    numbers = {name: 7 * place for place, name in enumerate(NAMES)}
    found = NumbersOfNames(numbers)
    assert dict(found) == numbers
    for other in ("Tensor.__add__.1.forward", "Tensor.__add__", "nobody.0.forward", "Optimizer"):
        assert other not in found
    asked = [*NAMES[::-1], "Tensor.__add__.1.forward", "nobody.0.forward"]
    calls = calls_of([parse_name(name) for name in asked])
    assert found.of_calls(
        calls.stems, calls.stem, calls.kind, calls.direction, calls.call
    ).tolist() == [numbers.get(name, -1) for name in asked]
    # The other direction of the same calls.
    back = calls_of([parse_name(name) for name in NAMES])
    forward = np.full(len(NAMES), Direction.FORWARD)
    own = found.of_calls(back.stems, back.stem, back.kind, forward, back.call)
    assert own[NAMES.index("Tensor.__add__.0.backward")] == numbers["Tensor.__add__.0.forward"]


def test_nothing_is_found_among_no_names() -> None:
    calls = calls_of([parse_name(name) for name in NAMES])
    found = NumbersOfNames({})
    assert len(found) == 0
    parts = calls.stems, calls.stem, calls.kind, calls.direction, calls.call
    assert found.of_calls(*parts).tolist() == [-1] * len(NAMES)


@pytest.mark.parametrize(
    ("npu", "bench"),
    [
        ("ddp2_statistics/step0", "ddp2_statistics/step1"),
        ("llama_statistics", "llama_statistics_wrong_attention_scale"),
    ],
)
def test_a_build_says_the_same_however_names_are_held(
    npu: str, bench: str, dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = BuildConfig(dumps / npu, dumps / bench, options=BuildOptions(overflow_check=True))
    usual = content(build(config, tmp_path / "usual", workers=1).path)
    for module in (tree, shared, compare):
        monkeypatch.setattr(module, "LARGE", 0)
    large = build(config, tmp_path / "large", workers=1).path
    assert content(large) == usual
