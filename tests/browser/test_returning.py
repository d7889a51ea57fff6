"""Coming back to the viewer: what has become of the files, without disturbing what is shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import NPU, click_row, open_viewer, scene, select_node
from tests.conftest import StartTensorBoard

MODEL_BEFORE = "Module.net.Net.forward.0"
SHOWN = "Functional.softmax.3.forward"
PAUSE_MS = 6000
"""Files are looked for again after at least five seconds."""


def leave_and_return(page: Page, frame: Frame) -> None:
    """Go to another of TensorBoard's tabs, which hides the frame, and come back a while later."""
    iframe = page.locator("iframe")
    with page.expect_response(lambda response: "/catalog" in response.url):
        iframe.evaluate(
            """(iframe) => new Promise((done) => {
              iframe.style.display = 'none';
              new IntersectionObserver(([entry], observer) => {
                if (entry.isIntersecting) return;
                observer.disconnect();
                done();
              }).observe(iframe);
            })"""
        )
        # Not the browser's clock: that would go on for every later test of this window.
        frame.evaluate(
            """(pause) => {
              const now = performance.now.bind(performance);
              performance.now = () => now() + pause;
            }""",
            PAUSE_MS,
        )
        iframe.evaluate("(iframe) => { iframe.style.display = ''; }")


def names(frame: Frame) -> list[str]:
    return [row["name"] for row in scene(frame, NPU)]


@pytest.mark.slow
def test_files_that_appear_change_and_go_are_noticed(
    page: Page,
    small_database: Path,
    demo_database: Path,
    tensorboard_server: StartTensorBoard,
    tmp_path: Path,
) -> None:
    shown = Path(shutil.copy(small_database, tmp_path / "shown.vis.db"))
    frame = open_viewer(page, tensorboard_server(tmp_path), in_tab=True)
    select_node(frame, SHOWN)
    before = names(frame)
    assert MODEL_BEFORE in before
    notice = frame.locator("ga-notice")

    shutil.copy(demo_database, tmp_path / "new.vis.db")
    leave_and_return(page, frame)
    expect(frame.locator("ga-toolbar #file option")).to_have_count(2)
    expect(notice).to_be_hidden()
    assert names(frame) == before

    replaced = shutil.copy(demo_database, tmp_path / "replaced")
    Path(replaced).replace(shown)
    leave_and_return(page, frame)
    expect(notice).to_contain_text("shown.vis.db has changed since it was loaded")
    assert MODEL_BEFORE in names(frame)
    click_row(frame, MODEL_BEFORE)
    expect(frame.locator("ga-details #outdated")).to_contain_text("changed since the graph")
    frame.get_by_role("tab", name="Match").click()
    expect(frame.locator("ga-match")).to_be_hidden()  # it would say that there is no candidate
    frame.get_by_role("tab", name="Tensors").click()
    frame.click("ga-notice #reload")
    expect(notice).to_be_hidden()
    frame.wait_for_function(
        "(name) => document.querySelector('ga-app').scene.every((row) => row.name !== name)",
        arg=MODEL_BEFORE,
    )

    before = names(frame)
    shown.unlink()
    leave_and_return(page, frame)
    expect(notice).to_contain_text("shown.vis.db is no longer below the log directory")
    after = names(frame)
    assert after[:-1] == before[: len(after) - 1], "the line takes room at the lower edge only"
