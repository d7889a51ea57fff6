"""The graph has the larger part of the window, and the verdict stays in sight."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.viewer import canvas, open_page, open_viewer, wait_for_details, wait_for_row
from tests.conftest import BuildDatabase, StartTensorBoard

CULPRIT = "Tensor.__mul__.19.forward"
OVERVIEW = "#graph_ascend&p.graph_ascend.page=overview"


@pytest.mark.parametrize(("width", "height", "least"), [(1280, 720, 0.55), (1920, 1080, 0.7)])
def test_the_graph_has_most_of_the_height_and_a_suspect_its_tensors(
    page: Page,
    demo_database: Path,
    tensorboard_server: StartTensorBoard,
    width: int,
    height: int,
    least: float,
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    box = canvas(frame).bounding_box()
    assert box is not None
    assert box["height"] >= least * height
    expect(frame.locator("ga-tensor-table [data-section='output']").first).to_be_in_viewport()
    expect(frame.locator("ga-verdict-line .sentence")).to_contain_text("0.375 → 0.25")


def test_the_details_stand_at_the_right_by_a_key_and_stay_there(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    before = canvas(frame).bounding_box()
    page.keyboard.press("r")
    frame.wait_for_function(
        "(height) => document.querySelector('ga-app').shadowRoot"
        ".querySelector('ga-hierarchy').offsetHeight > height + 100",
        arg=before and before["height"],
    )
    graph = canvas(frame).bounding_box()
    details = frame.locator("ga-details").bounding_box()
    assert graph is not None
    assert details is not None
    assert graph["x"] + graph["width"] <= details["x"]
    separator = frame.get_by_role("separator", name="Size of the details")
    separator.focus()
    page.keyboard.press("ArrowLeft")
    wider = frame.locator("ga-details").bounding_box()
    assert wider is not None
    assert wider["width"] > details["width"]
    page.reload()
    wait_for_details(frame, CULPRIT)
    expect(frame.locator("ga-details")).to_have_attribute("dock", "")


def test_a_key_shows_the_whole_verdict_over_the_graph(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    page.keyboard.press("j")
    card = frame.locator("ga-verdict-line ga-card")
    expect(card.locator("#culprit")).to_have_text(CULPRIT)
    expect(card.locator("#source")).to_have_text("modeling_llama.py:193")
    # The line of code stands in the stack that the dump holds.
    expect(card.locator("#code")).to_contain_text("* scaling")
    expect(card.locator(".large")).to_have_text("argument 1 0.375 → 0.25", use_inner_text=True)
    expect(card.locator("#check")).to_contain_text("msprobe-operators check")
    expect(card.locator("#go")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


@pytest.mark.parametrize("size", [(480, 800), (640, 360)], ids=["narrow", "zoomed to 200 %"])
def test_a_small_window_opens_at_its_top_where_the_verdict_is(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    frame = open_page(page, tensorboard_server(ddp_database.parent), OVERVIEW)
    expect(frame.locator("ga-overview ga-card #culprit")).to_be_in_viewport()
    page.keyboard.press("Enter")
    wait_for_details(frame, CULPRIT)
    wait_for_row(frame, CULPRIT)
    expect(frame.locator("ga-verdict-line .chip")).to_be_in_viewport()
    assert frame.evaluate("document.querySelector('ga-app').scrollTop") == 0


def test_colours_say_what_the_verdict_does_until_a_key_is_pressed(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    legend = frame.locator("ga-legend")
    expect(legend.locator("[data-key='part-suspect']")).to_be_visible()
    page.keyboard.press("c")
    expect(legend.locator("[data-key='part-suspect']")).to_have_count(0)
    expect(legend.locator("[data-key='grade-5']")).to_be_visible()
    assert "colours=precision" in page.url


def test_a_wide_window_tells_shape_type_and_norm_on_both_sides(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    frame.wait_for_function("document.querySelector('ga-app').state.values !== null")
    drawing = frame.evaluate(
        "document.querySelector('ga-app').shadowRoot.querySelector('ga-hierarchy').made.toSvg()"
    )
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    with sqlite3.connect(demo_database) as connection:
        norms = connection.execute(
            "SELECT norm FROM tensor_view WHERE node = ? AND name = 'output.0'", (CULPRIT,)
        ).fetchall()
    assert len(norms) == 2
    for (norm,) in norms:
        assert f"{float(norm):.5g}" in texts
    assert texts.count("float32") >= 20
    assert texts.count("[2, 4, 16, 16]") >= 4


FULL = """(legend) => {
  const full = { isEmpty: false, count: '12,345', short: '12K' };
  legend._setProperty("entries", legend.entries.map((one) => ({ ...one, ...full })));
}"""


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_the_legend_is_one_line_also_where_everything_in_it_occurs(
    browser: Browser,
    dumps: Path,
    build_database: BuildDatabase,
    tensorboard_server: StartTensorBoard,
    locale: str,
) -> None:
    runs = ("llama_statistics_wrong_attention_scale", "llama_statistics")
    database = build_database(*(dumps / name / "step0" / "rank" for name in runs), "-oc")
    size = ViewportSize(width=1280, height=720)
    with closing(browser.new_context(viewport=size, locale=locale)) as window:
        frame = open_viewer(window.new_page(), tensorboard_server(database.parent))
        wait_for_details(frame, CULPRIT)
        legend = frame.locator("ga-legend")
        modes = legend.locator("#colours option").evaluate_all("all => all.map(one => one.value)")
        assert len(modes) == 5
        for mode in modes:
            legend.locator("#colours").select_option(mode)
            expect(legend.locator("button").nth(7)).to_be_attached()
            legend.evaluate(FULL)  # as many of each as the largest graphs have
            expect(legend.locator("button:disabled")).to_have_count(0)
            box = legend.bounding_box()
            assert box is not None
            assert box["height"] <= 30, mode
            # What its bars alone say to the eye is read out.
            expect(legend.get_by_role("button", name=re.compile("12,345|12K"))).to_have_count(
                legend.locator("button").count()
            )
