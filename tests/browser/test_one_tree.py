"""Both sides as one tree: every row once, with what both sides put out."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import (
    BENCH,
    NPU,
    canvas,
    click_row,
    make_tall,
    open_viewer,
    plugin_frame,
    scene,
    wait_for_details,
    wait_for_row,
)
from tests.conftest import BuildDatabase, StartTensorBoard

CULPRIT = "Tensor.__mul__.19.forward"
GRAPH = "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank=0"
UNIFIED = "document.querySelector('ga-app').state.view.unified"
PANES = """() => [...document.querySelector('ga-app').shadowRoot.querySelector('ga-hierarchy')
  .shadowRoot.querySelectorAll('#canvas > div > canvas')]
  .filter((board) => board.style.display !== 'none' && board.clientWidth > 100).length"""


def unify(page: Page, frame: Frame) -> None:
    canvas(frame).focus()
    page.keyboard.press("i")
    frame.wait_for_function(f"{UNIFIED} && document.querySelector('ga-app').state.values !== null")


def test_a_key_and_a_button_join_both_sides_and_the_link_keeps_it(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    assert frame.evaluate(PANES) == 2
    unify(page, frame)
    frame.wait_for_function(f"({PANES})() === 1")
    expect(frame.locator("ga-view-tools #unified")).to_have_attribute("aria-pressed", "true")
    assert wait_for_row(frame, CULPRIT)["selected"]
    assert {row["side"] for row in scene(frame)} == {NPU}
    heads = frame.locator("ga-sides .head")
    expect(heads).to_have_text(["L2 norm of the output · llama_…_scale", "llama_…istics"])
    page.wait_for_function("location.hash.includes('unified=1')")
    page.reload()
    frame = plugin_frame(page)
    wait_for_details(frame, CULPRIT)
    frame.wait_for_function(f"({PANES})() === 1")
    frame.click("ga-view-tools #unified")
    frame.wait_for_function(f"({PANES})() === 2")


def test_keys_walk_from_row_to_row_and_a_click_shows_both_sides(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    unify(page, frame)
    rows = [row["name"] for row in scene(frame)]
    page.keyboard.press("ArrowDown")
    wait_for_details(frame, rows[rows.index(CULPRIT) + 1])
    page.keyboard.press("ArrowUp")
    wait_for_details(frame, CULPRIT)
    # The other side of the same row, and back.
    page.keyboard.press("x")
    frame.wait_for_function("document.querySelector('ga-app').state.selected.side === 1")
    assert wait_for_row(frame, CULPRIT)["selected"]
    other = rows[rows.index(CULPRIT) - 1]
    click_row(frame, other)
    wait_for_details(frame, other)
    frame.wait_for_function("document.querySelector('ga-app').state.selected.side === 0")


@pytest.mark.slow
def test_what_one_side_has_alone_stands_in_the_same_tree(
    page: Page,
    dumps: Path,
    build_database: BuildDatabase,
    tensorboard_server: StartTensorBoard,
) -> None:
    # The reference runs parts of its forward pass again.
    database = build_database(
        dumps / "llama_statistics" / "step0" / "rank",
        dumps / "llama_statistics_recompute" / "step0" / "rank",
    )
    frame = open_viewer(page, tensorboard_server(database.parent), GRAPH)
    unify(page, frame)
    frame.click("ga-view-tools [data-command='expand-all']")
    make_tall(page, frame)
    frame.wait_for_function("document.querySelector('ga-app').scene.some((row) => row.side === 1)")
    rows = scene(frame)
    with closing(sqlite3.connect(database)) as connection:
        unmatched = {
            name
            for (name,) in connection.execute(
                "SELECT name FROM node_view WHERE side = 'bench' AND matched IS NULL"
            )
        }
    alone = [row for row in rows if row["side"] == BENCH]
    assert {row["name"] for row in alone} <= unmatched
    tops = [row["y"] for row in rows]
    assert tops == sorted(tops)
    name = alone[0]["name"]
    click_row(frame, name, BENCH)
    wait_for_details(frame, name)
    assert wait_for_row(frame, name, BENCH)["selected"]
