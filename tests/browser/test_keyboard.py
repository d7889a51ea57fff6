"""The viewer without a pointer: the tree that assistive technology gets, focus, help, menus."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.viewer import NPU, canvas, open_viewer, scene, select_node
from tests.conftest import StartTensorBoard


def test_the_tree_names_what_the_keys_reach(
    page: Page, small_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(small_database.parent))
    frame.locator("ga-view-tools [data-command='expand-all']").click()
    frame.get_by_role("button", name="View", exact=True).click()
    frame.get_by_role("menuitemcheckbox", name="Fold repeated layers into one row").click()
    canvas(frame).focus()
    page.keyboard.press("Home")
    seen = set()
    for _ in range(len(scene(frame, NPU)) - 1):
        page.keyboard.press("ArrowDown")
        selected = "document.querySelector('ga-app').scene.find((row) => row.selected)"
        frame.wait_for_function(
            f"""() => {{
              const {{ side, id }} = {selected};
              const root = document.querySelector('ga-app').shadowRoot
                .querySelector('ga-hierarchy').shadowRoot.querySelector('[role=application]');
              return root?.getAttribute('aria-activedescendant') === `node-${{side}}-${{id}}`;
            }}"""
        )
        row = frame.evaluate(selected)
        item = frame.locator(f"ga-hierarchy #node-{row['side']}-{row['id']}")
        expect(item).to_have_attribute("aria-selected", "true")
        expect(item).to_contain_text(row["name"])
        seen.add(row["id"])
    assert len(seen) == len(scene(frame, NPU)) - 1, "each row has an item of its own"


def test_focus_returns_from_every_dialog(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, "Functional.softmax.0.forward")
    canvas(frame).focus()
    page.keyboard.press("?")
    expect(frame.get_by_role("dialog", name="Keys and gestures")).to_be_visible()
    page.keyboard.press("Escape")
    expect(frame.get_by_role("dialog", name="Keys and gestures")).to_be_hidden()
    expect(canvas(frame)).to_be_focused()

    notes = frame.locator("ga-notes #open")
    notes.focus()
    page.keyboard.press("Enter")
    dialog = frame.get_by_role("dialog", name="About this file")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Close").press("Enter")
    expect(dialog).to_be_hidden()
    expect(notes).to_be_focused()

    page.keyboard.press("?")
    box = frame.locator("ga-help dialog").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] / 2, box["y"] + 20)
    expect(frame.get_by_role("dialog", name="Keys and gestures")).to_be_hidden()


def test_menus_open_walk_and_close_by_keys(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    button = frame.get_by_role("button", name="View", exact=True)
    frame.locator("ga-legend #colours").wait_for()
    button.focus()
    page.keyboard.press("ArrowDown")
    expect(
        frame.get_by_role("menuitemcheckbox", name="Colour by part in the verdict")
    ).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(frame.get_by_role("menuitem", name="Save the report")).to_be_focused()
    page.keyboard.press("End")
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(frame.get_by_role("menu")).to_be_hidden()
    expect(button).to_be_focused()
    assert {row["side"] for row in scene(frame)} == {NPU}


def test_the_focus_can_be_seen(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    page.keyboard.press("Tab")
    for _ in range(25):
        seen = frame.evaluate(
            """() => {
              let at = document.activeElement;
              while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
              if (!at || at === document.body || at.role === 'application') return null;
              const { outlineStyle, outlineWidth } = getComputedStyle(at);
              return [at.id || at.tagName, outlineStyle, outlineWidth];
            }"""
        )
        if seen is not None:
            assert seen[1] != "none", seen[0]
            assert seen[2] != "0px", seen[0]
        page.keyboard.press("Tab")
