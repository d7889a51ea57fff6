"""Images of the view, folding of layers and one side alone: the menu "View"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Download, Frame, Page, expect

from tests.browser.viewer import (
    BENCH,
    NPU,
    find_row,
    open_viewer,
    pixel,
    plugin_frame,
    scene,
    select_node,
    wait_for_row,
)
from tests.conftest import StartTensorBoard

SOFTMAX = "Functional.softmax.0.forward"
FIRST_NAN = "Functional.linear.13.forward"
DRAWN = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


def choose(frame: Frame, name: str) -> None:
    frame.get_by_role("button", name="View", exact=True).click()
    frame.get_by_role("menu").get_by_text(name, exact=True).click()


def save(page: Page, frame: Frame, name: str) -> Download:
    with page.expect_download() as download:
        choose(frame, name)
    return download.value


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_svg_image_says_where_it_is_from_and_what_colours_mean(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard, theme: str
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    for _ in range({"light": 1, "dark": 2}[theme]):
        frame.click("ga-toolbar #theme")
    select_node(frame, SOFTMAX)
    download = save(page, frame, "Save as SVG image")
    stem = demo_database.name.removesuffix(".vis.db")
    assert download.suggested_filename == f"{stem}_step0_rank0.svg"
    expect(frame.locator("ga-toast [role='status']")).to_contain_text(f"{stem}_step0_rank0.svg")

    drawing = Path(download.path()).read_text(encoding="utf-8")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
    runs = "llama_statistics_wrong_attention_scale ↔ llama_statistics"
    assert texts[0] == f"{runs} · step 0 · rank 0"
    for run in runs.split(" ↔ "):
        assert any(text.startswith((f"{run} · ", f"{run[:37]}…")) for text in texts), texts[:4]
    assert any(text.startswith("Carries it on ") for text in texts), "the legend"
    shown = {row["label"].split(" · ")[0] for row in scene(frame)}
    assert shown <= set(texts)


def test_a_png_image_is_as_large_as_the_view_with_words_around(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    image = Path(save(page, frame, "Save as PNG image").path()).read_bytes()
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    height = int.from_bytes(image[20:24], "big")
    tall = frame.locator("ga-hierarchy #canvas canvas").first.evaluate("(it) => it.clientHeight")
    assert height == 2 * (tall + 3 * 28), "caption, titles and legend"


@pytest.mark.slow
def test_one_side_alone_has_no_gaps_and_the_other_is_one_key_away(
    page: Page, renamed_build: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(renamed_build.parent))
    choose(frame, "llama_statistics_renamed_all alone")
    frame.locator("ga-view-tools [data-command='expand-all']").click()
    rows = [row for row in scene(frame) if not row["y"] < 0]
    assert {row["side"] for row in rows} == {NPU}
    width = frame.locator("ga-hierarchy #canvas").evaluate("(it) => it.clientWidth")
    assert max(row["width"] for row in rows) > width * 0.8
    numbers = [row["row"] for row in rows]
    assert numbers[-1] - numbers[-5] == 4, "every row has its node"
    expect(frame.get_by_role("button", name="Move together")).to_be_hidden()

    frame.locator("ga-view-tools [data-command='path-to-errors']").click()
    select_node(frame, SOFTMAX)
    frame.locator("ga-hierarchy #canvas > [tabindex='0']").press("x")
    frame.wait_for_function("document.querySelector('ga-app').scene.every((row) => row.side === 1)")
    assert find_row(frame, SOFTMAX, BENCH)["selected"]
    choose(frame, "Both sides")
    assert {row["side"] for row in scene(frame)} == {NPU, BENCH}


def test_layers_are_folded_and_unfolded_by_the_menu(
    page: Page, small_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(small_database.parent))
    folded = "document.querySelector('ga-app').scene.some((row) => row.layers > 1)"
    assert not frame.evaluate(folded)
    frame.locator("ga-view-tools [data-command='expand-all']").click()
    choose(frame, "Fold repeated layers into one row")
    frame.wait_for_function(folded)
    page.wait_for_function("location.hash.includes('fold=1')")
    frame.get_by_role("button", name="View", exact=True).click()
    item = frame.get_by_role("menuitemcheckbox", name="Fold repeated layers into one row")
    expect(item).to_have_attribute("aria-checked", "true")
    page.keyboard.press("Escape")
    expect(frame.get_by_role("button", name="View", exact=True)).to_be_focused()

    page.reload()
    frame = plugin_frame(page)
    frame.wait_for_function(folded)


@pytest.mark.slow
def test_the_legend_fits_beside_overflow_levels(
    page: Page, nan_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    frame = open_viewer(page, tensorboard_server(nan_database.parent))
    expect(frame.locator("ga-legend button[data-key='overflow-1']")).to_be_visible()
    widths = frame.locator("ga-legend").evaluate("(it) => [it.scrollWidth, it.clientWidth]")
    assert widths[0] == widths[1], "nothing to scroll sideways"


def test_colours_say_where_values_overflow(
    page: Page, nan_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    address = tensorboard_server(nan_database.parent)
    frame = open_viewer(page, address, "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank=0")
    red, _, blue = pixel(frame, wait_for_row(frame, FIRST_NAN))
    assert red > blue, "as far off as it gets"
    choose(frame, "Colour by overflow instead of error")
    frame.evaluate(DRAWN)
    red, _, blue = pixel(frame, find_row(frame, FIRST_NAN))
    assert red < blue, "overflow levels are blue"

    page.wait_for_url(re.compile(r"colours=overflow"))
    page.reload()
    frame = plugin_frame(page)
    red, _, blue = pixel(frame, wait_for_row(frame, FIRST_NAN))
    assert red < blue, "also after reloading"
