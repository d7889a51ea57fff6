"""The report from the viewer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from msprobe_builder.command.main import main
from msprobe_builder.facts.wording import LANGUAGES
from tests.browser.accessibility import grave_faults
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


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_report_is_a_screen_and_a_sheet_and_everybody_can_read_it(
    language: str, page: Page, demo_database: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    words = ["report", str(demo_database), "-o", str(report), "--language", language]
    assert main(words) == 0
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(report.as_uri())
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for part in (".card", "svg.place", "body > .wide"):
            box = page.locator(part).first.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 720, part
        assert grave_faults(page.main_frame) == []
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))) == 1
    page.set_viewport_size({"width": 480, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 480
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)")
    assert grave_faults(page.main_frame) == []
    # On paper nothing can be scrolled: 273 mm between the margins of a sheet that is turned, and
    # 182 mm for what is seen first, at 96 dots an inch.
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 1032, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 1032
    sheets = re.findall(rb"/MediaBox \[0 0 (\d+)", page.pdf(prefer_css_page_size=True))
    assert (sheets[0], {*sheets[1:]}) == (b"594", {b"841"})
    page.evaluate("document.querySelectorAll('details').forEach((one) => one.open = false)")
    page.set_viewport_size({"width": 687, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth") <= 687
