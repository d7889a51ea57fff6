"""Every function of torch.distributed in every call style, on hand-made records of three ranks."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.link.pairing import ALL_PAIRS
from tests.builder.small_dumps import Record, communicate, group, number, tensor, write_dump

RANKS = (0, 1, 2)
EMPTY = tensor(0.0, high=0.0, low=0.0)
WORLD = group(0, 1, 2)
# Links as (rank, partner, role, data_equal).
Links = set[tuple[int, int, str, int | None]]


def data(rank: int, to: int = 0) -> Record:
    """A tensor that only this rank has."""
    return tensor(10.0 + rank + to / 8, high=1.0 + rank + to / 8)


def links(folder: Path, calls: Callable[[int], dict[str, Record]]) -> sqlite3.Connection:
    for rank in RANKS:
        write_dump(folder / "dump" / f"rank{rank}", calls(rank))
    result = build(BuildConfig(folder / "dump"), folder / "out", name="c.vis.db", workers=1)
    return sqlite3.connect(result.path)


def found(connection: sqlite3.Connection) -> Links:
    words = ("send", "receive", "send_receive")
    rows = connection.execute(
        "SELECT a.rank, b.rank, role, data_equal FROM communication"
        " JOIN node_view AS a USING (node_id) JOIN node_view AS b ON b.node_id = partner_id"
    )
    return {(a, b, words[role], equal) for a, b, role, equal in rows}


def findings(connection: sqlite3.Connection) -> dict[str, tuple[int, str]]:
    rows = connection.execute(
        "SELECT code, count, subject FROM diagnostic WHERE code GLOB 'communication*'"
    )
    return {code: (count, subject) for code, count, subject in rows}


def from_root(root: int, equal: int | None) -> Links:
    others = [rank for rank in RANKS if rank != root]
    return {(root, rank, "send", equal) for rank in others} | {
        (rank, root, "receive", equal) for rank in others
    }


def to_root(root: int, equal: int | None) -> Links:
    swap = {"send": "receive", "receive": "send"}
    return {(a, b, swap[role], same) for a, b, role, same in from_root(root, equal)}


def everyone(equal: int | None) -> Links:
    return {(a, b, "send_receive", equal) for a in RANKS for b in RANKS if a != b}


def broadcast(rank: int, *rest: Any, **keywords: Any) -> Record:
    after = [data(1), *rest, *keywords.values()]
    return communicate(data(1) if rank == 1 else EMPTY, *rest, after=after, **keywords)


def all_gather(rank: int, *rest: Any, **keywords: Any) -> Record:
    full = [data(other) for other in RANKS]
    after = [full, data(rank), *rest, *keywords.values()]
    return communicate([EMPTY] * 3, data(rank), *rest, after=after, **keywords)


def all_to_all(rank: int, *rest: Any) -> Record:
    sent = [data(rank, to) for to in RANKS]
    got = [data(other, rank) for other in RANKS]
    return communicate([EMPTY] * 3, sent, *rest, after=[got, sent, *rest])


def scatter(rank: int) -> Record:
    pieces = [data(0, to) for to in RANKS] if rank == 0 else None
    return communicate(EMPTY, pieces, src=number(0), after=[data(0, rank), pieces, number(0)])


def gather(rank: int, **keywords: Any) -> Record:
    place = [EMPTY] * 3 if rank == 2 else None
    full = [data(other) for other in RANKS] if rank == 2 else None
    after = [data(rank), full, *keywords.values()]
    return communicate(data(rank), gather_list=place, after=after, **keywords)


def into_tensor(rank: int, **keywords: Any) -> Record:
    return communicate(EMPTY, data(rank), after=[tensor(30.0), data(rank)], **keywords)


@pytest.mark.parametrize(
    ("function", "record", "expected"),
    [
        ("broadcast", lambda rank: broadcast(rank, number(1)), from_root(1, 1)),
        ("broadcast", lambda rank: broadcast(rank, src=number(1)), from_root(1, 1)),
        ("broadcast", lambda rank: broadcast(rank, number(1), WORLD), from_root(1, 1)),
        ("broadcast", lambda rank: broadcast(rank, src=number(1), group=WORLD), from_root(1, 1)),
        ("broadcast", lambda rank: broadcast(rank, group=WORLD, group_src=number(1)),
         from_root(1, 1)),
        ("broadcast_object_list", lambda _: communicate([number("x")], number(1)),
         from_root(1, None)),
        ("scatter", scatter, from_root(0, 1)),
        ("scatter_object_list", lambda _: communicate([None], None, number(0)), from_root(0, None)),
        ("reduce", lambda rank: communicate(data(rank), number(2)), to_root(2, None)),
        ("reduce", lambda rank: communicate(data(rank), dst=number(2), op=number("SUM")),
         to_root(2, None)),
        ("gather", lambda rank: gather(rank, dst=number(2)), to_root(2, 1)),
        ("gather", lambda rank: gather(rank, group=WORLD, group_dst=number(2)), to_root(2, 1)),
        ("gather_object", lambda _: communicate(number("x"), None, number(2)), to_root(2, None)),
        ("all_reduce", lambda rank: communicate(data(rank), after=[tensor(9.0)]), everyone(1)),
        ("all_reduce", lambda rank: communicate(data(rank), number("SUM"), WORLD,
         after=[tensor(9.0), number("SUM"), WORLD]), everyone(1)),
        ("all_reduce", lambda rank: communicate(tensor=data(rank), group=WORLD,
         async_op=number(True), after=[tensor(9.0), WORLD, number(True)]), everyone(1)),
        ("all_reduce", lambda rank: communicate(data(rank), after=[]), everyone(None)),
        ("all_gather", all_gather, everyone(1)),
        ("all_gather", lambda rank: all_gather(rank, WORLD), everyone(1)),
        ("all_gather", lambda rank: all_gather(rank, group=WORLD), everyone(1)),
        ("all_gather_into_tensor", into_tensor, everyone(1)),
        ("_all_gather_base", lambda rank: into_tensor(rank, group=WORLD), everyone(1)),
        ("all_gather_object", lambda _: communicate([None], number("x")), everyone(None)),
        ("all_to_all", all_to_all, everyone(1)),
        ("all_to_all", lambda rank: all_to_all(rank, WORLD), everyone(1)),
        ("all_to_all_single", into_tensor, everyone(None)),
        ("reduce_scatter", lambda rank: communicate(EMPTY, [data(rank)] * 3), everyone(None)),
        ("reduce_scatter_tensor", into_tensor, everyone(None)),
        ("_reduce_scatter_base", lambda rank: communicate(output=EMPTY, input=data(rank)),
         everyone(None)),
        ("barrier", lambda _: communicate(), everyone(None)),
        ("barrier", lambda _: communicate(group=WORLD), everyone(None)),
        ("monitored_barrier", lambda _: communicate(), everyone(None)),
        ("one_of_tomorrow", lambda rank: communicate(data(rank), group=WORLD), everyone(None)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["Distributed", "MintDistributed"])
def test_collectives(
    tmp_path: Path,
    prefix: str,
    function: str,
    record: Callable[[int], Record],
    expected: Links,
) -> None:
    connection = links(tmp_path, lambda rank: {f"{prefix}.{function}.0.forward": record(rank)})
    assert found(connection) == expected
    assert findings(connection) == {}


def peer_to_peer(send: str, receive: str, *rest: Any, **keywords: Any) -> Callable[[int], Any]:
    """Rank 0 sends to rank 1; ``rest`` and ``keywords`` hold P for the peer."""

    def calls(rank: int) -> dict[str, Record]:
        def filled(value: Any) -> Any:
            return number(1 - rank) if value == "P" else value

        given = [filled(value) for value in rest]
        named = {
            key.replace("X", "dst" if rank == 0 else "src"): filled(value)
            for key, value in keywords.items()
        }
        if rank == 2:
            return {"Torch.add.0.forward": communicate(EMPTY)}
        if rank == 0:
            return {f"Distributed.{send}.0.forward": communicate(data(0), *given, **named)}
        after = [data(0), *given, *named.values()]
        call = communicate(EMPTY, *given, after=after, **named)
        return {f"Distributed.{receive}.0.forward": call}

    return calls


@pytest.mark.parametrize("send", ["send", "isend"])
@pytest.mark.parametrize("receive", ["recv", "irecv"])
@pytest.mark.parametrize(
    ("rest", "keywords"),
    [
        (["P"], {}),
        (["P", WORLD], {}),
        (["P", group(1, 0)], {}),
        (["P", None, number(7)], {}),
        ([], {"X": "P"}),
        ([], {"X": "P", "group": group(0, 1), "tag": number(7)}),
        ([], {"group": group(0, 1), "group_X": "P"}),
    ],
)
def test_send_and_receive(
    tmp_path: Path, send: str, receive: str, rest: list[Any], keywords: dict[str, Any]
) -> None:
    connection = links(tmp_path, peer_to_peer(send, receive, *rest, **keywords))
    assert found(connection) == {(0, 1, "send", 1), (1, 0, "receive", 1)}
    assert findings(connection) == {}


def operation(kind: str, peer: int, content: Record) -> Record:
    return {
        "class_type": "torch.distributed.P2POp",
        "tensor": content,
        "op": kind,
        "peer": peer,
        "tag": 0,
        "group_id": "11e7d1c8",
    }


def test_a_batch_has_one_link_for_each_operation(tmp_path: Path) -> None:
    """A ring: each rank sends to the next and receives from the one before."""

    def calls(rank: int) -> dict[str, Record]:
        after, before = (rank + 1) % 3, (rank - 1) % 3
        send = operation("isend", after, data(rank))
        given = [send, operation("irecv", before, EMPTY)]
        done = [send, operation("irecv", before, data(before))]
        call = communicate(given, after=[done])
        return {"Distributed.batch_isend_irecv.0.forward": call}

    connection = links(tmp_path, calls)
    assert found(connection) == {(rank, (rank + 1) % 3, "send", 1) for rank in RANKS} | {
        (rank, (rank - 1) % 3, "receive", 1) for rank in RANKS
    }


def test_a_batch_that_has_not_arrived_says_nothing_about_the_data(tmp_path: Path) -> None:
    def calls(rank: int) -> dict[str, Record]:
        kind = ("isend", "irecv", "")[rank]
        if not kind:
            return {"Torch.add.0.forward": communicate(EMPTY)}
        content = data(0) if rank == 0 else EMPTY
        name = "Distributed.batch_isend_irecv.0.forward"
        return {name: communicate([operation(kind, 1 - rank, content)])}

    connection = links(tmp_path, calls)
    assert found(connection) == {(0, 1, "send", None), (1, 0, "receive", None)}


def test_receive_from_anyone_takes_what_has_its_data(tmp_path: Path) -> None:
    def calls(rank: int) -> dict[str, Record]:
        if rank == 2:
            return {
                f"Distributed.recv.{i}.forward": communicate(EMPTY, after=[data(1 - i)])
                for i in (0, 1)
            }
        return {"Distributed.send.0.forward": communicate(data(rank), number(2))}

    connection = links(tmp_path, calls)
    rows = connection.execute(
        "SELECT a.name, b.rank, data_equal FROM communication JOIN node_view AS a USING (node_id)"
        " JOIN node_view AS b ON b.node_id = partner_id WHERE role = 1 ORDER BY 1"
    ).fetchall()
    assert rows == [("Distributed.recv.0.forward", 1, 1), ("Distributed.recv.1.forward", 0, 1)]


def test_the_kth_call_belongs_to_the_kth(tmp_path: Path) -> None:
    """Two groups and two functions at once do not shift each other's order."""

    def calls(rank: int) -> dict[str, Record]:
        result = {}
        if rank < 2:
            for i in range(3):
                result[f"Distributed.all_reduce.{i}.forward"] = communicate(
                    data(0), group=group(0, 1), after=[data(i), group(0, 1)]
                )
        number_of_all = 3 if rank < 2 else 0
        result[f"Distributed.all_reduce.{number_of_all}.forward"] = communicate(
            data(0), after=[data(9)]
        )
        return result

    connection = links(tmp_path, calls)
    rows = connection.execute(
        "SELECT a.rank, a.name, b.rank, b.name, data_equal FROM communication"
        " JOIN node_view AS a USING (node_id) JOIN node_view AS b ON b.node_id = partner_id"
        " WHERE a.rank < b.rank ORDER BY 1, 2, 3"
    ).fetchall()
    reduce = [f"Distributed.all_reduce.{i}.forward" for i in range(4)]
    assert rows == [
        (0, reduce[0], 1, reduce[0], 1),
        (0, reduce[1], 1, reduce[1], 1),
        (0, reduce[2], 1, reduce[2], 1),
        (0, reduce[3], 1, reduce[3], 1),
        (0, reduce[3], 2, reduce[0], 1),
        (1, reduce[3], 2, reduce[0], 1),
    ]


