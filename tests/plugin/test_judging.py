"""Confirming and rejecting automatic matches, and groups of calls, over HTTP."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.builder.rematch.rebuild import check_sound, content, matched
from tests.conftest import BuildDatabase
from tests.plugin.changing import change, operation, post, report, revision_of
from tests.plugin.conftest import Ask, catalog, client_of, node, problem_of, skeleton
from tests.plugin.example import write_example

FILE = "renamed.vis.db"
AUTOMATIC, MANUAL = pb.MATCH_SOURCE_AUTOMATIC, pb.MATCH_SOURCE_MANUAL


@pytest.fixture
def database(dumps: Path, build_database: BuildDatabase, tmp_path: Path) -> Path:
    """A run against the same under other names: all but the root is matched by evidence."""
    built = build_database(
        dumps / "llama_statistics_renamed_all" / "step0" / "rank",
        dumps / "llama_statistics" / "step0" / "rank",
    )
    return Path(shutil.copy(built, tmp_path / FILE))


@pytest.fixture
def ask(database: Path) -> Ask:
    return client_of(database.parent)


def sources(database: Path) -> dict[int, tuple[int, int, int | None, float | None, str | None]]:
    """Of each index of the npu side: partner's index, source, evidence, certainty, author."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT npu_node - npu.first_node, bench_node - bench.first_node, source, evidence,"
            " certainty, author FROM match JOIN graph AS npu ON npu.side = 0"
            " JOIN graph AS bench ON bench.side = 1"
        )
        return {index: tuple(rest) for index, *rest in rows}


def test_the_skeleton_says_which_matches_evidence_made(ask: Ask, database: Path) -> None:
    stored = sources(database)
    for side in ("npu", "bench"):
        found = skeleton(ask, file=FILE, side=side)
        columns = zip(found.partner_offset, found.match_source, found.match_certainty, strict=True)
        matched_nodes = [
            index for index, grade in enumerate(found.grade) if grade != pb.GRADE_UNMATCHED
        ]
        for index, (offset, source, certainty) in zip(matched_nodes, columns, strict=True):
            own = index if side == "npu" else index + offset
            partner, stored_source, evidence, stored_certainty, _ = stored[own]
            assert partner == (index + offset if side == "npu" else index)
            assert source == stored_source
            assert (evidence is None) == (source != AUTOMATIC)
            assert certainty == round(100 * (stored_certainty or 0))
    automatic = sum(source == AUTOMATIC for _, source, *_ in stored.values())
    assert automatic > 300
    assert catalog(ask).files[0].graphs[0].automatic == automatic
    hits = pb.SearchResult.FromString(
        ask("search", file=FILE, source="automatic", side="npu", limit="2").data
    )
    assert hits.total == automatic
    assert set(hits.match_source) == {"automatic"}
    assert all(0.5 <= certainty <= 1 for certainty in hits.match_certainty)
    bench = pb.SearchResult.FromString(
        ask("search", file=FILE, source="automatic", side="bench", limit="2").data
    )
    assert (bench.total, set(bench.match_source)) == (automatic, {"automatic"})


def test_equal_names_cost_no_columns(demo_database: Path) -> None:
    ask = client_of(demo_database.parent)
    found = skeleton(ask, file=demo_database.name)
    assert not found.match_source
    assert not found.match_certainty
    assert not found.group


