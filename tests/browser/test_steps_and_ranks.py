"""Moving between steps, ranks and files of different content."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.viewer import (
    BENCH,
    NPU,
    SHOWS_GRAPHS,
    open_viewer,
    scene,
    select_node,
    wait_for_details,
    wait_for_row,
)
from tests.conftest import BuildDatabase, StartTensorBoard

FIRST_GRAPH = "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank=0"


@pytest.mark.slow
def test_the_selected_node_stays_selected_on_another_rank(
    page: Page, many_ranks: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(many_ranks.parent), FIRST_GRAPH)
    name = "Functional.linear.3.forward"
    select_node(frame, name)

    with page.expect_response("**/node?*step=1*rank=2*"):
        frame.select_option("ga-toolbar #step", "1")
        frame.select_option("ga-toolbar #rank", "2")
    wait_for_details(frame, name)
    assert wait_for_row(frame, name)["selected"]
    assert "graph_ascend.rank=2" in page.url


def test_an_answer_that_comes_too_late_is_dropped(
    page: Page, many_ranks: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(many_ranks.parent), FIRST_GRAPH)
    held: list[Route] = []
    page.route("**/skeleton?*rank=1*", lambda route: held.append(route))

    frame.select_option("ga-toolbar #rank", "1")
    expect(frame.locator("ga-progress p")).to_have_text("Loading the graph…")
    assert scene(frame) == [], "the previous rank is not shown under the new number"
    frame.select_option("ga-toolbar #rank", "2")
    frame.wait_for_function(SHOWS_GRAPHS)
    for route in held:
        route.abort()

    assert frame.evaluate("document.querySelector('ga-app').state.view.rank") == 2
    expect(frame.locator("ga-toolbar #rank")).to_have_value("2")
    expect(frame.locator("ga-message")).to_be_hidden()


def test_a_server_that_is_gone_is_named_as_the_cause(
    page: Page,
    many_ranks: Path,
    tensorboard_server: StartTensorBoard,
    expected_complaints: list[str],
) -> None:
    expected_complaints.append("ERR_FAILED")
    frame = open_viewer(page, tensorboard_server(many_ranks.parent), FIRST_GRAPH)
    page.route("**/skeleton?*", lambda route: route.abort())

    frame.select_option("ga-toolbar #rank", "1")
    expect(frame.locator("ga-message #message")).to_contain_text("does not answer")
    page.unroute("**/skeleton?*")
    frame.get_by_role("button", name="Try again").click()
    frame.wait_for_function(SHOWS_GRAPHS)
    assert scene(frame, NPU)


def test_legend_walks_through_overflow_levels(
    page: Page, many_ranks: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(many_ranks.parent), FIRST_GRAPH)
    with sqlite3.connect(many_ranks) as connection:
        found = connection.execute(
            "SELECT name, overflow FROM node_view WHERE side = 'npu' AND step = 0 AND rank = 0"
            " AND overflow IS NOT NULL ORDER BY seq"
        )
        levels = dict(found)
    critical = [name for name, level in levels.items() if level == "critical"]
    assert critical

    button = frame.locator("ga-legend button[data-key='overflow-3']")
    expect(button.locator(".count:not(.short)")).to_have_text(str(len(critical)))
    for name in critical:
        button.click()
        wait_for_details(frame, name)
        expect(frame.locator("ga-node-summary #overflow")).to_have_text("Overflow: Critical")


def test_an_unmatched_node_says_why(
    page: Page, dumps: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    database = build_database(
        dumps / "llama_statistics" / "step0" / "rank",
        dumps / "resnet_statistics" / "step0" / "rank",
        "--exact",
    )
    frame = open_viewer(page, tensorboard_server(database.parent))
    select_node(frame, "Functional.softmax.0.forward")
    summary = frame.locator("ga-node-summary")
    expect(summary.locator(".grade")).to_have_text("Unmatched")
    expect(summary.locator(".match")).to_contain_text("No node of this name on the other side")
    expect(summary.locator("#jump")).to_be_hidden()
    frame.click("ga-toolbar #language")
    expect(summary.locator(".match")).to_contain_text("另一侧没有同名节点")
    frame.click("ga-toolbar #language")

    name = "Functional.cross_entropy.0.forward"
    select_node(frame, name)
    expect(summary.locator(".match")).to_contain_text("A parameter has a different shape")
    summary.locator("#jump").click()
    assert wait_for_row(frame, name, BENCH)["selected"]