def test_data_that_differ_are_linked_and_reported(tmp_path: Path) -> None:
    def calls(rank: int) -> dict[str, Record]:
        if rank == 0:
            return {"Distributed.send.0.forward": communicate(data(0), number(1))}
        if rank == 1:
            call = communicate(EMPTY, number(0), after=[data(5), number(0)])
            return {"Distributed.recv.0.forward": call}
        return {"Torch.add.0.forward": communicate(EMPTY)}

    connection = links(tmp_path, calls)
    assert found(connection) == {(0, 1, "send", 0), (1, 0, "receive", 0)}
    subject = "rank 0 Distributed.send.0.forward and rank 1 Distributed.recv.0.forward"
    assert findings(connection) == {"communication_data_differs": (1, subject)}


def test_a_rank_that_got_another_sum_is_reported(tmp_path: Path) -> None:
    def calls(rank: int) -> dict[str, Record]:
        call = communicate(data(rank), after=[data(9 if rank == 2 else 8)])
        return {"Distributed.all_reduce.0.forward": call}

    connection = links(tmp_path, calls)
    assert (0, 1, "send_receive", 1) in found(connection)
    assert (0, 2, "send_receive", 0) in found(connection)
    assert findings(connection)["communication_data_differs"][0] == 2


def test_rounding_of_mean_and_norm_is_no_difference(tmp_path: Path) -> None:
    def calls(rank: int) -> dict[str, Record]:
        result = tensor(9.0 * (1 + rank * 1e-7), mean=1e-9 * rank)
        return {"Distributed.all_reduce.0.forward": communicate(data(rank), after=[result])}

    assert found(links(tmp_path, calls)) == everyone(1)


