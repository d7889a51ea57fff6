"""Who wrote where in one memory, against the same looked up byte by byte."""

from __future__ import annotations

from random import Random

from hypothesis import given

from msprobe_builder.dump.flow_layout import Maker, Mark, Place
from msprobe_collector.record.layouts import Layout
from msprobe_collector.record.memory import Memory
from msprobe_collector.record.origins import OUTSIDE, Origin
from tests.small_graphs import RANDOMS

SIZE = 12
EMPTY = Origin(int(Maker.RECORD), "Torch.empty.0", marks=int(Mark.UNINITIALISED))


def layout_of(random: Random) -> Layout:
    """Some bytes of the memory: a stretch, or every second or third of one."""
    stride = random.choice((1, 1, 1, 2, 3))
    begin = random.randrange(SIZE)
    length = random.randint(1, (SIZE - 1 - begin) // stride + 1)
    return begin, (length,), (stride,), 1


def bytes_in(layout: Layout) -> range:
    begin, (length,), (stride,), _ = layout
    return range(begin, begin + length * stride, stride)


def stretches(random: Random) -> list[Layout]:
    """All of the memory in parts, in any order, some of them several times."""
    ends = sorted({*random.sample(range(1, SIZE), random.randint(1, 4)), SIZE})
    parts = [(begin, (end - begin,), (1,), 1) for begin, end in zip([0, *ends], ends, strict=False)]
    made: list[Layout] = [*parts, *random.sample(parts, random.randrange(len(parts)))]
    random.shuffle(made)
    return made


def writer(number: int) -> Origin:
    return Origin(int(Maker.RECORD), f"Tensor.copy_.{number}", int(Place.OUTPUT))


@given(RANDOMS)
def test_the_latest_writer_is_first_and_all_that_is_left_of_others_is_told(random: Random) -> None:
    is_empty = random.random() < 0.7
    first = EMPTY if is_empty else OUTSIDE
    memory = Memory(0, first)
    memory.unwritten = SIZE if is_empty else 0
    latest = [-1] * SIZE  # by byte, the number of the write
    writes: list[Layout] = []
    for number in range(random.randrange(8)):
        layout = layout_of(random)
        memory.write(layout, writer(number), number + 1, SIZE)
        writes.append(layout)
        for place in bytes_in(layout):
            latest[place] = number
        for asked in (layout_of(random), random.choice(writes)):
            found = memory.find(asked)
            left = {latest[place] for place in bytes_in(asked)}
            told = (found.first, *found.others)
            assert found.first == (writer(max(left)) if max(left) >= 0 else first)
            assert {writer(one) for one in left if one >= 0} <= {*told}
            assert -1 not in left or first in told
            overlapping = {
                writer(one)
                for one, layout in enumerate(writes)
                if {*bytes_in(layout)} & {*bytes_in(asked)}
            }
            assert {*told} <= overlapping | {first}
            whole = [
                one
                for one, layout in enumerate(writes)
                if layout[2] == (1,) and {*bytes_in(asked)} <= {*bytes_in(layout)}
            ]
            if whole:  # what was there before is gone
                assert {*told} <= {writer(one) for one in range(whole[-1], len(writes))}
            if is_empty and -1 in left:
                assert found.marks & Mark.UNINITIALISED
    assert memory.version == len(writes) == memory.changes


@given(RANDOMS)
def test_what_was_given_out_empty_is_written_when_all_of_it_is(random: Random) -> None:
    memory = Memory(0, EMPTY)
    memory.unwritten = SIZE
    unwritten = {*range(SIZE)}
    for number, layout in enumerate(stretches(random)):
        memory.write(layout, writer(number), number + 1, SIZE)
        unwritten -= {*bytes_in(layout)}
        for _ in range(3):
            asked = layout_of(random)
            has_gap = bool(unwritten & {*bytes_in(asked)})
            # Of before the last part was written, perhaps.
            is_known = memory.known(asked) is not None
            marks = memory.find(asked).marks
            assert not has_gap or marks & Mark.UNINITIALISED
            assert unwritten or is_known or not marks & Mark.UNINITIALISED
    assert not unwritten


def test_a_write_to_all_of_it_leaves_nothing_of_others() -> None:
    for layout in (None, (0, (SIZE,), (1,), 1), (0, (3, 4), (4, 1), 1)):
        memory = Memory(0, EMPTY)
        memory.unwritten = SIZE
        memory.write((0, (4,), (1,), 1), writer(0), 1, SIZE)
        memory.write(layout, writer(1), 2, SIZE)
        for asked in ((0, (SIZE,), (1,), 1), (2, (4,), (1,), 1)):
            found = memory.find(asked)
            assert (found.first, found.others) == (writer(1), ())
            assert not found.marks & Mark.UNINITIALISED
