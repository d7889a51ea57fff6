"""What explains a difference as well, and is no fault: each on a recording that it alone explains.

Beside each stands the same recording without it, in which the call is accused for certain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder.base.codes import Strength
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.judge import judge_pair
from msprobe_builder.verdict.ruling.judged import Suspect
from tests.builder.small_dumps import Record, number
from tests.builder.verdict.columns import STATISTICS, Run, compared, measured

Array = NDArray[Any]
SHAPE = (12, 10)


CALLED = ("Torch.sinh", "Torch.gather", "Torch.tanh", "Tensor.__getitem__")


class Chain:
    """Calls behind one another, of which one is wrong in this run, and all that follow carry."""

    def __init__(self, is_debug: bool, *, seed: int = 0) -> None:
        self.run, self.is_debug = Run(), is_debug
        self.rng = np.random.default_rng(seed)
        self.noise = np.random.default_rng(seed + 1)
        self.x = self.rng.normal(size=SHAPE)
        self.calls = 0

    def calm(self, times: int) -> None:
        """Calls in which nothing happens."""
        for _ in range(times):
            given, self.x = self.x, np.tanh(self.x) * 1.3
            name = f"Torch.tanh.{self.calls}.forward"
            self.calls += 1
            self.run.call(name, [measured(given)], [measured(self.x)])

    def wrong(
        self,
        name: str = "Torch.sinh.0.forward",
        *,
        share: float = 0.1,
        given: list[Record] | None = None,
        beside: list[Any] | None = None,
    ) -> None:
        """A call that puts out something else in this run, off by a share of its size."""
        before = [measured(self.x)] if given is None else given
        made = np.sinh(self.x)
        noise = self.noise.normal(size=SHAPE) * np.sqrt((made**2).mean())
        self.x = made + share * noise if self.is_debug else made
        self.run.call(name, before + (beside or []), [measured(self.x)])


def first(make: Callable[[bool], Run]) -> Suspect:
    result = compared(make(True), make(False))
    found = judge_pair(result)
    assert found is not None
    one = found.suspects[0]
    assert result.npu.tree.names[one.node].startswith(CALLED)
    return one


def codes(one: Suspect) -> list[str]:
    return [fact.code for fact in one.evidence]


def unknown_input(is_debug: bool, *, is_known: bool, both: bool = False) -> Run:
    """What went into the call has no numbers, on one side or on both."""
    chain = Chain(is_debug)
    chain.calm(6)
    given = measured(chain.rng.normal(size=SHAPE))
    if not is_known and (both or is_debug):
        given = {**given, **dict.fromkeys(STATISTICS)}
    chain.wrong(given=[measured(chain.x), given])
    chain.calm(6)
    return chain.run


@pytest.mark.parametrize("both", [True, False])
def test_what_was_given_is_not_known(both: bool) -> None:
    sure = first(lambda debug: unknown_input(debug, is_known=True))
    assert (sure.strength, sure.cause) == (Strength.STRONG, Cause.OUTPUT)
    doubted = first(lambda debug: unknown_input(debug, is_known=False, both=both))
    assert doubted.strength is Strength.WEAK
    assert "rival.unknown" in codes(doubted)
    assert "rival.unknown" not in codes(sure)


def by_places(is_debug: bool, *, has_places: bool, share: float, name: str) -> Run:
    """A call that is given whole numbers, of which no statistic tells the order."""
    chain = Chain(is_debug)
    chain.calm(6)
    places = measured(np.arange(120).reshape(SHAPE) % 10, "int64")
    chain.wrong(f"{name}.0.forward", share=share, beside=[places] if has_places else [])
    chain.calm(6)
    return chain.run


@pytest.mark.parametrize("name", ["Torch.sinh", "Torch.gather"])
@pytest.mark.parametrize(("share", "is_doubted"), [(0.1, True), (0.0015, False)])
def test_what_was_chosen_may_stand_at_other_places(
    name: str, share: float, is_doubted: bool
) -> None:
    """Other elements are off by more than 0.2 %."""
    found = first(lambda debug: by_places(debug, has_places=True, share=share, name=name))
    assert ("rival.places" in codes(found)) is is_doubted
    assert (found.strength is Strength.WEAK) is is_doubted
    if name != "Torch.gather":
        sure = first(lambda debug: by_places(debug, has_places=False, share=share, name=name))
        assert sure.strength is Strength.STRONG


def listed(is_debug: bool, *, moves: bool) -> Run:
    """Elements are taken by a list that differs; ``moves`` says whether anything before does."""
    chain = Chain(is_debug)
    chain.calm(3)
    if moves and is_debug:
        chain.x = chain.x * (1 + 1e-6 * chain.noise.normal(size=SHAPE))
    chain.calm(3)
    places = [{"type": "int", "value": one} for one in ((1, 0) if is_debug else (0, 1))]
    chain.wrong("Tensor.__getitem__.0.forward", share=0.5, beside=[[places]])
    chain.calm(20)
    return chain.run


@pytest.mark.parametrize("moves", [True, False])
def test_a_list_may_be_chosen_by_what_noise_has_moved(moves: bool) -> None:
    """What differs behind it looks like noise of the whole run, and has chosen nothing."""
    found = first(lambda debug: listed(debug, moves=moves))
    assert found.cause is Cause.ARGUMENT
    assert ("rival.chosen" in codes(found)) is moves
    assert (found.strength is Strength.WEAK) is moves


def reordered(is_debug: bool, *, differ: int, is_weight: bool = False) -> Run:
    """Data, or a weight, of which some have the same elements in another order in this run."""
    chain = Chain(is_debug)
    chain.calm(4)
    for place in range(12):
        record = measured(chain.rng.normal(size=(7, 5)))
        if is_debug and place < differ:
            record = {**record, "Norm": record["Norm"] * (1 + 3e-7), "Mean": record["Mean"] + 1e-7}
        data = measured(chain.rng.normal(size=(3, 3)))
        if place:
            chain.run.call(f"Torch.exp.{place - 1}.forward", [record], [data])
        elif is_weight:
            module = "Module.map.Linear.forward.0"
            chain.run.call(module, [measured(chain.x)], [], parameters={"weight": record})
            chain.wrong(given=[measured(chain.x), record])
            chain.run.within["Torch.sinh.0.forward"] = module
            chain.run.data[module]["output"] = [measured(chain.x)]
        else:
            chain.wrong(given=[measured(chain.x), record])
    chain.calm(4)
    return chain.run


def test_data_in_another_order_explains_what_is_made_of_it() -> None:
    found = first(lambda debug: reordered(debug, differ=1))
    assert (found.strength, "rival.places" in codes(found)) == (Strength.WEAK, True)


def test_a_weight_in_another_order_explains_nothing() -> None:
    found = first(lambda debug: reordered(debug, differ=1, is_weight=True))
    assert (found.strength, "rival.places" in codes(found)) == (Strength.STRONG, False)


@pytest.mark.parametrize(("differ", "is_sure"), [(0, True), (2, False), (3, False), (12, False)])
def test_where_many_sums_differ_a_recorder_takes_them_otherwise(differ: int, is_sure: bool) -> None:
    """The call may be given other elements in any case; only of few it is told that they are."""
    found = first(lambda debug: reordered(debug, differ=differ))
    assert found.error > 0.01
    assert (found.strength is Strength.STRONG) is is_sure


def summed(is_debug: bool, *, is_recorded: bool) -> Run:
    """A gradient that two uses of a tensor give back, and no call puts together."""
    chain = Chain(is_debug)
    chain.calm(8)
    run = chain.run
    g = chain.rng.normal(size=SHAPE)
    for place in range(7, 2, -1):
        made = g * 0.9
        run.call(f"Torch.tanh.{place}.backward", [measured(g)], [measured(made)])
        g = made
    other = g + chain.rng.normal(size=SHAPE)
    if is_debug:
        other = other + 0.1 * chain.noise.normal(size=SHAPE)
    if is_recorded:
        run.call("Torch.add.0.backward", [measured(g)], [measured(other)])
    g = other
    for place in range(2, -1, -1):
        made = g * 0.9
        run.call(f"Torch.tanh.{place}.backward", [measured(g)], [measured(made)])
        g = made
    return run


def test_a_gradient_is_the_sum_of_what_several_give_back() -> None:
    doubted = first(lambda debug: summed(debug, is_recorded=False))
    assert doubted.strength is Strength.WEAK
    assert "rival.sum_of_uses" in codes(doubted)


def taken_again(is_debug: bool, *, meets: bool) -> Run:
    """Another formula of this run, behind which all agrees, or does not."""
    chain = Chain(is_debug)
    chain.calm(5)
    x = chain.x
    if is_debug:
        half = x / 2 if meets else x / 3
        chain.run.call("Torch.div.0.forward", [measured(x), number(2.0)], [measured(half)])
        chain.run.call("Torch.sinh.0.forward", [measured(half)], [measured(half * 2)])
        chain.x = half * 2
    else:
        chain.run.call("Torch.sinh.0.forward", [measured(x)], [measured(x)])
    chain.calm(8)
    return chain.run


def test_what_meets_again_is_a_doubt() -> None:
    result = judge_pair(compared(taken_again(True, meets=True), taken_again(False, meets=True)))
    assert result is not None
    assert not [one for one in result.suspects if one.strength is Strength.STRONG]
    other = judge_pair(compared(taken_again(True, meets=False), taken_again(False, meets=False)))
    assert other is not None
    assert [one.strength for one in other.suspects][:1] == [Strength.STRONG]
