"""Matching by hand, from candidates or by a click, with preview, undo and redo."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import (
    BENCH,
    NPU,
    canvas,
    click_row,
    find_row,
    make_tall,
    open_viewer,
    select_node,
    wait_for_row,
)
from tests.conftest import BuildDatabase, StartTensorBoard

DEBUG = "Module.model.layers.0.self_attention.q_proj.Linear.forward.0"
REFERENCE = "Module.model.layers.0.self_attn.q_proj.Linear.forward.0"


def partner(database: Path, name: str) -> str | None:
    with sqlite3.connect(database) as connection:
        [(found,)] = connection.execute(
            "SELECT matched FROM node_view WHERE side = 'npu' AND name = ?", (name,)
        )
        return str(found) if found else None


def open_match(frame: Frame, name: str, partner: str | None = None) -> None:
    """Bring up the tab for a node, with a candidate chosen and previewed."""
    select_node(frame, name)
    frame.locator("ga-details #match").click()
    if partner is not None:
        frame.locator("ga-match .candidates label", has_text=partner).locator("input").click()
        frame.locator("ga-match #preview li").first.wait_for()


def write_matches(file: Path, pairs: dict[str, str]) -> Path:
    matches = [{"npu": npu, "bench": bench} for npu, bench in pairs.items()]
    file.write_text(json.dumps({"version": 1, "matches": matches}), encoding="utf-8")
    return file


def test_a_candidate_is_previewed_matched_undone_and_redone(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    open_match(frame, DEBUG)
    before = find_row(frame, DEBUG)
    frame.locator("ga-match .candidates label", has_text=REFERENCE).locator("input").click()
    preview = frame.locator("ga-match #preview li")
    expect(preview).to_have_count(1)
    expect(preview).to_contain_text(f"{DEBUG} ↔ {REFERENCE}")
    assert partner(renamed_database, DEBUG) is None, "a preview writes nothing"
    frame.locator("ga-match #descendants").check()
    frame.locator("ga-match #preview li").nth(1).wait_for()

    frame.fill("ga-match #author", "Ada")
    frame.locator("ga-match #apply").click()
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done")
    expect(frame.locator("ga-node-summary .match")).to_contain_text("matched by hand")
    assert partner(renamed_database, DEBUG) == REFERENCE
    row = find_row(frame, DEBUG)
    assert row["grade"] != before["grade"]
    assert (row["y"], row["expanded"]) == (before["y"], before["expanded"]), "the view stays"
    with sqlite3.connect(renamed_database) as connection:
        authors = connection.execute("SELECT DISTINCT author FROM match WHERE source = 3")
        assert authors.fetchall() == [("Ada",)]

    frame.locator("ga-match #undo").click()
    expect(frame.locator("ga-node-summary .grade")).to_have_text("Unmatched")
    assert partner(renamed_database, DEBUG) is None
    frame.locator("ga-match #redo").click()
    expect(frame.locator("ga-node-summary .match")).to_contain_text("matched by hand")
    assert partner(renamed_database, DEBUG) == REFERENCE
    expect(frame.locator("ga-match #apply")).to_be_hidden()
    frame.locator("ga-match #end").click()
    expect(frame.locator("ga-node-summary .grade")).to_have_text("Unmatched")
    assert partner(renamed_database, DEBUG) is None
    # Who takes two apart does not want the same two: another candidate is proposed, or none.
    candidates = frame.locator("ga-match .candidates label")
    expect(candidates.filter(has_text=REFERENCE)).to_have_count(1)
    expect(frame.locator("ga-match #preview")).not_to_contain_text(f"{DEBUG} ↔ {REFERENCE}")
    expect(candidates.filter(has_text=REFERENCE).locator("input")).not_to_be_checked()


def test_the_other_node_can_be_clicked_in_the_graph(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    open_match(frame, DEBUG)
    frame.locator("ga-match #pick").click()
    expect(frame.locator("ga-hierarchy #pick")).to_contain_text("Click the node on the side")
    page.keyboard.press("Escape")
    expect(frame.locator("ga-hierarchy #pick")).to_be_hidden()
    frame.locator("ga-match #pick").click()
    click_row(frame, REFERENCE, BENCH)
    expect(frame.locator("ga-hierarchy #pick")).to_be_hidden()
    expect(frame.locator("ga-match #preview li")).to_contain_text(f"{DEBUG} ↔ {REFERENCE}")
    assert find_row(frame, DEBUG)["selected"]
    frame.locator("ga-match #apply").click()
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
    assert partner(renamed_database, DEBUG) == REFERENCE


def test_a_file_that_cannot_be_written_says_so(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    server = tensorboard_server(renamed_database.parent, "--graph_ascend_readonly")
    frame = open_viewer(page, server)
    open_match(frame, DEBUG)
    expect(frame.locator("ga-match .refusal")).to_contain_text("read-only")
    expect(frame.locator("ga-match #apply")).to_be_hidden()


def test_a_group_is_rejected_and_undone_by_key(
    page: Page,
    pairs: Path,
    build_database: BuildDatabase,
    tmp_path: Path,
    tensorboard_server: StartTensorBoard,
) -> None:
    sides = (next((pairs / "sdpa" / side).glob("step0/rank*")) for side in ("npu", "bench"))
    logdir = tmp_path / "grouped"
    logdir.mkdir()
    shutil.copy(build_database(*sides), logdir / "grouped.vis.db")
    frame = open_viewer(page, tensorboard_server(logdir))
    attention = "Functional.scaled_dot_product_attention.0.forward"
    select_node(frame, attention)
    summary = frame.locator("ga-node-summary")
    reject, why = summary.locator("#reject"), summary.locator(".match .cut").first
    expect(why).to_contain_text("Found to be part of a group of calls: attention, 1 : ")
    expect(summary.locator("#confirm")).to_be_hidden()
    expect(reject).to_have_attribute("title", "Reject this group of calls (Y)")
    reject.click()
    expect(why).to_contain_text("Rejected by hand")
    expect(reject).to_be_hidden()
    select_node(frame, "Functional.softmax.0.forward", BENCH)
    expect(why).to_contain_text("Rejected by hand")
    said = frame.locator("ga-toast #box")
    canvas(frame).press("u")
    expect(said).to_contain_text(f"Undo: {attention}")
    canvas(frame).press("u")
    expect(why).to_contain_text("group of calls: attention")
    canvas(frame).press("Y")
    expect(said).to_contain_text("Reject this group of calls")
    canvas(frame).press("Y")
    expect(why).to_contain_text("Rejected by hand")


def middle(frame: Frame, name: str, side: int) -> tuple[float, float]:
    """The middle of a node's box on the page."""
    row = wait_for_row(frame, name, side)
    box = canvas(frame).bounding_box()
    assert box is not None
    return box["x"] + row["x"] + row["width"] / 2, box["y"] + row["y"] + row["height"] / 2


