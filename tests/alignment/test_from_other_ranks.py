"""A rank whose numbers are wrong from its start gets the pairs that another rank's values show."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.align.from_other_ranks import with_told
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import format_name, parse_name
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.match.matching import Alignment, Told
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.respell import (
    Change,
    Recording,
    other_seed,
    recording,
    scaled_behind,
)
from tests.alignment.test_real_pairs import rank
from tests.builder.integrity import check
from tests.builder.small_dumps import forward, tensor

OTHER_RANK = 8  # match.evidence


def shifted_from_its_start(before: Recording) -> Recording:
    return scaled_behind(next(iter(before.data)), 1.37)(before)


def one_transposition_more(before: Recording) -> Recording:
    """One call more before all others of its name, whose numbers are shifted by it."""

    def shifted(name: str) -> str:
        parsed = parse_name(name)
        is_meant = parsed.stem == "Tensor.transpose"
        return format_name(parsed._replace(call=parsed.call + 1)) if is_meant else name

    first = "Tensor.transpose.0.forward"
    data = {shifted(name): record for name, record in before.data.items()}
    more = {first: before.data[first]}
    above = {shifted(name): up for name, up in before.parent.items()}
    return replace(before, data=more | data, parent={first: None} | above)


def compared(
    pairs: Path, name: str, output: Path, changes: list[Change | None], **options: Any
) -> Path:
    """One pair of runs as several ranks, of which some are changed in the run under debug."""
    npu, bench = (recording(rank(pairs / name / side)) for side in ("npu", "bench"))
    return build(
        BuildConfig(
            {(0, i): (change(npu) if change else npu).source() for i, change in enumerate(changes)},
            {(0, i): bench.source() for i in range(len(changes))},
        ),
        output,
        workers=1,
        **options,
    ).path


def partners(database: Path, number: int, evidence: int | None = None) -> dict[str, str]:
    """What a rank pairs, or what one kind of evidence has paired of it."""
    with closing(sqlite3.connect(database)) as connection:
        return dict(
            connection.execute(
                "SELECT name, matched FROM node_view JOIN match ON npu_node = node_id"
                " WHERE rank = ? AND ifnull(evidence, 0) = coalesce(?, evidence, 0)",
                (number, evidence),
            )
        )


def groups(database: Path, number: int) -> set[frozenset[str]]:
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT json_group_array(side || name) FROM group_member JOIN node_view USING (node_id)"
            " WHERE rank = ? GROUP BY call_group_id",
            (number,),
        )
        return {frozenset(json.loads(members)) for [members] in rows}


@pytest.mark.parametrize(("change", "least"), [(shifted_from_its_start, 5), (other_seed(5), 20)])
def test_a_faulty_rank_is_paired_as_the_rank_beside_it(
    pairs: Path, tmp_path: Path, change: Change, least: int
) -> None:
    alone = compared(pairs, "gpt2", tmp_path / "alone", [change])
    database = compared(pairs, "gpt2", tmp_path / "both", [change, None])
    check(database).close()
    assert len(partners(alone, 0)) + least < len(partners(database, 1))
    assert partners(database, 0) == partners(database, 1)
    assert groups(database, 0) == groups(database, 1) != groups(alone, 0)
    assert len(partners(database, 0, OTHER_RANK)) > least
    assert not partners(database, 1, OTHER_RANK)
    right = json.loads((pairs / "gpt2" / "truth.json").read_text("utf-8"))["pairs"]
    told = partners(database, 0, OTHER_RANK)
    assert all(right.get(own, other) == other for own, other in told.items())


def test_its_tensors_are_measured(pairs: Path, tmp_path: Path) -> None:
    database = compared(pairs, "gpt2", tmp_path, [other_seed(5), None])
    with closing(sqlite3.connect(database)) as connection:
        [[compared_nodes]] = connection.execute(
            "SELECT count(DISTINCT npu_node) FROM comparison JOIN match USING (npu_node)"
            " WHERE evidence = ?",
            (OTHER_RANK,),
        )
        [[roles]] = connection.execute(
            "SELECT count(*) FROM role JOIN match ON npu_node = node_id WHERE evidence = ?",
            (OTHER_RANK,),
        )
    assert compared_nodes > 10
    assert roles > 10


def test_where_a_call_is_made_once_more_its_numbers_tell_nothing(
    pairs: Path, tmp_path: Path
) -> None:
    def change(before: Recording) -> Recording:
        return one_transposition_more(shifted_from_its_start(before))

    database = compared(pairs, "gpt2", tmp_path, [change, None])
    assert partners(database, 0)
    assert not [name for name in partners(database, 0, OTHER_RANK) if "transpose" in name]


def test_ranks_of_equal_evidence_are_told_nothing(pairs: Path, tmp_path: Path) -> None:
    database = compared(pairs, "gpt2", tmp_path, [None, None])
    assert not partners(database, 0, OTHER_RANK)
    assert not partners(database, 1, OTHER_RANK)


def test_a_rank_that_is_appended_is_told_by_those_that_are_there(
    pairs: Path, tmp_path: Path
) -> None:
    def folder(side: str, number: int, change: Change | None = None) -> None:
        source = recording(rank(pairs / "gpt2" / side))
        source = change(source) if change else source
        target = tmp_path / side / f"rank{number}"
        target.mkdir(parents=True)
        (target / "dump.json").write_text(json.dumps({**source.head, "data": source.data}))
        (target / "construct.json").write_text(json.dumps(source.parent))
        (target / "stack.json").write_text("{}")

    folder("npu", 0)
    folder("bench", 0)
    config = BuildConfig(tmp_path / "npu", tmp_path / "bench")
    base = build(config, tmp_path / "out").path
    folder("npu", 1, other_seed(5))
    folder("bench", 1)
    build(config, append_to=base)
    assert partners(base, 1) == partners(base, 0)
    assert len(partners(base, 1, OTHER_RANK)) > 20


def test_the_order_of_ranks_does_not_matter(pairs: Path, tmp_path: Path) -> None:
    """Whichever is built first: the rank with most pairs tells the others."""
    database = compared(pairs, "gpt2", tmp_path, [shifted_from_its_start, None, other_seed(5)])
    assert partners(database, 0) == partners(database, 1) == partners(database, 2)


def test_no_modules_become_a_pair_of_which_one_holds_the_partner_of_what_the_other_lacks() -> None:
    texts = Texts()
    modules = ["Module.a.Linear.forward.0", "Module.b.Linear.forward.0"]
    data: dict[str, Any] = {}
    parent: dict[str, str | None] = {}
    for number, module in enumerate(modules):
        call = f"Functional.linear.{number}.forward"
        data |= {call: forward([tensor(1.0)], [tensor(2.0)])}
        data |= {module: forward([tensor(1.0)], [tensor(2.0)])}
        parent |= {call: module, module: None}
    source = InMemoryDump({"task": "statistics", "level": "mix", "data": data}, parent)
    npu, bench = (read_rank(source, texts)[0] for _ in range(2))
    node = {name: number for number, name in enumerate(npu.tree.names)}
    partner = np.full(len(npu.tree), -1)
    partner[0] = 0
    # The call in the first module of this side is that in the second one of the other.
    partner[node["Functional.linear.0.forward"]] = node["Functional.linear.1.forward"]
    none = np.zeros(len(partner), dtype=np.int64)
    counts = Counter((name.stem, int(name.direction)) for name in npu.tree.parsed)
    pairs = [(modules[0], modules[0], 0.9), (modules[0], modules[1], 0.8)]
    told = Told(tuple(pairs), (), (counts, counts))
    found = with_told(Alignment(partner, none, np.zeros(len(partner))), npu, bench, told)
    assert found.partner[node[modules[0]]] == node[modules[1]]
    assert found.partner[node[modules[1]]] == -1