def test_calls_without_partner_are_reported(tmp_path: Path) -> None:
    def calls(rank: int) -> dict[str, Record]:
        result = {f"Distributed.barrier.{i}.forward": communicate() for i in range(2 - rank % 2)}
        if rank == 0:
            result["Distributed.send.0.forward"] = communicate(data(0), number(1))
        return result

    connection = links(tmp_path, calls)
    # The send, and the second barrier of ranks 0 and 2, which rank 1 left out.
    count, _ = findings(connection)["communication_without_partner"]
    assert count == 3


def test_ranks_that_are_not_in_the_dump_are_reported(tmp_path: Path) -> None:
    def calls(rank: int) -> dict[str, Record]:
        result = {"Distributed.all_reduce.0.forward": communicate(data(0), group=group(*range(8)))}
        if rank == 0:
            result["Distributed.send.0.forward"] = communicate(data(0), number(7))
        return result

    connection = links(tmp_path, calls)
    assert len(found(connection)) == 6
    count, _ = findings(connection).pop("communication_rank_not_in_dump")
    assert count == 4
    assert set(findings(connection)) == {"communication_rank_not_in_dump"}


def test_a_peer_that_was_not_recorded_is_reported(tmp_path: Path) -> None:
    connection = links(
        tmp_path, lambda _: {"Distributed.send.0.forward": communicate(data(0), number("1e9"))}
    )
    assert findings(connection)["communication_peer_unknown"][0] == 3


