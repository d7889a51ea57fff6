"""axe-core finds nothing serious in what users see, in both themes and languages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Frame, Page, expect

from tests.browser.accessibility import grave_faults
from tests.browser.viewer import SHOWS_GRAPHS, open_page, open_viewer, select_node
from tests.browser.watch import watched_page
from tests.conftest import StartTensorBoard

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
DEBUG = "Module.model.layers.0.self_attention.q_proj.Linear.forward.0"


@pytest.fixture(
    params=[
        ("dark", "zh-CN"),
        pytest.param(("light", "en-US"), marks=pytest.mark.slow),
        pytest.param(("light", "zh-CN"), marks=pytest.mark.slow),
        pytest.param(("dark", "en-US"), marks=pytest.mark.slow),
    ],
    ids="-".join,
)
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    """A page in one of the themes and languages."""
    scheme, locale = request.param
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, locale=locale, color_scheme=scheme
    )
    context.set_default_timeout(30_000)
    page = watched_page(context).page
    yield page
    context.close()


class Faults:
    """What was found, with where."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._found: list[str] = []

    def look(self, state: str) -> None:
        self._found += [f"{state}: {fault}" for fault in grave_faults(self._frame)]

    def check(self) -> None:
        assert not self._found, "\n".join(self._found)


@pytest.mark.slow
def test_a_grave_fault_deep_inside_is_found(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    nameless = "element => element.shadowRoot.append(document.createElement('button'))"
    frame.locator("ga-legend").evaluate(nameless)
    [fault] = grave_faults(frame)
    assert "button-name" in fault


def test_a_comparison_and_everything_around_it(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    faults = Faults(frame)
    faults.look("graph")
    select_node(frame, "Functional.softmax.1.forward")
    tabs = frame.locator("ga-details [role=tab]:visible")
    for place in range(tabs.count()):
        tabs.nth(place).click()
        faults.look(f"details, tab {place + 1}")
    frame.click("ga-search #list")
    frame.locator("ga-hit-list .hit").first.wait_for()
    faults.look("list of matches")
    frame.fill("ga-search input", "no such node")
    faults.look("nothing found")
    frame.click("ga-toolbar #help")
    frame.locator("ga-help dialog").wait_for()
    faults.look("help")
    page.keyboard.press("Escape")
    frame.click("ga-toolbar #overview")
    frame.locator("ga-overview .cell").first.wait_for()
    faults.look("overview")
    faults.check()


@pytest.mark.slow
def test_the_overview_of_ranks_with_overflow(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent))
    frame.locator("ga-overview .cell").first.wait_for()
    faults = Faults(frame)
    faults.look("overview")
    frame.locator("ga-overview .cell").first.click()
    frame.wait_for_function(SHOWS_GRAPHS)
    select_node(frame, "Distributed.all_reduce.0.forward")
    for tab in ("communication", "across"):
        frame.click(f"ga-details #{tab}")
        faults.look(tab)
    frame.click("ga-details #tensors")
    frame.click("ga-table-tools #columns")
    faults.look("columns")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    frame.locator("ga-palette dialog").wait_for()
    faults.look("command palette")
    faults.check()


@pytest.mark.slow
def test_the_overview_with_configurations_that_differ(
    page: Page, configured_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(configured_database.parent))
    faults = Faults(frame)
    shown = frame.locator("ga-configuration")
    expect(shown.locator("tbody tr")).to_have_count(8)
    faults.look("the differences between configurations")
    shown.locator("#all").click()
    expect(shown.locator("tbody tr")).to_have_count(11)
    faults.look("all of them")
    faults.check()


@pytest.mark.slow
def test_a_merged_model_and_how_its_values_were_made(
    page: Page, merged_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(merged_database.parent))
    select_node(frame, "Module.0.decoder.layers.0.self_attention.linear_qkv.Column")
    frame.click("ga-table-tools #recipes")
    faults = Faults(frame)
    faults.look("merged values")
    faults.check()


@pytest.mark.slow
def test_matching_by_hand(
    page: Page, renamed_build: Path, tensorboard_server: StartTensorBoard
) -> None:
    address = tensorboard_server(renamed_build.parent)
    frame = open_viewer(page, address)
    faults = Faults(frame)
    select_node(frame, DEBUG)
    frame.locator("ga-details #match").click()
    frame.locator("ga-match .candidates input").first.click()
    frame.locator("ga-match #preview li").first.wait_for()
    faults.look("preview")
    matches = {"name": "a.json", "mimeType": "application/json", "buffer": b'{"a": "b"}'}
    frame.set_input_files("ga-import #file", matches)  # type: ignore[arg-type]
    frame.locator("ga-import li").wait_for()
    faults.look("import")
    page.keyboard.press("Escape")
    frame.locator("ga-match #pick").click()
    faults.look("choosing in the graph")
    faults.check()


@pytest.mark.slow
def test_what_stands_instead_of_a_graph(
    page: Page, tmp_path: Path, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(tmp_path))
    expect(frame.locator("ga-message section")).to_be_visible()
    faults = Faults(frame)
    faults.look("nothing there")
    (tmp_path / "torn.vis.db").write_bytes(demo_database.read_bytes()[:5000])
    shutil.copy(demo_database, tmp_path / "whole.vis.db")
    frame.locator("ga-message button.primary").click()
    frame.select_option("ga-toolbar #file", "torn.vis.db")
    expect(frame.locator("ga-message section[role=alert]")).to_be_visible()
    faults.look("damaged file")
    faults.check()
