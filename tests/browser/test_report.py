"""The report from the viewer."""

from __future__ import annotations

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
    page.goto((tmp_path / name).as_uri())
    lead = page.locator(".lead").first
    expect(lead).to_contain_text("Tensor.__mul__.19.forward")
    expect(lead.locator("tr", has_text="input.1")).to_contain_text("0.3750.25")
    expect(page.locator("svg.place text", has_text="Tensor.__mul__.19.forward")).to_be_visible()
