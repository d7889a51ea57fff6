"""An answer that comes late takes the focus from nobody who has gone on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.viewer import SHOWS_GRAPHS, canvas, open_viewer, wait_for_answers
from tests.conftest import StartTensorBoard

LAST = "#graph_ascend&p.graph_ascend.step=1&p.graph_ascend.rank=3"
PLACE = "(({ step, rank }) => `${step} ${rank}`)(document.querySelector('ga-app').state.view)"


def hold_hierarchies(page: Page) -> Callable[[], None]:
    """Keep the answers that bring hierarchies waiting until what this returns is called."""
    held: list[Route] = []
    released: list[bool] = []

    def on_request(route: Route) -> None:
        if released:
            route.continue_()
        else:
            held.append(route)

    def release() -> None:
        released.append(True)
        for route in held:
            route.continue_()

    page.route("**/skeleton?*", on_request)
    return release


@pytest.mark.parametrize("field", ["ga-search #input", "ga-palette #input"])
def test_who_has_gone_on_to_type_keeps_typing(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard, field: str
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), LAST)
    expect(canvas(frame)).to_be_focused()
    wait_for_answers(frame)
    release = hold_hierarchies(page)
    with page.expect_request("**/skeleton?*"):
        page.keyboard.press("v")
    if "palette" in field:
        page.keyboard.press("Control+k")
    else:
        frame.click(field)
    expect(frame.locator(field)).to_be_focused()
    page.keyboard.type("lin")
    release()
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {PLACE} !== '1 3'")
    wait_for_answers(frame)
    page.keyboard.type("ear")
    expect(frame.locator(field)).to_be_focused()
    expect(frame.locator(field)).to_have_value("linear")


def test_who_waits_finds_the_keys_in_the_graph(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), LAST)
    wait_for_answers(frame)
    release = hold_hierarchies(page)
    with page.expect_request("**/skeleton?*"):
        frame.click("ga-verdict-line #nextSuspect")
    release()
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {PLACE} !== '1 3'")
    expect(canvas(frame)).to_be_focused()
