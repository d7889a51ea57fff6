"""Stacks in segments are those that Python itself shows."""

from __future__ import annotations

import sys
import threading
import traceback
from types import FrameType

from msprobe_collector.record.stack import Stacks


def shown(frame: FrameType) -> list[str]:
    """The frames of a stack, innermost first, as records of stacks write them."""
    return [
        f"File {one.filename}, line {one.lineno}, in {one.name}, \n {one.line}"
        for one in reversed(traceback.extract_stack(frame))
    ]


def caller() -> FrameType:
    frame = sys._getframe(1).f_back
    assert frame is not None
    return frame


def check(stacks: Stacks) -> FrameType:
    """The stack of who calls this, at once and in two and three segments."""
    frame = caller()
    whole = shown(frame)
    assert stacks.lines(stacks.capture(frame)) == whole
    outer = frame.f_back
    assert outer is not None
    assert outer.f_back is not None
    lowest = stacks.capture(outer.f_back)
    middle = stacks.capture(outer, outer, lowest)
    assert stacks.lines(stacks.capture(frame, outer, lowest)) == whole
    assert stacks.lines(stacks.capture(frame, frame, middle)) == whole
    return frame


def test_segments_make_up_the_whole() -> None:
    stacks = Stacks()

    def inner() -> None:
        check(stacks)

    def outer() -> None:
        inner()
        inner()

    outer()
    outer()


# fmt: off
def test_what_is_written_in_several_lines_stands_where_python_says() -> None:
    stacks = Stacks()

    def given(first: Stacks, second: int) -> int:
        check(first)
        return second

    def outer() -> int:
        return given(
            stacks,
            given(
                stacks,
                1,
            ),
        ) + given(stacks, 2)

    class Checked:
        def __add__(self, other: int) -> int:
            check(stacks)
            return other

    def added(one: Checked) -> int:
        return (
            one
            + len(
                "four"
            )
        )

    assert outer() == 3
    assert added(Checked()) == 4
# fmt: on


def test_equal_stacks_have_one_number() -> None:
    stacks = Stacks()
    numbers = [stacks.capture(sys._getframe()) for _ in range(3)]
    assert len(set(numbers)) == 1
    assert stacks.capture(sys._getframe()) != numbers[0]  # another line


def test_what_is_below_in_another_thread_is_not_below_here() -> None:
    stacks = Stacks()
    base = sys._getframe()
    below = stacks.capture(base)
    found: list[list[str]] = []

    def run() -> None:
        frame = sys._getframe()
        found.append(stacks.lines(stacks.capture(frame, base, below)))
        found.append(stacks.lines(stacks.capture(frame)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    [with_base, alone] = found
    assert len(with_base) == len(alone)
    assert not set(stacks.lines(below)) & set(with_base)


def test_a_stack_of_nothing_is_empty() -> None:
    stacks = Stacks()
    assert stacks.lines(stacks.capture(None)) == []
