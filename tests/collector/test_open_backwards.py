"""Backward calls that are open at once: which is around which, and who waits for whom."""

from __future__ import annotations

from random import Random

from hypothesis import given

from msprobe_collector.record.calls import Call
from msprobe_collector.record.gradients import Backward, OpenBackwards
from tests.small_graphs import RANDOMS

PATHS = ("a", "a.b", "a.b.c", "ab", "ab.c", "")  # "" of an API


def backward_of(random: Random, number: int, calls: list[Call]) -> Backward:
    path = random.choice(PATHS)
    parent = random.choice([None, *calls])
    call = Call(f"forward.{number}", f"backward.{number}", parent, path=path)
    backward = Backward(call, 0, 0, lambda _gradient, _where: None, lambda one, _other: one, False)
    backward.task = random.randrange(3)
    backward.is_over = random.random() < 0.3
    return backward


@given(RANDOMS)
def test_the_innermost_open_module_is_around_what_lies_in_its_path(random: Random) -> None:
    opened = OpenBackwards()
    calls: list[Call] = []
    listed: list[Backward] = []
    for number in range(random.randint(0, 8)):
        backward = backward_of(random, number, calls)
        calls.append(backward.call)
        listed.append(backward)
        opened.add(backward)
    for backward in random.sample(listed, len(listed) // 3):
        listed.remove(backward)
        opened.remove(backward)
        opened.remove(backward)  # once more does no harm
    assert opened.all() == listed
    for task in range(3):
        assert opened.of_task(task) == [one for one in listed if one.task == task]
    modules = [one.call for one in listed if one.call.path]
    for path in PATHS:
        above = [
            one for one in modules if f"{path}.".startswith(f"{one.path}.") and one.path != path
        ]
        around = above if path else modules
        assert opened.enclosing(path) is (around[-1] if around else None)
    for call in calls:
        assert opened.has_inside(call) == any(one.call.parent is call for one in listed)
        waiting = [one for one in listed if one.is_over and one.call is call.parent]
        assert opened.waiting_for(call) is (waiting[0] if waiting else None)
