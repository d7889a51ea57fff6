"""Whom a call names: by the rank in the job, or by the place in a group."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.link.calls import Call, Group, group_of
from msprobe_builder.link.signatures import function_of
from tests.builder.small_dumps import Record, communicate, group, number, tensor, write_dump

DATA = tensor(3.0)


def linked(folder: Path, records: dict[int, dict[str, Record]]) -> set[tuple[int, int]]:
    """Ranks of each sender with its receiver."""
    for rank, calls in records.items():
        write_dump(folder / "dump" / f"rank{rank}", calls)
    result = build(BuildConfig(folder / "dump"), folder / "out", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        rows = connection.execute(
            "SELECT a.rank, b.rank FROM communication JOIN node_view AS a USING (node_id)"
            " JOIN node_view AS b ON b.node_id = partner_id WHERE role = 0"
        )
        return set(rows)


@pytest.mark.parametrize(("place", "receiver"), [(0, 5), (1, 2), (2, 7)])
def test_a_place_in_a_group_is_counted_from_its_first_rank(
    tmp_path: Path, place: int, receiver: int
) -> None:
    """The group lists ranks 5, 2 and 7; rank 0 sends to one of its places."""
    members = group(5, 2, 7)
    send = communicate(DATA, group=members, group_dst=number(place))
    get = communicate(DATA, group=members, src=number(0))
    records = {rank: {"Distributed.recv.0.forward": get} for rank in (2, 5, 7)}
    records[0] = {"Distributed.send.0.forward": send}
    assert linked(tmp_path, records) == {(0, receiver)}


@pytest.mark.parametrize("place", [-1, 3])
def test_a_place_outside_of_the_group_is_nobody(tmp_path: Path, place: int) -> None:
    members = group(1, 2, 3)
    send = communicate(DATA, group=members, group_dst=number(place))
    get = communicate(DATA, group=members, src=number(0))
    records = {rank: {"Distributed.recv.0.forward": get} for rank in (1, 2, 3)}
    records[0] = {"Distributed.send.0.forward": send}
    assert linked(tmp_path, records) == set()


def test_without_a_place_the_number_is_the_rank(tmp_path: Path) -> None:
    members = group(1, 2)
    records = {
        1: {"Distributed.send.0.forward": communicate(DATA, group=members, dst=number(2))},
        2: {"Distributed.recv.0.forward": communicate(DATA, group=members, src=number(1))},
    }
    assert linked(tmp_path, records) == {(1, 2)}


@pytest.mark.parametrize(
    ("text", "group"),
    [
        (None, Group("67e9e248", (0, 1, 2, 3))),  # crc32 of "[0, 1, 2, 3]"
        ("[5, 2]", Group("9449413f", (5, 2))),
        ("a1b2c3d4", Group("a1b2c3d4", None)),
        ('{"ranks": [0]}', Group('{"ranks": [0]}', None)),
        ("[true, 1]", Group("[true, 1]", None)),
        ('["0"]', Group('["0"]', None)),
        ("7", Group("7", None)),
    ],
)
def test_a_group_is_known_by_its_ranks_or_by_its_text_alone(text: str | None, group: Group) -> None:
    arguments = {} if text is None else {("group", ""): text}
    known = function_of("Distributed.send")
    assert known is not None
    call = Call(1, 0, "send", 0, known[1], arguments, {}, {}, is_recorded=True)
    assert group_of(call, (0, 1, 2, 3)) == group