def pull(page: Page, frame: Frame, debug: str, reference: str) -> None:
    """Pull a node of the debug side to one of the reference."""
    page.keyboard.down("Alt")
    page.mouse.move(*middle(frame, debug, NPU))
    page.mouse.down()
    page.mouse.move(*middle(frame, reference, BENCH), steps=5)
    page.mouse.up()
    page.keyboard.up("Alt")


def test_a_node_pulled_to_another_is_proposed_and_enter_matches(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    select_node(frame, DEBUG)
    pull(page, frame, DEBUG, REFERENCE)
    expect(frame.get_by_role("tab", name="Match")).to_have_attribute("aria-selected", "true")
    expect(frame.locator("ga-match #preview li")).to_contain_text(f"{DEBUG} ↔ {REFERENCE}")
    assert partner(renamed_database, DEBUG) is None, "nothing is done without being asked"
    expect(frame.locator("ga-match #apply")).to_be_focused()
    page.keyboard.press("Enter")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
    assert partner(renamed_database, DEBUG) == REFERENCE
    expect(canvas(frame)).to_be_focused()

    # Another node takes its place: that is asked first.
    other = DEBUG.replace("q_proj", "k_proj")
    pull(page, frame, other, REFERENCE)
    expect(frame.locator("ga-match #preview .conflict")).to_contain_text(REFERENCE)
    expect(frame.locator("ga-match #apply")).to_be_disabled()
    expect(frame.locator("ga-match #replace")).to_be_focused()
    page.keyboard.press("Space")
    expect(frame.locator("ga-match #preview li")).to_have_count(2)
    frame.locator("ga-match #apply").click()
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 2 pairs changed")
    assert partner(renamed_database, other) == REFERENCE
    assert partner(renamed_database, DEBUG) is None


def test_matching_needs_no_pointer(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    select_node(frame, DEBUG)
    canvas(frame).focus()
    page.keyboard.press("m")
    expect(frame.locator("ga-hierarchy #pick")).to_contain_text("press Enter")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(frame.locator("ga-match #preview li")).to_contain_text(f"{DEBUG} ↔ {REFERENCE}")
    assert find_row(frame, DEBUG)["selected"], "the node to match stays selected"
    expect(frame.locator("ga-match #apply")).to_be_focused()
    page.keyboard.press("Enter")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
    assert partner(renamed_database, DEBUG) == REFERENCE

    expect(canvas(frame)).to_be_focused()
    page.keyboard.press("m")
    expect(frame.locator("ga-toast [role='status']")).to_contain_text("without match")


@pytest.mark.slow
def test_the_twin_of_the_other_direction_is_offered_and_never_taken_silently(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    backward, its_partner = (n.replace("forward", "backward") for n in (DEBUG, REFERENCE))
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    open_match(frame, DEBUG, REFERENCE)
    expect(frame.locator("ga-match #preview li")).to_have_count(1)
    twin = frame.get_by_label(f"Also the other direction: {backward} ↔ {its_partner}")
    expect(twin).not_to_be_checked()
    frame.click("ga-match #apply")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
    assert partner(renamed_database, backward) is None

    frame.click("ga-match #undo")
    expect(frame.locator("ga-node-summary .grade")).to_have_text("Unmatched")
    open_match(frame, DEBUG, REFERENCE)
    twin.check()
    expect(frame.locator("ga-match #preview li")).to_have_count(2)
    frame.click("ga-match #apply")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 2 pairs changed")
    assert partner(renamed_database, DEBUG) == REFERENCE
    assert partner(renamed_database, backward) == its_partner


@pytest.mark.slow
def test_replacing_a_match_asks_first(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    other = DEBUG.replace("q_proj", "v_proj")
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    make_tall(page, frame)
    open_match(frame, DEBUG, REFERENCE)
    frame.click("ga-match #apply")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")

    select_node(frame, other)
    frame.click("ga-match #pick")
    click_row(frame, REFERENCE, BENCH)
    expect(frame.locator("ga-match #preview .conflict")).to_contain_text(
        f"{REFERENCE} is already matched with {DEBUG}."
    )
    expect(frame.locator("ga-match #apply")).to_be_disabled()
    frame.locator("ga-match #replace").check()
    frame.locator("ga-match #preview li").nth(1).wait_for()
    assert partner(renamed_database, other) is None
    frame.click("ga-match #apply")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 2 pairs changed")
    assert partner(renamed_database, other) == REFERENCE
    assert partner(renamed_database, DEBUG) is None, "one node has one partner"


def test_an_import_reports_on_each_pair_before_it_writes(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard, tmp_path: Path
) -> None:
    layer_1 = [name.replace("layers.0", "layers.1") for name in (DEBUG, REFERENCE)]
    taken = "Module.lm_head.Linear.forward.0"
    assert partner(renamed_database, taken) == taken, "the case has something that is matched"
    pairs = {DEBUG: REFERENCE, "Nobody.0.forward": REFERENCE, taken: layer_1[1]}
    file = write_matches(tmp_path / "colleague.json", pairs)
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    open_match(frame, DEBUG)
    frame.set_input_files("ga-import #file", file)

    dialog = frame.get_by_role("dialog", name="Import matches from colleague.json")
    content = frame.locator("ga-import")
    expect(content.locator("#summary")).to_have_text(
        "To be matched: 1. Matched so already: 0. Left out: 2."
    )
    expect(content.locator("li", has_text="Nobody")).to_contain_text("has no node Nobody")
    expect(content.locator("li", has_text=taken)).to_contain_text("is matched with another node")
    expect(content.locator("li", has_text=DEBUG)).to_contain_text("will be matched")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert partner(renamed_database, DEBUG) is None, "nothing is written before it is agreed to"

    frame.set_input_files("ga-import #file", file)
    content.get_by_label("End the matches that stand in the way").check()
    expect(content.locator("#summary")).to_contain_text("To be matched: 2.")
    content.locator("#confirm").click()
    expect(dialog).to_be_hidden()
    expect(frame.locator("ga-match #outcome")).to_have_text("Imported: 2 of 3 pairs matched")
    assert partner(renamed_database, DEBUG) == REFERENCE
    assert partner(renamed_database, taken) == layer_1[1]

    with page.expect_download() as download:
        frame.click("ga-match #export")
    exported = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    written = {one["npu"]: one["bench"] for one in exported["matches"]}
    assert written == {DEBUG: REFERENCE, taken: layer_1[1]}


def test_a_file_that_is_no_match_file_is_named_as_such(
    page: Page,
    renamed_database: Path,
    tensorboard_server: StartTensorBoard,
    tmp_path: Path,
    expected_complaints: list[str],
) -> None:
    expected_complaints.append("400")
    (tmp_path / "notes.json").write_text('["not matches"]', encoding="utf-8")
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    open_match(frame, DEBUG)
    frame.set_input_files("ga-import #file", tmp_path / "notes.json")
    expect(frame.get_by_role("dialog", name="Import matches from notes.json")).to_be_visible()
    content = frame.locator("ga-import")
    expect(content.get_by_role("alert")).to_contain_text("Export matches to see the form")
    expect(content.locator("#confirm")).to_be_disabled()


@pytest.mark.slow
def test_of_two_people_at_once_the_second_is_shown_what_the_first_did(
    page: Page,
    renamed_database: Path,
    tensorboard_server: StartTensorBoard,
    expected_complaints: list[str],
) -> None:
    expected_complaints.append("409")
    address = tensorboard_server(renamed_database.parent)
    other = [name.replace("layers.0", "layers.1") for name in (DEBUG, REFERENCE)]
    frame = open_viewer(page, address)
    open_match(frame, DEBUG, REFERENCE)
    colleague = page.context.new_page()
    theirs = open_viewer(colleague, address)
    open_match(theirs, other[0], other[1])
    theirs.click("ga-match #apply")
    expect(theirs.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
    colleague.close()

    frame.click("ga-match #apply")
    expect(frame.locator("ga-match #outcome")).to_contain_text("changed by somebody else")
    assert partner(renamed_database, DEBUG) is None
    assert partner(renamed_database, other[0]) == other[1], "what was acknowledged stays"
    open_match(frame, DEBUG, REFERENCE)
    frame.click("ga-match #apply")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
    assert partner(renamed_database, DEBUG) == REFERENCE
    select_node(frame, other[0])
    expect(frame.locator("ga-node-summary .match")).to_contain_text("matched by hand")


def test_keys_name_what_they_undo_before_they_do_it(
    page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    said = frame.locator("ga-toast #box")
    canvas(frame).press("u")
    expect(said).to_have_text("No match made by hand is left to undo or redo.")
    open_match(frame, DEBUG, REFERENCE)
    frame.locator("ga-match #apply").click()
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done")

    canvas(frame).press("u")
    expect(said).to_contain_text(f"Undo: {DEBUG} ↔ {REFERENCE}")
    assert partner(renamed_database, DEBUG) == REFERENCE, "the first press only names it"
    canvas(frame).press("u")
    expect(said).to_contain_text("Done")
    assert partner(renamed_database, DEBUG) is None

    canvas(frame).press("Control+y")
    expect(said).to_contain_text(f"Redo: {DEBUG} ↔ {REFERENCE}")
    canvas(frame).press("Shift+U")
    expect(said).to_contain_text("Done")
    assert partner(renamed_database, DEBUG) == REFERENCE
    canvas(frame).press("Control+z")
    canvas(frame).press("Control+z")
    expect(frame.locator("ga-node-summary")).to_contain_text("Unmatched")
    assert partner(renamed_database, DEBUG) is None
