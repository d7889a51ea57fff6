"""Links on real dumps, against what the arguments in dump.json say."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build

Call = tuple[int, str]  # rank and name
SENDS, RECEIVES = ("send", "isend"), ("recv", "irecv")


def expected_links(step: Path) -> set[tuple[Call, Call, str]]:
    """Who sends to whom, in the order in which the records lie in dump.json."""
    ranks = sorted(int(path.name.removeprefix("rank")) for path in step.iterdir())
    mail: dict[tuple[int, int], tuple[list[Call], list[Call]]] = defaultdict(lambda: ([], []))
    rounds: dict[Any, list[Call]] = defaultdict(list)
    links: set[tuple[Call, Call, str]] = set()
    for rank in ranks:
        count: dict[Any, int] = defaultdict(int)
        for name, record in json.loads((step / f"rank{rank}" / "dump.json").read_text())[
            "data"
        ].items():
            if not name.startswith("Distributed."):
                continue
            function, call = name.split(".")[1], (rank, name)
            arguments, keywords = record["input_args"], record["input_kwargs"]
            if function in SENDS:
                mail[rank, arguments[1]["value"]][0].append(call)
            elif function in RECEIVES:
                mail[arguments[1]["value"], rank][1].append(call)
            elif function == "batch_isend_irecv":
                for operation in arguments[0]:
                    if operation["op"] == "isend":
                        mail[rank, operation["peer"]][0].append(call)
                    else:
                        mail[operation["peer"], rank][1].append(call)
            else:
                group = tuple(keywords.get("group", {}).get("group_ranks", ranks))
                root = {
                    "broadcast": lambda args: args[1],
                    "reduce": lambda args: args[1],
                    "gather": lambda args: args[2],
                    "scatter": lambda args: args[2],
                }.get(function)
                at = None if root is None else root(arguments)["value"]
                key = (function, group, at)
                rounds[(*key, count[key])].append(call)
                count[key] += 1
    for sent, received in mail.values():
        assert len(sent) == len(received)
        for one, other in zip(sent, received, strict=True):
            links |= {(one, other, "send"), (other, one, "receive")}
    for (function, group, root, _), calls in rounds.items():
        assert {rank for rank, _ in calls} == set(group)
        for one, other in permutations(calls, 2):
            if root is None:
                links.add((one, other, "send_receive"))
            elif root in (one[0], other[0]):
                out_of_root = function in ("broadcast", "scatter")
                sends = out_of_root == (one[0] == root)
                links.add((one, other, "send" if sends else "receive"))
    return links


@pytest.mark.parametrize(
    "place",
    [
        "collectives4_statistics/step0",
        "ddp2_statistics/step0",
        "ddp2_statistics/step1",
        "megatron_tp1pp2vpp2/step0",
        "megatron_tp2pp2/step0",
        "sendrecv4_statistics/step0",
    ],
)
def test_every_call_is_linked(dumps: Path, tmp_path: Path, place: str) -> None:
    result = build(BuildConfig(dumps / place), tmp_path, name="c.vis.db", workers=1)
    connection = sqlite3.connect(result.path)
    names = {
        node: (rank, name)
        for node, rank, name in connection.execute("SELECT node_id, rank, name FROM node_view")
    }
    words = ("send", "receive", "send_receive")
    rows = connection.execute("SELECT node_id, partner_id, role, data_equal FROM communication")
    found = {(names[a], names[b], words[role]): equal for a, b, role, equal in rows}
    assert set(found) == expected_links(dumps / place)
    # These runs were right: whatever can be told about the data is equal.
    assert set(found.values()) <= {1, None}
    assert 1 in found.values()
    assert not [one for one in result.diagnostics if one.code.startswith("communication")]


def test_steps_and_sides_are_linked_within_themselves(dumps: Path, tmp_path: Path) -> None:
    place = dumps / "ddp2_statistics"
    result = build(BuildConfig(place, place), tmp_path, name="c.vis.db", workers=1)
    connection = sqlite3.connect(result.path)
    rows = connection.execute(
        "SELECT a.side, a.step, a.rank = b.rank, (a.side, a.step) = (b.side, b.step), count(*)"
        " FROM communication JOIN node_view AS a USING (node_id)"
        " JOIN node_view AS b ON b.node_id = partner_id GROUP BY 1, 2, 3, 4"
    ).fetchall()
    expected = len(expected_links(place / "step0"))
    assert rows == [(side, step, 0, 1, expected) for side in ("bench", "npu") for step in (0, 1)]
