"""The command palette: commands, places and nodes by keyboard alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import (
    NPU,
    SHOWS_GRAPHS,
    canvas,
    find_row,
    open_viewer,
    scene,
    wait_for_answers,
    wait_for_details,
)
from tests.conftest import StartTensorBoard

GRAPH = "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank=0"
SOFTMAX = "Functional.softmax.1.forward"


def open_palette(page: Page, frame: Frame, key: str = "Control+k") -> None:
    wait_for_answers(frame)
    page.keyboard.press(key)
    expect(frame.get_by_role("combobox", name="Command palette")).to_be_focused()


def run(page: Page, frame: Frame, words: str) -> None:
    open_palette(page, frame)
    page.keyboard.type(words)
    page.keyboard.press("Enter")
    expect(frame.locator("ga-palette dialog")).to_be_hidden()


@pytest.mark.parametrize("key", ["Control+k", "Meta+k", ":"])
def test_opens_with_its_keys_and_gives_the_focus_back(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard, key: str
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    expect(canvas(frame)).to_be_focused()
    open_palette(page, frame, key)
    page.keyboard.press("Escape")
    expect(frame.locator("ga-palette dialog")).to_be_hidden()
    expect(canvas(frame)).to_be_focused()


def test_words_narrow_the_list_and_enter_runs_what_is_marked(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    run(page, frame, "collapse all")
    frame.wait_for_function("document.querySelector('ga-app').scene.every((row) => row.depth < 2)")
    run(page, frame, "expand all")
    frame.wait_for_function("document.querySelector('ga-app').scene.some((row) => row.depth === 2)")
    open_palette(page, frame)
    page.keyboard.type("zoom")
    marked = frame.locator("ga-palette [aria-selected='true']")
    expect(marked).to_contain_text("Zoom in")
    page.keyboard.press("ArrowDown")
    expect(marked).to_contain_text("Zoom out")
    expect(frame.get_by_role("combobox", name="Command palette")).to_have_attribute(
        "aria-activedescendant", str(marked.get_attribute("id"))
    )
    before = find_row(frame, scene(frame, NPU)[0]["name"])["height"]
    page.keyboard.press("Enter")
    frame.wait_for_function(
        "(before) => document.querySelector('ga-app').scene[0].height < before", arg=before
    )


def test_a_node_is_found_by_a_part_of_its_name(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    open_palette(page, frame)
    page.keyboard.type(SOFTMAX.lower())
    expect(frame.locator("ga-palette .item .swatch")).to_have_count(1)
    expect(frame.locator("ga-palette .item .swatch")).to_have_attribute("title", "OK")
    expect(frame.locator("ga-palette .item .kind")).to_contain_text(["API · OK"])
    page.keyboard.press("Enter")
    wait_for_details(frame, SOFTMAX)
    frame.wait_for_function(
        """(name) => document.querySelector('ga-app').scene
          .some((row) => row.name === name && row.selected)""",
        arg=SOFTMAX,
    )


def test_goes_to_steps_and_ranks_and_the_overview(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    run(page, frame, "step 1 rank 3")
    view = "document.querySelector('ga-app').state.view"
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {view}.step === 1 && {view}.rank === 3")
    run(page, frame, "overview")
    expect(frame.locator("ga-overview")).to_be_visible()
    open_palette(page, frame)
    expect(frame.locator("ga-palette .item", has_text="Expand all")).to_have_count(1)
    page.keyboard.type("no such thing")
    expect(frame.locator("ga-palette #list")).to_contain_text("No node matches.")


def test_speaks_chinese(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    run(page, frame, "language")
    page.keyboard.press("Control+k")
    expect(frame.get_by_role("combobox", name="命令面板")).to_be_focused()
    page.keyboard.type("折叠")
    expect(frame.locator("ga-palette [aria-selected='true']")).to_contain_text("折叠")
