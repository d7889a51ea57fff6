"""The table of a node, of a search and of the whole graph, each as a workbook by one click."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import openpyxl
import pytest
from playwright.sync_api import Frame, Locator, Page, expect

from tests.browser.viewer import open_viewer, select_node
from tests.conftest import StartTensorBoard

NODE = "Tensor.__mul__.19.forward"


def cells_of(page: Page, button: Locator) -> list[dict[str, object]]:
    """The rows of the workbook that a click downloads, by the titles of their columns."""
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename.endswith(".xlsx")
    # The file that a browser keeps meanwhile has no suffix.
    with download.value.path().open("rb") as stream:
        [sheet] = openpyxl.load_workbook(stream).worksheets
        head, *rows = sheet.iter_rows(values_only=True)
    return [dict(zip(map(str, head), row, strict=True)) for row in rows]


def stored(database: Path, condition: str) -> list[tuple[object, ...]]:
    """Largest value of both sides of every compared tensor, as the database has them."""
    with sqlite3.connect(database) as connection:
        return connection.execute(
            "SELECT own.node || '.' || own.name, own.max, other.max FROM tensor_view AS own"
            " JOIN match ON npu_node = own.node_id"
            " JOIN tensor_view AS other ON other.node_id = bench_node"
            " AND other.name = own.matched WHERE own.side = 'npu'"
            f" AND own.max IS NOT NULL AND {condition}"
        ).fetchall()


def assert_hold(rows: list[dict[str, object]], wanted: list[tuple[object, ...]]) -> None:
    """Every value that the database has stands in the table."""
    assert wanted
    shown = {row["NPU Name"]: (row["NPU max"], row["Bench max"]) for row in rows}
    for name, npu, bench in wanted:
        assert shown[name] == pytest.approx((npu, bench), rel=1e-14), name  # 16 digits


def test_the_table_of_a_node(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, NODE)
    rows = cells_of(page, frame.locator("ga-table-tools ga-xlsx button"))
    assert {str(row["NPU Name"]).startswith(NODE) for row in rows} == {True}
    assert_hold(rows, stored(demo_database, f"own.node = '{NODE}'"))


def test_the_table_of_a_search(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-search #list")
    frame.fill("ga-search input", "softmax")
    expect(frame.locator("ga-hit-list .hit").first).to_be_visible()
    rows = cells_of(page, frame.locator("ga-hit-export ga-xlsx button"))
    assert {"softmax" in str(row["NPU Name"]) for row in rows} == {True}
    assert_hold(rows, stored(demo_database, "own.node LIKE '%softmax%'"))


@pytest.mark.slow
def test_the_table_of_the_whole_graph(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    rows = cells_of(page, whole(frame))
    # Bool tensors are written as words, what is not finite as text.
    condition = (
        "own.direction IN ('input', 'output') AND own.dtype NOT LIKE '%bool%'"
        " AND typeof(own.max) = 'real' AND abs(own.max) < 1e308"
        " AND typeof(other.max) = 'real' AND abs(other.max) < 1e308"
    )
    assert_hold(rows, stored(demo_database, condition))


def whole(frame: Frame) -> Locator:
    """The entry of the menu that saves everything."""
    frame.get_by_role("button", name="View", exact=True).click()
    menu = frame.get_by_role("menu")
    return menu.get_by_text("Save the table of all values as Excel", exact=True)
