"""Groups of calls that a person rejects or matches a call of: over HTTP, on a real pair of runs."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from msprobe_builder.export.table import export_table
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.builder.rematch.rebuild import check_sound, content
from tests.conftest import BuildDatabase
from tests.plugin.changing import change, operation, post, report, revision_of
from tests.plugin.conftest import Ask, catalog, client_of, node, problem_of, skeleton

FILE = "grouped.vis.db"
Sides = tuple[Path, Path]


@dataclass(frozen=True)
class Told:
    """What the plugin says of groups: the groups, each node's, the number in the catalog."""

    groups: list[pb.CallGroup]
    columns: tuple[list[int], list[int]]
    count: int


@pytest.fixture
def sides(pairs: Path) -> Sides:
    """One attention against its parts."""
    npu, bench = (next((pairs / "sdpa" / side).glob("step0/rank*")) for side in ("npu", "bench"))
    return npu, bench


@pytest.fixture
def database(sides: Sides, tmp_path: Path, build_database: BuildDatabase) -> Path:
    return Path(shutil.copy(build_database(*sides), tmp_path / FILE))


@pytest.fixture
def ask(database: Path) -> Ask:
    return client_of(database.parent)


def told(ask: Ask, file: str = FILE) -> Told:
    groups = pb.Groups.FromString(ask("groups", file=file, step="0", rank="0").data).groups
    npu, bench = (list(skeleton(ask, file=file, side=side).group) for side in ("npu", "bench"))
    [graph] = catalog(ask).files[0].graphs
    return Told(list(groups), (npu, bench), graph.groups)


def exported(database: Path) -> list[str]:
    """Names of the nodes that the table calls members of a group."""
    table = database.with_name("nodes.csv")
    table.unlink(missing_ok=True)
    export_table(database, table)
    lines = list(csv.DictReader(table.open(encoding="utf-8")))
    return [line["name"] for line in lines if line["call_group"]]


def check_ended(ask: Ask, database: Path, before: Told, ended: pb.CallGroup) -> None:
    """Nothing speaks of one group any more, and all others are as they were."""
    after = told(ask)
    assert after.count == before.count - 1
    left = [list(one.npu) for one in before.groups if one != ended]
    assert [list(one.npu) for one in after.groups] == left
    for column, members in zip(after.columns, (ended.npu, ended.bench), strict=True):
        assert not any(column[index] for index in members)
    assert max(after.columns[0]) == after.count
    for side, members in (("npu", ended.npu), ("bench", ended.bench)):
        for index in members:
            assert not node(ask, file=FILE, side=side, index=index).HasField("group")
    in_others = {index for one in before.groups if one != ended for index in one.npu}
    assert len(exported(database)) == len(in_others) + sum(
        len(one.bench) for one in before.groups if one != ended
    )


def test_a_group_ends_where_one_of_its_calls_is_matched_by_hand(ask: Ask, database: Path) -> None:
    """What it said of the call would stand beside what the match says; undoing brings it back."""
    before, names = told(ask), exported(database)
    assert before.count == len(before.groups) == 8
    ended = before.groups[2]
    report(change(ask, FILE, operation(ended.npu[0], ended.bench[-1])))
    check_ended(ask, database, before, ended)
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert told(ask) == before
    assert exported(database) == names


def reasons(ask: Ask, group: pb.CallGroup, file: str = FILE) -> set[tuple[str, int]]:
    """Why the calls of a group have no partner, and the candidate of each, by side."""
    found = set()
    for side, members in (("npu", group.npu), ("bench", group.bench)):
        for index in members:
            record = getattr(node(ask, file=file, side=side, index=index), side)
            found.add((record.unmatched_reason, record.candidate_index))
    return found


