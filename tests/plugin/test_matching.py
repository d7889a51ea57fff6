"""Matching by hand through HTTP, on a database of real dumps."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from msprobe_builder.facts.fact import decode, has_code, within
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.builder.rematch.rebuild import check_sound, content, matched
from tests.conftest import BuildDatabase
from tests.plugin.changing import change, operation, post, report, revision_of
from tests.plugin.conftest import Ask, catalog, client_of, node, problem_of, skeleton
from tests.worded import english

FILE = "demo.vis.db"


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy of the demo's database that may be changed."""
    return Path(shutil.copy(demo_database, tmp_path / FILE))


@pytest.fixture
def ask(database: Path) -> Ask:
    """The plugin over that copy."""
    return client_of(database.parent)


def indices(database: Path, side: str = "npu") -> dict[str, int]:
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT name, seq FROM node_view WHERE side = ?"
        return dict(connection.execute(query, (side,)))


def layer(number: int) -> str:
    return f"Module.model.layers.{number}.LlamaDecoderLayer.forward.0"


def test_what_the_user_does_is_what_the_database_says(ask: Ask, database: Path) -> None:
    npu = indices(database)[layer(0)]
    bench = indices(database, "bench")[layer(0)]
    before = content(database)
    ended = report(change(ask, FILE, operation(npu, bench, "UNMATCH"), author="me", reason="why"))
    assert [(one.npu_name, one.bench_name, one.cause) for one in ended.changes] == [
        (layer(0), layer(0), "asked")
    ]
    assert layer(0) not in matched(database)
    detail = node(ask, file=FILE, index=npu)
    assert not detail.HasField("bench")
    assert detail.npu.unmatched_reason == "by_hand"
    assert detail.npu.candidate_name == layer(0)
    made = report(change(ask, FILE, operation(npu, bench), author="me", reason="it is the same"))
    assert made.changes[0].action == pb.MATCH_ACTION_MATCH
    assert content(database) == before
    detail = node(ask, file=FILE, index=npu)
    assert (detail.npu.match_source, detail.npu.match_author) == ("manual", "me")
    assert detail.npu.match_note == "it is the same"
    assert detail.npu.matched_at
    actions = [(entry.action, entry.author, entry.reason) for entry in detail.history]
    assert actions == [
        (pb.MATCH_ACTION_UNMATCH, "me", "why"),
        (pb.MATCH_ACTION_MATCH, "me", "it is the same"),
    ]
    check_sound(database)


def test_undo_brings_back_the_match_that_was_ended(ask: Ask, database: Path) -> None:
    """Of several by hand between the same nodes, the last one, with its own author."""
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(0)]
    report(change(ask, FILE, operation(npu, bench, "UNMATCH")))
    for author in ("first", "second"):
        report(change(ask, FILE, operation(npu, bench), author=author, reason=f"by {author}"))
        report(change(ask, FILE, operation(npu, bench, "UNMATCH")))
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    found = node(ask, file=FILE, index=npu).npu
    assert (found.match_author, found.match_note) == ("second", "by second")


def test_a_dry_run_tells_and_writes_nothing(ask: Ask, database: Path) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(1)]
    before = database.read_bytes()
    asked = operation(npu, bench, descendants=True)
    told = report(change(ask, FILE, asked, dry_run=True))
    assert [(one.name, one.partner_name) for one in told.conflicts] == [
        (layer(0), layer(0)),
        (layer(1), layer(1)),
    ]
    assert not told.changes
    told = report(change(ask, FILE, {**asked, "replace": True}, dry_run=True))
    assert told.dry_run
    assert database.read_bytes() == before
    done = report(change(ask, FILE, {**asked, "replace": True}))
    assert [str(one) for one in done.changes] == [str(one) for one in told.changes]
    assert [str(one) for one in done.updates] == [str(one) for one in told.updates]
    [update] = done.updates
    after = {one.index: (one.grade, one.error, one.HasField("error")) for one in update.npu}
    changed = [(one.npu, (one.grade, one.error, one.HasField("error"))) for one in done.changes]
    assert changed == [(index, after[index]) for index, _ in changed]
    assert len({grade for _, (grade, _, _) in changed}) > 1
    pairs = {one.npu_name: one.bench_name for one in done.changes if one.cause == "descendant"}
    assert pairs == {npu: bench for npu, bench in matched(database).items() if npu in pairs}
    # Layers have the same structure: everything below finds its place in the other layer.
    subtree = skeleton(ask, file=FILE).subtree_size[npu]
    assert len(pairs) == subtree - 1
    assert all(
        "layers.0." in one and "layers.1." in other
        for one, other in pairs.items()
        if "layers" in one
    )


