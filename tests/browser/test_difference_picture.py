"""The picture of where two tensors differ, beside their numbers, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import open_viewer, select_node
from tests.builder.sketch.sketched_dumps import write_dump
from tests.conftest import BuildDatabase, StartTensorBoard


@pytest.fixture(scope="module")
def sketched_database(
    tmp_path_factory: pytest.TempPathFactory, build_database: BuildDatabase
) -> Path:
    """One call that put out another row, one that put out the same."""
    folder = tmp_path_factory.mktemp("sketched")
    array = np.random.default_rng(0).standard_normal((512, 64)).astype(np.float32)
    other = array.copy()
    other[100] += 1
    npu = write_dump(folder / "npu", {"row": other, "same": array})
    bench = write_dump(folder / "bench", {"row": array, "same": array})
    return build_database(npu, bench)


def picture_of(frame: Frame, call: str) -> int:
    select_node(frame, f"Torch.{call}.0.forward")
    return frame.locator("ga-tensor-table button.picture").count()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_shows_where_tensors_differ_and_opens_to_words(
    page: Page, sketched_database: Path, tensorboard_server: StartTensorBoard, theme: str
) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": 1280, "height": 720})
    frame = open_viewer(page, tensorboard_server(sketched_database.parent))
    assert picture_of(frame, "same") == 0
    assert picture_of(frame, "row") == 1
    button = frame.locator("ga-tensor-table button.picture")
    heights = button.locator("rect").evaluate_all("(all) => all.map((one) => one.y.baseVal.value)")
    assert set(heights) == {3}  # rows 96 to 127 are the fourth slice of 32
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    view = frame.locator("ga-tensor-table .difference")
    expect(view.locator(".said")).to_have_text("differs only in rows 96–127")
    bars = view.locator("rect.share")
    titles = bars.locator("title").all_text_contents()
    assert "Rows 96–127: 100 % of the difference" in titles
    assert "Rows 0–31: 0 % of the difference" in titles
    fill = bars.nth(3).evaluate("(bar) => getComputedStyle(bar).fill")
    ground = view.locator("rect.frame").evaluate("(rect) => getComputedStyle(rect).fill")
    assert fill != ground
    box = view.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 720 + 1
    button.click()
    expect(view).to_have_count(0)
