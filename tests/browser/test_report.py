"""The report from the viewer."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.viewer import open_viewer
from tests.conftest import StartTensorBoard


def test_a_menu_saves_the_report_and_it_names_the_wrong_scale(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard, tmp_path: Path
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-view-tools ga-menu #button")
    with page.expect_download() as started:
        frame.get_by_role("menuitem", name="Save the report as one HTML file").click()
    name = demo_database.name.replace(".vis.db", "_report.html")
    assert started.value.suggested_filename == name
    expect(frame.locator("ga-toast")).to_contain_text(f"Saved as {name}")
    started.value.save_as(tmp_path / name)
    text = re.sub("<[^>]+>", " ", (tmp_path / name).read_text(encoding="utf-8"))
    lead = " ".join(text[: text.index("What was compared")].split())
    assert "input.1 0.375 0.25" in lead
    assert "Tensor.__mul__.19.forward" in lead
