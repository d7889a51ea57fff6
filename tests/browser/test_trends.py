"""The page of trends: values of a run, the difference of two, and the way to the graph."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.viewer import open_tab
from tests.conftest import StartTensorBoard
from tests.plugin.example import write_example, write_example_trend


def test_a_trend_leads_to_the_graph(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example(tmp_path / "example.vis.db")
    write_example_trend(tmp_path / "one.trend.db")
    write_example_trend(tmp_path / "two.trend.db", steps=6)
    frame = open_tab(page, tensorboard_server(tmp_path))
    trend = frame.locator("ga-trend")
    trend.locator("#open").click()
    host = trend.element_handle()

    def shows(file: str, other: str) -> None:
        frame.wait_for_function(
            "([host, file, other]) => host.scene?.file === file && host.scene.other === other",
            arg=[host, file, other],
        )

    shows("one.trend.db", "")
    scene = trend.evaluate("element => element.scene")
    assert scene["names"] == ["weight layers.0.weight", "activation layers.0"]
    assert scene["columns"] == list(range(10))
    assert scene["rows"][0] == list(range(1, 11))
    trend.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(trend.locator("#value")).to_have_text("layers.0.weight, step 1, rank 0: 2")
    page.keyboard.press("Enter")
    expect(trend.locator("#links button")).to_have_text("example.vis.db")
    trend.locator("#other").select_option("two.trend.db")
    shows("one.trend.db", "two.trend.db")
    rows = trend.evaluate("element => element.scene.rows")
    assert rows[0][:6] == [0] * 6
    trend.locator("#other").select_option("")
    shows("one.trend.db", "")
    trend.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    trend.locator("#links button").click()
    expect(trend.locator("#dialog")).to_be_hidden()
    expect(frame.locator("ga-toolbar #step")).to_have_value("1")


def test_without_trends_the_page_says_how_to_make_one(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example(tmp_path / "example.vis.db")
    frame = open_tab(page, tensorboard_server(tmp_path))
    frame.locator("ga-trend #open").click()
    expect(frame.locator("ga-trend #none")).to_contain_text("msprobe-build trend")
    page.keyboard.press("Escape")
    expect(frame.locator("ga-trend #dialog")).to_be_hidden()