def test_calls_without_record_are_not_guessed(dumps: Path, tmp_path: Path) -> None:
    """A dump with the calls of another, but without records."""
    source = dumps / "ddp2_statistics" / "step0"
    for rank in range(2):
        construct = json.loads((source / f"rank{rank}" / "construct.json").read_text())
        write_dump(tmp_path / "dump" / f"rank{rank}", {}, construct)
    result = build(BuildConfig(tmp_path / "dump"), tmp_path, name="c.vis.db", workers=1)
    connection = sqlite3.connect(result.path)
    assert found(connection) == set()
    assert findings(connection)["communication_peer_unknown"][0] == 10


def test_large_groups_cost_no_more_than_their_ranks(tmp_path: Path) -> None:
    ranks = ALL_PAIRS + 6
    for rank in range(ranks):
        call = {"Distributed.all_reduce.0.forward": communicate(data(rank), after=[data(0)])}
        write_dump(tmp_path / "dump" / f"rank{rank}", call)
    result = build(BuildConfig(tmp_path / "dump"), tmp_path, name="c.vis.db", workers=1)
    connection = sqlite3.connect(result.path)
    rows = connection.execute("SELECT node_id, count(*) FROM communication GROUP BY node_id")
    assert {count for _, count in rows.fetchall()} == {2}
    assert connection.execute("SELECT count(*) FROM communication").fetchone() == (2 * ranks,)