def test_updates_turn_the_old_skeleton_into_the_new_one(ask: Ask, database: Path) -> None:
    sides = ("npu", "bench")
    before = {side: skeleton(ask, file=FILE, side=side) for side in sides}
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(1)]
    done = report(change(ask, FILE, operation(npu, bench, descendants=True, replace=True)))
    [update] = done.updates
    for side in sides:
        after = skeleton(ask, file=FILE, side=side)
        assert after.revision == done.revision
        states = {state.index: state for state in getattr(update, side)}
        offsets = iter(after.partner_offset)
        for index, grade in enumerate(after.grade):
            offset = None if grade == pb.GRADE_UNMATCHED else next(offsets)
            state = states.get(index)
            if state is None:
                assert grade == before[side].grade[index]
                assert after.error[index] == before[side].error[index]
                continue
            assert state.grade == grade
            error = state.error if state.HasField("error") else -1.0
            assert after.error[index] == pytest.approx(error, rel=1e-6)
            assert (state.partner - index if state.HasField("partner") else None) == offset
            reason = after.unmatched_reason[index]
            assert state.unmatched_reason == (
                "" if not reason else after.unmatched_reasons[reason - 1]
            )


def test_a_taken_node_asks_for_replace(ask: Ask, database: Path) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(1)]
    before = database.read_bytes()
    response = change(ask, FILE, operation(npu, bench))
    assert response.status_code == 409
    problem = problem_of(response)
    assert problem.code == "already_matched"
    assert problem.message == f"{layer(0)} is matched with {layer(0)}."
    assert database.read_bytes() == before
    response = change(ask, FILE, operation(npu, bench, "UNMATCH"))
    assert problem_of(response).code == "already_matched"


def test_the_twin_is_offered_and_only_done_when_asked_for(ask: Ask, database: Path) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(0)]
    twin = layer(0).replace("forward", "backward")
    told = report(change(ask, FILE, operation(npu, bench, "UNMATCH")))
    [offer] = told.offers
    assert (offer.kind, offer.npu_name, offer.bench_name) == ("twin", twin, twin)
    assert twin in matched(database)
    told = report(change(ask, FILE, operation(npu, bench)))
    assert not told.offers
    told = report(change(ask, FILE, operation(npu, bench, "UNMATCH", twin=True)))
    assert [(one.npu_name, one.cause) for one in told.changes] == [
        (layer(0), "asked"),
        (twin, "twin"),
    ]


def test_undo_and_redo(ask: Ask, database: Path) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(1)]

    def turn(name: str) -> pb.MatchReport:
        return report(post(ask, name, {"file": FILE, "revision": revision_of(ask, FILE)}))

    states = [content(database)]
    assert not catalog(ask).files[0].edits.HasField("undo")
    done = report(change(ask, FILE, operation(npu, bench, descendants=True, replace=True)))
    states.append(content(database))
    assert done.edits.undo.npu_name == layer(0)
    assert done.edits.undo.pairs == len(done.changes)
    report(change(ask, FILE, operation(npu, bench, "UNMATCH")))
    states.append(content(database))
    for place in (1, 0):
        turn("undo")
        assert content(database) == states[place]
    assert problem_of(
        post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)})
    ).code == ("nothing_to_undo")
    for place in (1, 2):
        turn("redo")
        assert content(database) == states[place]
    assert problem_of(
        post(ask, "redo", {"file": FILE, "revision": revision_of(ask, FILE)})
    ).code == ("nothing_to_redo")
    turn("undo")
    same = indices(database, "bench")[layer(0)]
    done = report(change(ask, FILE, operation(npu, same, replace=True)))
    assert not done.edits.HasField("redo")  # what was undone has lost its ground
    check_sound(database)