def test_a_rejected_group_ends_and_undo_brings_it_back(ask: Ask, database: Path) -> None:
    """Any call of each side stands for the group; what was said of each is there again."""
    before, names, everything = told(ask), exported(database), content(database)
    ended = before.groups[3]
    candidates = {("grouped", ended.bench[0]), ("grouped", ended.npu[0])}
    assert reasons(ask, ended) == candidates
    done = report(change(ask, FILE, operation(ended.npu[-1], ended.bench[-1], "REJECT")))
    assert [(one.action, one.cause) for one in done.changes] == [(pb.MATCH_ACTION_REJECT, "asked")]
    [update] = done.updates
    assert [one.index for one in update.npu] == list(ended.npu)
    assert [one.index for one in update.bench] == list(ended.bench)
    check_ended(ask, database, before, ended)
    check_sound(database)
    rejected = {("rejected", index) for _, index in candidates}
    assert reasons(ask, ended) == rejected
    # Every call tells of it, by the two calls that were named.
    assert len(ended.npu) + len(ended.bench) > 2
    for side, index in [*(("npu", at) for at in ended.npu), *(("bench", at) for at in ended.bench)]:
        [edit] = node(ask, file=FILE, side=side, index=index).history
        assert (edit.action, edit.undone) == (pb.MATCH_ACTION_REJECT, False)
        assert (edit.npu, edit.bench) == (ended.npu[-1], ended.bench[-1])
    again = operation(ended.npu[0], ended.bench[0], "REJECT")
    assert problem_of(change(ask, FILE, again)).code == "not_automatic"
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert told(ask) == before
    assert exported(database) == names
    assert content(database) == everything
    assert reasons(ask, ended) == candidates
    report(post(ask, "redo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    check_ended(ask, database, before, ended)
    assert reasons(ask, ended) == rejected


def test_a_call_of_a_rejected_group_is_matched_and_all_is_undone(ask: Ask, database: Path) -> None:
    before, everything = told(ask), content(database)
    ended = before.groups[0]
    first = reasons(ask, ended)
    report(change(ask, FILE, operation(ended.npu[0], ended.bench[0], "REJECT")))
    report(change(ask, FILE, operation(ended.npu[0], ended.bench[1])))
    check_ended(ask, database, before, ended)
    report(change(ask, FILE, operation(ended.npu[0], ended.bench[1], "UNMATCH")))
    check_ended(ask, database, before, ended)
    assert {reason for reason, _ in reasons(ask, ended)} == {"rejected"}
    for _ in range(3):
        report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert told(ask) == before
    assert reasons(ask, ended) == first
    assert content(database) == everything


def test_calls_of_two_groups_are_no_group_to_reject(ask: Ask) -> None:
    one, other, *_ = told(ask).groups
    refused = change(ask, FILE, operation(one.npu[0], other.bench[0], "REJECT"))
    assert problem_of(refused).code == "not_automatic"
    assert told(ask).count == 8


def test_groups_below_two_modules_are_rejected_with_their_matches(ask: Ask, database: Path) -> None:
    before = told(ask)
    npu, bench = (skeleton(ask, file=FILE, side=side) for side in ("npu", "bench"))

    def module_of(members: Sequence[int], size: Sequence[int]) -> int:
        return [index for index in range(members[0]) if index + size[index] > members[-1]][-1]

    own = module_of(before.groups[0].npu, npu.subtree_size)
    other, elsewhere = (
        module_of(before.groups[group].bench, bench.subtree_size) for group in (0, -1)
    )
    report(change(ask, FILE, operation(own, elsewhere, "REJECT", descendants=True)))
    assert told(ask) == before
    below = [
        one
        for one in before.groups
        if own < one.npu[0] and one.npu[-1] < own + npu.subtree_size[own]
    ]
    assert 0 < len(below) < 8
    report(change(ask, FILE, operation(own, other, "REJECT", descendants=True)))
    left = [list(one.npu) for one in before.groups if one not in below]
    assert [list(one.npu) for one in told(ask).groups] == left
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert told(ask) == before
    report(change(ask, FILE, operation(0, 0, "REJECT", descendants=True)))
    assert told(ask).count == 0
    check_sound(database)


def test_a_rejected_group_stays_rejected_in_the_next_build(
    ask: Ask, sides: Sides, tmp_path: Path, build_database: BuildDatabase
) -> None:
    before = told(ask)
    ended = before.groups[5]
    report(change(ask, FILE, operation(ended.npu[0], ended.bench[0], "REJECT")))
    listed = ask("matches", file=FILE, format="json").get_json()
    names = {node(ask, file=FILE, index=index).npu.name for index in ended.npu}
    assert {one["npu"] for one in listed["rejected"]} == names
    file = tmp_path / "matches.json"
    file.write_text(json.dumps(listed), "utf-8")
    built = build_database(*sides, *("--match-file", str(file)))
    again = client_of(built.parent)
    assert [list(one.npu) for one in told(again, built.name).groups] == [
        list(one.npu) for one in before.groups if one != ended
    ]
    assert reasons(again, ended, built.name) == reasons(ask, ended)
    assert again("matches", file=built.name, format="json").get_json() == listed
    # The same file, read into a database that does not know of it yet.
    fresh = tmp_path / "fresh" / FILE
    fresh.parent.mkdir()
    shutil.copy(build_database(*sides), fresh)
    other = client_of(fresh.parent)
    body = {"file": FILE, "revision": revision_of(other, FILE), "content": json.dumps(listed)}
    [first, *rest] = report(post(other, "matches", body)).imported
    assert (first.matched, first.problem) == (1, "")
    assert all((one.matched, one.present, one.problem) == (0, 1, "") for one in rest)
    check_ended(other, fresh, before, ended)
