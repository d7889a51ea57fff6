"""Calls of random programs that are kept, against the rules of ``list`` and ``scope``."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given

from msprobe_collector.record.calls import Call
from msprobe_collector.record.selection import Selection
from tests.small_graphs import RANDOMS

PARTS = ("add", "Torch.mul", "torch", "MODULE", "a.Net", "layers", "nothing", "Functional")


@dataclass
class Made:
    """A call with what it calls, and when it begins and ends."""

    call: Call
    inside: list[Made] = field(default_factory=list)
    begin: int = 0
    end: int = 0


def program(random: Random) -> list[Made]:
    """Calls inside calls, each name once."""
    counters: dict[str, int] = {}
    clock = iter(range(10_000))

    def block(parent: Call | None, depth: int) -> list[Made]:
        return [one(parent, depth) for _ in range(random.randint(0, 3))]

    def one(parent: Call | None, depth: int) -> Made:
        is_module = depth < 3 and random.random() < 0.5
        stem = random.choice(
            ("Module.a.Net", "Module.layers.0.Net")
            if is_module
            else ("Torch.add", "Torch.mul", "Tensor.add")
        )
        number = counters[stem] = counters.get(stem, -1) + 1
        if is_module:
            call = Call(f"{stem}.forward.{number}", f"{stem}.backward.{number}", parent, path="a")
        else:
            call = Call(f"{stem}.{number}.forward", f"{stem}.{number}.backward", parent)
        made = Made(call, begin=next(clock))
        made.inside = block(call, depth + 1) if is_module else []
        made.end = next(clock)
        return made

    return [one for _ in range(3) for one in block(None, 0)]


def all_of(calls: list[Made]) -> list[Made]:
    return [one for made in calls for one in (made, *all_of(made.inside))]


def run(calls: list[Made], selection: Selection) -> None:
    """As the hooks do: decide when a call begins, and once more when it is over."""
    for made in calls:
        made.call.kept = selection.keep(made.call)
        run(made.inside, selection)
        if made.call.encloses and not made.call.kept and selection.lists(made.call):
            made.call.kept = True
        selection.leave(made.call.forward_name)


def is_meant(text: str, call: Call) -> bool:
    """A full name means one call; else a part of a name, or the category in any case of letters."""
    names = call.forward_name, call.backward_name
    if ".forward" in text or ".backward" in text:
        return text == call.forward_name
    category = call.forward_name.split(".")[0]
    return any(text in name for name in names) or text.lower() == category.lower()


def is_listed(names: list[str], call: Call) -> bool:
    if not names or any(is_meant(text, call) for text in names):
        return True
    around = call.parent
    while around is not None:  # which keeps all inside it, unless it is meant alone
        parts = (text for text in names if ".forward" not in text and ".backward" not in text)
        if any(is_meant(text, around) for text in parts):
            return True
        around = around.parent
    return False


@given(RANDOMS)
def test_what_is_listed_and_in_the_scope_is_kept(random: Random) -> None:
    calls = program(random)
    flat = all_of(calls)
    full = [one.call.forward_name for one in flat]
    names = random.sample([*PARTS, *full], random.choice((0, 1, 2, 3)))
    scope: list[str] = []
    begin, end = 0, 10_000
    if len(flat) > 1 and random.random() < 0.5:
        first, last = random.choices(flat, k=2)
        scope, begin, end = [first.call.forward_name, last.call.forward_name], first.begin, last.end
        if end < begin:  # what ends it is over before it begins
            end = 10_000
    run(calls, Selection(names, scope))
    for made in flat:
        holds_begin = made.begin <= begin <= made.end
        in_scope = not scope or begin <= made.begin <= end or holds_begin
        assert made.call.kept == (is_listed(names, made.call) and in_scope), (names, scope)


@given(RANDOMS)
def test_each_step_has_a_scope_of_its_own(random: Random) -> None:
    calls = program(random)
    flat = all_of(calls)
    if not flat:
        return
    first = random.choice(flat)
    selection = Selection([], [first.call.forward_name, first.call.forward_name])
    for _ in range(2):
        run(calls, selection)
        kept = {one.call.forward_name for one in flat if one.call.kept}
        wanted = {
            one.call.forward_name
            for one in flat
            if first.begin <= one.begin <= first.end or one.begin <= first.begin <= one.end
        }
        assert kept == wanted
        backward = [one.call for one in flat if selection.may_keep_backward(one.call)]
        assert not backward  # the scope is over
        selection.end_step()
        assert selection.may_keep_backward(first.call)
        for one in flat:
            one.call.kept = one.call.encloses = False


def test_a_backward_call_is_asked_for_by_the_list_or_as_an_end_of_the_scope() -> None:
    call, other = (Call(f"Torch.{n}.0.forward", f"Torch.{n}.0.backward") for n in ("add", "mul"))
    ends = Selection(["nothing"], ["Torch.add.0.backward", "Torch.sub.0.backward"])
    assert [ends.lists_backward(one) for one in (call, other)] == [True, False]
    listed = Selection(["mul"], [])
    assert [listed.lists_backward(one) for one in (call, other)] == [False, True]


def test_a_full_name_is_that_of_one_call() -> None:
    selection = Selection(["Module.a.Net.forward.1", "Torch.add.1.forward"], [])
    modules = [Call(f"Module.a.Net.forward.{n}", f"Module.a.Net.backward.{n}") for n in (0, 1, 10)]
    apis = [Call(f"Torch.add.{n}.forward", f"Torch.add.{n}.backward") for n in (0, 1, 11)]
    assert [selection.keep(call) for call in (*modules, *apis)] == [False, True, False] * 2


def test_filters_that_meet_nothing_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "msprobe_collector")
    call = Call("Torch.add.0.forward", "Torch.add.0.backward")
    selection = Selection(["add", "sub"], ["Torch.add.1.forward", "Torch.add.2.forward"])
    selection.keep(call)
    for _ in range(2):
        selection.warn_of_misses()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "'sub'" in said[0]
    assert "'Torch.add.1.forward'" in said[1]
