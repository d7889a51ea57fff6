"""What to record next: which modules, steps and ranks, and how many bytes that is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from msprobe_builder.verdict.ruling.next_dump import (
    BISECTING,
    IN_BETWEEN,
    Surroundings,
    TensorKind,
    all_tensors,
    earlier_dump,
    next_dump,
    steps_before,
)

FLOATS = TensorKind("[4, 6]", "torch.float32", 3, 2)
HALVES = TensorKind("(8,)", "torch.bfloat16", 2, 2)


def around(*names: str, **changes: Any) -> Surroundings:
    given: dict[str, Any] = {
        "step": 2,
        "ranks": (0,),
        "level": "mix",
        "names": names,
        "is_of_some": False,
        "calls": 5,
        "stacks": 100,
        "tensors": (FLOATS, HALVES),
    }
    return Surroundings(**(given | changes))


def proposed(*suspects: Surroundings) -> dict[str, Any]:
    text = next_dump(suspects)
    assert text is not None
    found: dict[str, Any] = json.loads(text)
    return found


# By hand: 350 a call, 100 of stacks; 500 a tensor, 4 bytes an element of float32, 2 of bfloat16.
TENSORS = 3 * 500 + 24 * 4 * 2 + 2 * 500 + 8 * 2 * 2


def test_the_module_around_a_suspect_is_listed_on_its_rank_and_step() -> None:
    found = proposed(around("layers.1.Layer", "blocks.1.Block"))
    assert found["config"] == {
        "task": "tensor",
        "level": "mix",
        "dump_path": "./next_dump",
        "step": [2],
        "rank": [0],
        "tensor": {"list": ["blocks.1.Block.", "layers.1.Layer."]},
    }
    assert found["expected_bytes"] == 5 * 350 + 100 + TENSORS


def test_several_suspects_are_recorded_at_once() -> None:
    found = proposed(around("a.A"), around("b.B", step=4, ranks=(2, 1)))
    config = found["config"]
    assert (config["step"], config["rank"]) == ([2, 4], [0, 1, 2])
    assert config["tensor"] == {"list": ["a.A.", "b.B."]}
    assert found["expected_bytes"] == 2 * (5 * 350 + 100 + TENSORS) * 2 * 3


def test_nothing_is_counted_twice() -> None:
    assert next_dump([]) is None
    one = around("a.A")
    assert proposed(one, one) == proposed(one)


@pytest.mark.parametrize("names", [(), ("b.B",)])
def test_all_is_recorded_where_the_best_suspect_stands_in_no_module(names: tuple[str, ...]) -> None:
    found = proposed(around(), around(*names))
    assert found["config"]["tensor"] == {}
    assert found["expected_bytes"] == 5 * 350 + 100 + TENSORS


def test_a_dump_of_modules_alone_needs_calls_first() -> None:
    found = proposed(around("a.A", level="L0"))
    assert (found["config"]["task"], found["config"]["statistics"]) == (
        "statistics",
        {"list": ["a.A."]},
    )

    assert found["expected_bytes"] == round(1.1 * 5 * (350 + 2.5 * 250)) + 100
    many = proposed(around("a.A", level="L0", calls=40))
    assert many["expected_bytes"] == 40 * (350 + 625) + 100


def test_a_module_inside_of_another_is_recorded_with_it() -> None:
    outer, inner = around("Module.net.Net"), around("Module.net.mlp.Mlp", calls=2)
    assert proposed(inner, outer)["expected_bytes"] == proposed(outer)["expected_bytes"]
    beside = around("Module.network.Net")
    assert proposed(beside, outer)["expected_bytes"] == 2 * proposed(outer)["expected_bytes"]


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("Module.layers.3.mlp.Mlp", ".mlp.Mlp."),
        ("Module.layers.3.experts.12.Expert", ".Expert."),
        ("Module.head.Linear", ".head.Linear."),
    ],
)
def test_what_some_ranks_hold_is_listed_without_their_numbers(name: str, listed: str) -> None:
    found = proposed(around(name, is_of_some=True))
    assert found["config"]["tensor"] == {"list": [listed]}


@pytest.mark.parametrize(
    ("step", "recorded", "steps", "said"),
    [
        (5, [4], [4, 5], (IN_BETWEEN,)),
        (5, [3, 4, 7], [4, 5], (IN_BETWEEN,)),
        (9, [1], [3, 5, 7], (BISECTING, IN_BETWEEN)),
        (4, [1], [2, 3], (BISECTING, IN_BETWEEN)),
        (8, [], [0, 4, 7], (BISECTING, IN_BETWEEN)),
        (8, [9], [0, 4, 7], (BISECTING, IN_BETWEEN)),
        (1, [], [0], (BISECTING, IN_BETWEEN)),
    ],
)
def test_between_steps_that_agree_and_not_half_of_them_is_looked_at(
    step: int, recorded: list[int], steps: list[int], said: tuple[Any, ...]
) -> None:
    assert steps_before(step, recorded) == (steps, said)


def test_nothing_stands_before_the_first_step() -> None:
    assert steps_before(0, []) is None


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_earlier_steps_are_recorded_with_statistics(level: str) -> None:
    whole = around(level=level, ranks=(0, 1))
    found = json.loads(earlier_dump(whole, [0, 3], (BISECTING,)))
    assert found["config"]["task"] == "statistics"
    assert (found["config"]["step"], found["config"]["rank"]) == ([0, 3], [0, 1])
    assert [one["code"] for one in found["remark"]] == ["next_dump.bisecting"]
    if level == "mix":
        assert found["expected_bytes"] == (5 * 350 + 100 + 5 * 250) * 2 * 2
    assert json.loads(earlier_dump(around(calls=0), [0], ()))["expected_bytes"] is None


def test_where_rounding_hides_a_fault_all_tensors_are_recorded() -> None:
    found = json.loads(all_tensors(around(ranks=(0, 1))))
    assert found["config"]["task"] == "tensor"
    assert (found["config"]["step"], found["config"]["rank"]) == ([2], [0, 1])
    assert (found["config"]["level"], found["config"]["tensor"]) == ("mix", {})
    assert [one["code"] for one in found["remark"]] == ["next_dump.each_again"]
    assert found["expected_bytes"] == 2 * (5 * 350 + 100 + TENSORS)
    of_modules = json.loads(all_tensors(around(level="L0")))
    assert (of_modules["config"]["level"], of_modules["expected_bytes"]) == ("mix", None)
