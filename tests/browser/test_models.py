"""Models of every size and kind open where there is something to see."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.viewer import (
    BENCH,
    NPU,
    open_page,
    open_viewer,
    scene,
    select_node,
    table_cells,
    wait_for_details,
    wait_for_row,
)
from tests.conftest import StartTensorBoard

FIRST_ERROR = (
    "SELECT name FROM node_view WHERE side = 'npu' AND kind = 'api'"
    " AND grade IN ('moderate', 'serious', 'severe') ORDER BY seq LIMIT 1"
)
COUNTS = "document.querySelector('ga-app').state.graphs.map((graph) => graph?.count ?? 0)"


@pytest.mark.parametrize(
    "kind", ["demo_database", "nan_database", "merged_database", "single_database"]
)
def test_one_graph_opens_on_its_first_error_or_its_top(
    kind: str, page: Page, request: pytest.FixtureRequest, tensorboard_server: StartTensorBoard
) -> None:
    database: Path = request.getfixturevalue(kind)
    frame = open_viewer(page, tensorboard_server(database.parent))
    with sqlite3.connect(database) as connection:
        first = connection.execute(FIRST_ERROR).fetchone()
        sizes = connection.execute("SELECT node_count FROM graph ORDER BY side").fetchall()
    wait_for_row(frame, first[0] if first else "DefaultModel")
    shown = [count for count in frame.evaluate(COUNTS) if count]
    assert shown == [count for (count,) in sizes]


def test_twenty_nodes_are_all_in_view_and_what_is_wrong_is_unfolded(
    page: Page, small_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(small_database.parent))
    assert frame.evaluate(COUNTS) == [20, 20]
    shown = {row["name"]: row for row in scene(frame, NPU)}
    assert not shown["Module.net.layers.0.Layer.forward.0"]["expanded"]
    assert shown["Module.net.layers.3.Layer.forward.0"]["expanded"]
    assert shown["Functional.softmax.3.forward"]["grade"] == 3
    frame.click("ga-view-tools [data-command='expand-all']")
    frame.get_by_role("button", name="Hide the details").click()
    in_view = "document.querySelector('ga-app').scene.length === 2 * 20"
    frame.wait_for_function(in_view)


@pytest.mark.slow
def test_two_hundred_thousand_nodes(
    page: Page, large_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(large_database.parent))
    npu, bench = frame.evaluate(COUNTS)
    assert min(npu, bench) > 190_000
    with sqlite3.connect(large_database) as connection:
        [first] = connection.execute(FIRST_ERROR).fetchone()
        [last] = connection.execute(
            "SELECT name FROM node_view WHERE side = 'npu' AND matched IS NOT NULL"
            " AND kind = 'api' ORDER BY seq DESC LIMIT 1"
        ).fetchone()
    wait_for_row(frame, first)
    frame.click("ga-view-tools [data-command='expand-all']")
    frame.click("ga-view-tools [data-command='fit']")
    frame.click("ga-view-tools #zoom")
    select_node(frame, last)
    wait_for_row(frame, last)
    assert wait_for_row(frame, last, BENCH)["y"] == wait_for_row(frame, last)["y"]
    assert table_cells(frame, "output.0")
    page.keyboard.press("Escape")
    frame.click("ga-legend button[data-key='grade-5']")
    with sqlite3.connect(large_database) as connection:
        severe = connection.execute(
            "SELECT name FROM node_view WHERE side = 'npu' AND grade = 'severe' ORDER BY seq"
        )
        names = [name for (name,) in severe]
    # The first one after the selected one, round the end.
    wait_for_details(frame, names[0])


def test_files_that_are_something_else_say_so_and_leave_the_others_alone(
    page: Page, tmp_path: Path, small_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    (tmp_path / "good.vis.db").write_bytes(small_database.read_bytes())
    (tmp_path / "letter.vis.db").write_text("Dear colleague", encoding="utf-8")
    with sqlite3.connect(tmp_path / "recipes.vis.db") as connection:
        connection.execute("CREATE TABLE recipe (name TEXT)")
    connection.close()
    frame = open_page(page, tensorboard_server(tmp_path))
    frame.wait_for_function("document.querySelector('ga-app').state?.graphs != null")
    expect(frame.locator("ga-toolbar #file")).to_have_value("good.vis.db")
    for name in ("letter", "recipes"):
        frame.select_option("ga-toolbar #file", f"{name}.vis.db")
        expect(frame.locator("ga-message section[role=alert]")).to_contain_text(f"{name}.vis.db")
        expect(frame.locator("ga-message #remedy")).not_to_be_empty()
        assert scene(frame) == [], "never the previous model under a new name"
    frame.select_option("ga-toolbar #file", "good.vis.db")
    wait_for_row(frame, "Functional.softmax.3.forward")
