"""The page of trends: values of a run, the difference of two, and the way to the graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.viewer import open_page, plugin_frame
from tests.conftest import StartTensorBoard
from tests.plugin.example import write_example, write_example_trend


def test_a_trend_leads_to_the_graph(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example(tmp_path / "example.vis.db")
    write_example_trend(tmp_path / "one.trend.db")
    write_example_trend(tmp_path / "two.trend.db", steps=6)
    frame = open_page(page, tensorboard_server(tmp_path))
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
    assert scene["names"] == ["activation layers.0", "weight layers.0.weight"], "NaN moves most"
    assert scene["columns"] == list(range(10))
    assert scene["rows"][1] == list(range(1, 11))
    offered = trend.locator("#statistic option")
    expect(offered.last).to_have_text("change since the step before")
    trend.locator("#order").select_option("model")
    frame.wait_for_function("host => host.scene?.names[0].startsWith('weight')", arg=host)
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


@pytest.mark.slow
def test_without_trends_the_page_says_how_to_make_one(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example(tmp_path / "example.vis.db")
    frame = open_page(page, tensorboard_server(tmp_path))
    frame.locator("ga-trend #open").click()
    expect(frame.locator("ga-trend #none")).to_contain_text("msprobe-build trend")
    page.keyboard.press("Escape")
    expect(frame.locator("ga-trend #dialog")).to_be_hidden()


@pytest.mark.slow
def test_a_link_brings_back_what_is_shown(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example(tmp_path / "example.vis.db")
    write_example_trend(tmp_path / "one.trend.db")
    write_example_trend(tmp_path / "two.trend.db", steps=6)
    frame = open_page(page, tensorboard_server(tmp_path))
    trend = frame.locator("ga-trend")
    trend.locator("#open").click()
    trend.locator("#run").select_option("two.trend.db")
    trend.locator("#at").select_option("1")
    trend.locator("#kind").select_option("weight")
    trend.locator("#filter").fill("layers.0")
    page.wait_for_function("location.hash.includes('filter')")
    box = trend.locator("#canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 30)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function("location.hash.includes('steps')")
    shown = """host => host.scene && host.scene.columns.length < 6 ? host.scene : null"""
    scene = frame.wait_for_function(shown, arg=trend.element_handle()).json_value()
    assert scene["names"] == ["layers.0.weight"]
    assert scene["file"] == "two.trend.db"
    link = page.evaluate("location.href")
    # Reloading shows the same page of the same run, the same rows and the same steps.
    page.goto("about:blank")
    page.goto(link)
    frame = plugin_frame(page)
    trend = frame.locator("ga-trend")
    again = frame.wait_for_function(shown, arg=trend.element_handle()).json_value()
    assert again == scene
    expect(trend.locator("#at")).to_have_value("1")
    # Closing takes it out of the link.
    page.keyboard.press("Escape")
    expect(trend.locator("#dialog")).to_be_hidden()
    page.wait_for_function("!location.hash.includes('trend=')")


@pytest.mark.slow
def test_the_way_back_from_a_graph_leads_to_the_trend(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example(tmp_path / "example.vis.db")
    write_example_trend(tmp_path / "one.trend.db")
    frame = open_page(page, tensorboard_server(tmp_path))
    trend = frame.locator("ga-trend")
    trend.locator("#open").click()
    trend.locator("#statistic").select_option("mean")
    frame.wait_for_function("host => host.scene !== null", arg=trend.element_handle())
    trend.locator("#canvas").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    trend.locator("#links button").click()
    expect(trend.locator("#dialog")).to_be_hidden()
    expect(frame.locator("ga-toolbar #step")).to_have_value("1")
    page.go_back()
    expect(trend.locator("#dialog")).to_be_visible()
    expect(trend.locator("#statistic")).to_have_value("mean")


@pytest.mark.slow
def test_a_link_to_a_run_that_is_gone_says_so(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example(tmp_path / "example.vis.db")
    write_example_trend(tmp_path / "one.trend.db")
    fragment = "#graph_ascend&p.graph_ascend.trend=run%3Dgone.trend.db"
    frame = open_page(page, tensorboard_server(tmp_path), fragment)
    expect(frame.locator("ga-trend #problem")).to_contain_text("gone.trend.db")
    frame.locator("ga-trend #run").select_option("one.trend.db")


def test_a_tensor_to_hold_is_among_those_that_are_looked_for(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    write_example_trend(tmp_path / "one.trend.db")
    frame = open_page(page, tensorboard_server(tmp_path))
    trend = frame.locator("ga-trend")
    trend.locator("#open").click()
    trend.locator("#fixed").select_option("target")
    offered = trend.locator("#at option")
    expect(offered.filter(has_text="weight ")).not_to_have_count(0)
    everything = offered.all_text_contents()
    trend.locator("#kind").select_option("weight")
    weights = [one for one in everything if one.startswith("weight ")]
    expect(offered).to_have_text(weights)
    assert 0 < len(weights) < len(everything)
    trend.locator("#filter").fill("layers.0")
    expect(offered).to_have_text([one for one in weights if "layers.0" in one])
    expect(trend.locator("#count")).not_to_have_text("0 rows")
    trend.locator("#filter").fill("no such name")
    expect(offered).to_have_count(0)
    expect(trend.locator("#count")).to_have_text("0 rows")
