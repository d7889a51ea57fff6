"""Every key that the page names does something, or says why not, wherever it is pressed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import open_page, open_viewer, wait_for_answers, wait_for_details
from tests.conftest import StartTensorBoard

CULPRIT = "Tensor.__mul__.19.forward"
OVERVIEW = "#graph_ascend&p.graph_ascend.page=overview"
# What somebody may see of a key: the view, what is said, what is open, and where the focus is.
SEEN = """() => {
  const app = document.querySelector('ga-app');
  const parts = app.shadowRoot;
  const { view, pick } = app.state;
  const toast = parts.querySelector('ga-toast').shadowRoot.textContent;
  const focus = [];
  for (let at = document.activeElement; at; at = at.shadowRoot?.activeElement) {
    focus.push(at.localName);
  }
  const card = parts.querySelector('ga-verdict-line').isOpen;
  const dock = parts.querySelector('ga-details').dock;
  const open = [...parts.querySelectorAll('ga-help, ga-palette')]
    .map((one) => one.shadowRoot.querySelector('ga-dialog, dialog'))
    .map((one) => (one.shadowRoot?.querySelector('dialog') ?? one).open);
  return JSON.stringify([view, pick, toast, focus, card, dock, open, app.isListOpen]);
}"""


def named_keys(page: Page, frame: Frame) -> list[str]:
    page.keyboard.press("?")
    named = frame.locator("ga-help dt[data-key]:not([data-key=''])")
    expect(named.first).to_be_visible()
    keys: list[str] = named.evaluate_all("(all) => all.map((one) => one.dataset.key)")
    page.keyboard.press("Escape")
    return keys


@pytest.mark.parametrize("start", ["graph", "overview"])
def test_every_key_of_the_list_does_or_says_something(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard, start: str
) -> None:
    fragment = OVERVIEW if start == "overview" else "#graph_ascend&p.graph_ascend.step=0"
    address = tensorboard_server(ddp_database.parent)

    def opened() -> Frame:
        page.goto("about:blank")
        if start == "overview":
            frame = open_page(page, address, fragment)
            expect(frame.locator("ga-overview .cell.lead")).to_be_focused()
        else:
            frame = open_viewer(page, address, fragment)
            wait_for_details(frame, CULPRIT)
        wait_for_answers(frame)
        return frame

    keys = named_keys(page, opened())
    assert {"v", "o", "c", "i", "/", "[", "u", "y", "j", "r", "k", "b"} <= set(keys)
    silent = []
    for key in keys:
        frame = opened()
        before = frame.evaluate(SEEN)
        page.keyboard.press(key)
        try:
            frame.wait_for_function(f"(before) => ({SEEN})() !== before", arg=before, timeout=5000)
        except Exception:
            silent.append(key)
    assert silent == []


def test_a_suspect_is_reached_from_the_overview_by_its_key(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent), OVERVIEW)
    expect(frame.locator("ga-overview .cell.lead")).to_be_focused()
    page.keyboard.press("v")
    wait_for_details(frame, CULPRIT)
    page.keyboard.press("o")
    page.keyboard.press("c")
    expect(frame.locator("ga-overview")).to_be_hidden()
    expect(frame.locator("ga-legend [data-key='grade-5']")).to_be_visible()