def test_redo_repeats_what_was_undone_last(ask: Ask, database: Path) -> None:
    """What was undone before a later edit is overtaken by it, also once that edit is undone."""
    npu, bench = indices(database), indices(database, "bench")

    def turn(name: str) -> pb.MatchReport:
        return report(post(ask, name, {"file": FILE, "revision": revision_of(ask, FILE)}))

    def end(layer_name: str) -> dict[str, Any]:
        return operation(npu[layer_name], bench[layer_name], "UNMATCH")

    report(change(ask, FILE, end(layer(0))))
    turn("undo")
    report(change(ask, FILE, end(layer(1))))
    undone = turn("undo")
    assert undone.edits.redo.npu_name == layer(1)
    again = turn("redo")
    assert [one.npu_name for one in again.changes] == [layer(1)]
    assert not again.edits.HasField("redo")
    turn("undo")
    report(change(ask, FILE, end(layer(1))))
    turn("undo")
    turn("redo")
    response = post(ask, "redo", {"file": FILE, "revision": revision_of(ask, FILE)})
    assert problem_of(response).code == "nothing_to_redo"
    assert layer(1) not in matched(database)
    assert layer(0) in matched(database)
    check_sound(database)


def test_redo_of_a_file_written_before_undone_edits_were_overtaken(
    ask: Ask, database: Path
) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(0)]
    for name in ("undo", "redo"):
        report(change(ask, FILE, operation(npu, bench, "UNMATCH")))
        if name == "undo":
            report(post(ask, name, {"file": FILE, "revision": revision_of(ask, FILE)}))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "INSERT INTO edit SELECT 9, 9, edited_at, author, action, npu_node,"
            " bench_node, source, reason, 1, NULL, NULL FROM edit WHERE edit_id = 1"
        )
        connection.commit()
    response = post(ask, "redo", {"file": FILE, "revision": revision_of(ask, FILE)})
    assert (response.status_code, problem_of(response).code) == (409, "nothing_to_redo")
    check_sound(database)


def test_undone_edits_stay_in_the_history(ask: Ask, database: Path) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(0)]
    report(change(ask, FILE, operation(npu, bench, "UNMATCH")))
    report(post(ask, "undo", {"file": FILE, "revision": revision_of(ask, FILE)}))
    [entry] = node(ask, file=FILE, index=npu).history
    assert entry.undone
    assert node(ask, file=FILE, index=npu).npu.match_source == "exact"


