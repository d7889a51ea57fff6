"""Matching by hand, from candidates or by a click, with preview, undo and redo."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import BENCH, click_row, find_row, open_viewer, select_node
from tests.conftest import StartTensorBoard

DEBUG = "Module.model.layers.0.self_attention.q_proj.Linear.forward.0"
REFERENCE = "Module.model.layers.0.self_attn.q_proj.Linear.forward.0"


def partner(database: Path, name: str) -> str | None:
    with sqlite3.connect(database) as connection:
        [(found,)] = connection.execute(
            "SELECT matched FROM node_view WHERE side = 'npu' AND name = ?", (name,)
        )
        return str(found) if found else None


def open_match(frame: Frame, name: str) -> None:
    select_node(frame, name)
    frame.get_by_role("tab", name="Match").click()


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
    frame.locator("ga-match #apply").click()
    expect(frame.locator("ga-node-summary .grade")).to_have_text("Unmatched")
    assert partner(renamed_database, DEBUG) is None


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