def test_confirm_makes_a_match_by_hand_and_keeps_what_showed_it(ask: Ask, database: Path) -> None:
    before = sources(database)
    index, (partner, _, evidence, certainty, _) = next(
        (index, row) for index, row in before.items() if row[1] == AUTOMATIC
    )
    everything = content(database)
    done = report(change(ask, FILE, operation(index, partner, "CONFIRM"), author="me", reason="ok"))
    assert [(one.action, one.npu, one.bench, one.cause) for one in done.changes] == [
        (pb.MATCH_ACTION_CONFIRM, index, partner, "asked")
    ]
    assert content(database) == everything
    assert sources(database)[index] == (partner, MANUAL, evidence, certainty, "me")
    [update] = done.updates
    assert [(one.index, one.match_source) for one in update.npu] == [(index, MANUAL)]
    detail = node(ask, file=FILE, index=index)
    assert (detail.npu.match_source, detail.npu.match_author) == ("manual", "me")
    assert detail.npu.match_evidence
    assert detail.bench.match_certainty == pytest.approx(certainty)
    assert [one.action for one in detail.history] == [pb.MATCH_ACTION_CONFIRM]
    listed = ask("matches", file=FILE, format="json").get_json()["matches"]
    assert [(one["npu"], one["bench"]) for one in listed] == [(detail.npu.name, detail.bench.name)]
    assert problem_of(change(ask, FILE, operation(index, partner, "CONFIRM"))).code == (
        "not_automatic"
    )
    again = {"file": FILE, "revision": revision_of(ask, FILE)}
    report(post(ask, "undo", again))
    assert sources(database) == before
    report(post(ask, "redo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert sources(database)[index] == (partner, MANUAL, evidence, certainty, "me")
    # A confirmed match that is ended comes back as it was.
    report(change(ask, FILE, operation(index, partner, "UNMATCH")))
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert sources(database)[index] == (partner, MANUAL, evidence, certainty, "me")
    check_sound(database)


def test_reject_ends_a_match_and_undo_brings_it_back_as_it_was(ask: Ask, database: Path) -> None:
    before = sources(database)
    everything = content(database)
    index, (partner, *_) = next(
        (index, row) for index, row in before.items() if row[1] == AUTOMATIC
    )
    report(change(ask, FILE, operation(index, partner, "REJECT"), author="me"))
    assert index not in sources(database)
    detail = node(client_of(database.parent), file=FILE, index=index)  # as read anew
    assert detail.npu.unmatched_reason == "rejected"
    assert detail.npu.candidate_index == partner
    assert [one.action for one in detail.history] == [pb.MATCH_ACTION_REJECT]
    check_sound(database)
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert sources(database) == before
    assert content(database) == everything
    assert problem_of(change(ask, FILE, operation(index, partner + 1, "REJECT"))).code == (
        "not_automatic"
    )


def test_everything_below_the_roots_is_confirmed_or_rejected_at_once(
    ask: Ask, database: Path
) -> None:
    before = sources(database)
    automatic = {index for index, row in before.items() if row[1] == AUTOMATIC}
    done = report(change(ask, FILE, operation(0, 0, "CONFIRM", descendants=True)))
    assert {one.npu for one in done.changes} == automatic
    assert not any(row[1] == AUTOMATIC for row in sources(database).values())
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert sources(database) == before
    pairs = matched(database)
    report(change(ask, FILE, operation(0, 0, "REJECT", descendants=True)))
    assert set(sources(database)) == set(before) - automatic
    check_sound(database)
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    assert matched(database) == pairs
    assert sources(database) == before


def test_a_group_is_told_with_its_members_and_outer_tensors(tmp_path: Path) -> None:
    path = write_example(tmp_path / "grouped.vis.db")
    with closing(sqlite3.connect(path)) as connection:
        for statement in (
            "INSERT INTO call_group VALUES (7, 1, 'softmax', 0.9, 0.5, 3)",
            "INSERT INTO group_member VALUES (15, 7), (105, 7), (17, 7)",
            "INSERT INTO unmatched SELECT npu_node, 1, NULL, NULL FROM match"
            " WHERE npu_node IN (15, 17) OR bench_node = 105",
            "INSERT INTO unmatched SELECT bench_node, 1, NULL, NULL FROM match"
            " WHERE npu_node IN (15, 17) OR bench_node = 105",
            "DELETE FROM match WHERE npu_node IN (15, 17) OR bench_node = 105",
            "UPDATE node SET grade = 6 WHERE node_id IN (SELECT node_id FROM unmatched)",
            "INSERT INTO tensor (node_id, ordinal, section, name_id) VALUES"
            " (15, 0, 0, 20), (17, 1, 1, 23), (105, 0, 0, 21), (105, 1, 1, 23)",
            "INSERT INTO group_comparison (call_group_id, npu_node, npu_ordinal, bench_node,"
            " bench_ordinal, max_diff, error) VALUES (7, 17, 1, 105, 1, 0.25, 0.5),"
            " (7, 15, 0, 105, 0, 0, 0)",
        ):
            connection.execute(statement)
        connection.commit()
    ask = client_of(tmp_path)
    place = {"file": path.name, "step": "0", "rank": "0"}
    [group] = pb.Groups.FromString(ask("groups", **place).data).groups
    assert (list(group.npu), list(group.bench)) == ([4, 6], [4])
    assert (group.operation, group.grade, group.error) == ("softmax", pb.GRADE_MODERATE, 0.5)
    assert not group.rows
    assert list(skeleton(ask, file=path.name).group) == [0, 0, 0, 0, 1, 0, 1]
    assert list(skeleton(ask, file=path.name, side="bench").group) == [0, 0, 0, 0, 1, 0]
    detail = node(ask, file=path.name, index=4)
    told = [
        (row.npu_index, row.bench_index, row.row.npu.name, row.row.bench.name,
         row.row.comparison.error)
        for row in detail.group.rows
    ]  # fmt: skip
    assert told == [(4, 4, "input.0", "input.1", 0.0), (6, 4, "output.0", "output.0", 0.5)]
    assert not node(ask, file=path.name, index=3).HasField("group")
    assert catalog(ask).files[0].graphs[0].groups == 1


def test_what_was_rejected_stays_rejected_in_the_next_build(
    ask: Ask, database: Path, dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    before = sources(database)
    rejected = [(index, row[0]) for index, row in before.items() if row[1] == AUTOMATIC][5:7]
    operations = [operation(*pair, "REJECT") for pair in rejected]
    names = {node(ask, file=FILE, index=index).npu.name for index, _ in rejected}
    report(change(ask, FILE, *operations))
    exported = ask("matches", file=FILE, format="json").get_json()
    assert {one["npu"] for one in exported["rejected"]} == names
    file = tmp_path / "judged" / "matches.json"
    file.parent.mkdir()
    file.write_text(json.dumps(exported), "utf-8")
    built = build_database(
        dumps / "llama_statistics_renamed_all" / "step0" / "rank",
        dumps / "llama_statistics" / "step0" / "rank",
        *("--match-file", str(file)),
    )
    after = sources(built)
    assert after.keys() == before.keys() - {index for index, _ in rejected}
    assert all(after[index][:2] == before[index][:2] for index in after)
    again = client_of(built.parent)
    for index, partner in rejected:
        for side, place in (("npu", index), ("bench", partner)):
            found = node(again, file=built.name, side=side, index=place)
            assert getattr(found, side).unmatched_reason == "rejected"
    assert again("matches", file=built.name, format="json").get_json() == exported
    # The same file, read into a database that does not know of it yet.
    fresh = tmp_path / "fresh" / FILE
    fresh.parent.mkdir()
    shutil.copy(
        build_database(
            dumps / "llama_statistics_renamed_all" / "step0" / "rank",
            dumps / "llama_statistics" / "step0" / "rank",
        ),
        fresh,
    )
    other = client_of(fresh.parent)
    body = {"file": FILE, "revision": revision_of(other, FILE), "content": json.dumps(exported)}
    answer = report(post(other, "matches", body))
    assert [(one.matched, one.present) for one in answer.imported] == [(1, 0)] * 2
    assert sources(fresh).keys() == after.keys()
    check_sound(fresh)