def test_export_and_import_survive_the_next_build(
    ask: Ask,
    database: Path,
    demo_database: Path,
    dumps: Path,
    build_database: BuildDatabase,
    tmp_path: Path,
) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(1)]
    report(change(ask, FILE, operation(npu, bench, descendants=True, replace=True, twin=True)))
    exported = ask("matches", file=FILE, format="json").get_json()
    assert exported["version"] == 1
    pairs = {one["npu"]: one["bench"] for one in exported["matches"]}
    assert pairs.items() <= matched(database).items()
    assert pairs[layer(0)] == layer(1)
    fresh = tmp_path / "fresh" / FILE
    fresh.parent.mkdir()
    shutil.copy(demo_database, fresh)
    ask_fresh = client_of(fresh.parent)
    body = {"file": FILE, "revision": revision_of(ask_fresh, FILE), "content": json.dumps(exported)}
    refused = report(post(ask_fresh, "matches", {**body, "dry_run": True}))
    assert {one.matched for one in refused.imported} == {0}
    assert all(
        has_code(within(decode(one.problem)), "import_problem.matched") for one in refused.imported
    )
    done = report(post(ask_fresh, "matches", {**body, "replace": True}))
    assert [(one.matched, one.problem) for one in done.imported] == [(1, "")] * len(pairs)
    assert content(fresh) == content(database)
    match_file = tmp_path / "matches.json"
    match_file.write_text(json.dumps(exported), encoding="utf-8")
    sides = [
        dumps / name / "step0" / "rank"
        for name in ("llama_statistics_wrong_attention_scale", "llama_statistics")
    ]
    rebuilt = build_database(*sides, "--match-file", str(match_file))
    assert pairs.items() <= matched(rebuilt).items()
    rebuilt_nodes = {row[1]: row for row in content(rebuilt)["nodes"] if row[0] == "npu"}
    for row in content(database)["nodes"]:
        if row[0] == "npu" and row[1] in pairs:
            assert rebuilt_nodes[str(row[1])][:5] == row[:5]  # name, partner, error, grade


def test_import_takes_the_flat_form_and_turns_pairs_round(ask: Ask, database: Path) -> None:
    same, only_bench = "Tensor.unsqueeze.0.forward", "Bench.only.0.forward"
    with closing(sqlite3.connect(database)) as connection:
        [[text]] = connection.execute("SELECT max(text_id) + 1 FROM text")
        connection.execute("INSERT INTO text VALUES (?, 'Bench.only')", (text,))
        connection.execute(
            "UPDATE node SET stem_id = ? WHERE node_id = (SELECT node_id FROM node_view WHERE"
            " side = 'bench' AND name = ?)",
            (text, same),
        )
        connection.commit()
    body = {"file": FILE, "revision": revision_of(ask, FILE), "replace": True}
    flat = {only_bench: same, "Nobody.0.forward": same, layer(0): "Nobody.else"}
    done = report(post(ask, "matches", {**body, "content": json.dumps(flat)}))
    assert [(one.swapped, one.present) for one in done.imported] == [
        (True, 1),
        (False, 0),
        (False, 0),
    ]
    assert [english(one.problem) for one in done.imported] == [
        "",
        "step 0, rank 0: the debug run has no node Nobody.0.forward",
        "step 0, rank 0: the reference has no node Nobody.else",
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"version": 2, "matches": []}', '{"a": 1}', "[" * 9999]
)
def test_a_match_file_that_is_none_is_refused(ask: Ask, text: str) -> None:
    body = {"file": FILE, "revision": revision_of(ask, FILE), "content": text}
    response = post(ask, "matches", body)
    assert response.status_code == 400
    assert problem_of(response).code == "bad_match_file"


def test_protobuf_and_json_requests_are_the_same(ask: Ask, database: Path) -> None:
    npu, bench = indices(database)[layer(0)], indices(database, "bench")[layer(0)]
    body = pb.MatchRequest(
        file=FILE,
        revision=revision_of(ask, FILE),
        dry_run=True,
        operations=[pb.MatchOperation(action="MATCH_ACTION_UNMATCH", npu=npu, bench=bench)],
    )
    headers = {"Content-Type": "application/x-protobuf"}
    packed = ask("match", method="POST", data=body.SerializeToString(), headers=headers)
    spelled = post(ask, "match", json_format.MessageToDict(body))
    assert timeless(report(packed)) == timeless(report(spelled))
    as_json = ask(
        "match", method="POST", data=body.SerializeToString(), headers=headers, format="json"
    )
    assert timeless(json_format.Parse(as_json.data, pb.MatchReport())) == timeless(report(packed))


def timeless(told: pb.MatchReport) -> pb.MatchReport:
    """A report without the time at which it was asked for."""
    told.edits.undo.ClearField("edited_at")
    return told
