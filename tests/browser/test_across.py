"""The same node in all steps and ranks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Locator, Page, Route, expect

from tests.browser.viewer import SHOWS_GRAPHS, open_viewer, select_node, wait_for_details
from tests.conftest import BuildDatabase, StartTensorBoard

GRAPH = "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank=0"
NODE = "Functional.linear.7.backward"


def place(frame: Frame, step: int, rank: int) -> Locator:
    return frame.locator(f"ga-across .place[title^='Step {step}, rank {rank}\\a']")


def open_across(frame: Frame) -> None:
    frame.get_by_role("tab", name="Steps and ranks").click()
    frame.locator("ga-across .place").first.wait_for()


@pytest.mark.slow
def test_every_step_and_rank_has_its_grade_and_error(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    select_node(frame, NODE)
    open_across(frame)
    with sqlite3.connect(ddp_database) as connection:
        nodes = connection.execute(
            "SELECT step, rank, grade, error, node_id FROM node_view"
            " WHERE side = 'npu' AND name = ?",
            (NODE,),
        ).fetchall()
        assert len(nodes) == 8
        for step, rank, grade, error, node in nodes:
            title = place(frame, step, rank).get_attribute("title")
            assert title is not None
            lines = title.splitlines()
            assert lines[1] == grade.capitalize()
            assert float(lines[2].removeprefix("Error: ")) == error
            [(norm,)] = connection.execute(
                "SELECT max(norm_relative_err) FROM tensor_view"
                " WHERE node_id = ? AND direction IN ('output', 'parameters_grad')",
                (node,),
            )
            [shown] = [line for line in lines if line.startswith("Norm rel.: ")]
            percent = float(shown.removeprefix("Norm rel.: ").removesuffix(" %"))
            assert abs(percent - 100 * norm) <= 5e-4 * abs(100 * norm)
    expect(place(frame, 0, 0)).to_have_attribute("aria-current", "true")
    expect(frame.locator("ga-across .corner")).to_have_text("Step \\ Rank")
    frame.select_option("ga-across #measure", "norm")
    expect(place(frame, 1, 2).locator(".value")).to_contain_text("%")


def test_a_place_is_one_click_or_a_few_keys_away(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    select_node(frame, NODE)
    open_across(frame)
    place(frame, 0, 0).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(place(frame, 1, 2)).to_be_focused()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("Enter")
    frame.wait_for_function(
        f"{SHOWS_GRAPHS} && document.querySelector('ga-app').state.view.rank === 2"
    )
    wait_for_details(frame, NODE)
    assert not [address for address in asked if "/across" in address]
    expect(place(frame, 1, 2)).to_have_attribute("aria-current", "true")
    frame.locator("ga-back button").click()
    expect(place(frame, 0, 0)).to_have_attribute("aria-current", "true")
    place(frame, 0, 3).click()
    expect(place(frame, 0, 3)).to_have_attribute("aria-current", "true")


def test_where_the_node_is_missing_there_is_a_gap(
    page: Page, many_ranks: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(many_ranks.parent), GRAPH)
    with sqlite3.connect(many_ranks) as connection:
        names = connection.execute(
            "SELECT name, count(*) FROM node_view WHERE side = 'npu' AND overflow IS NOT NULL"
            " GROUP BY name ORDER BY name LIMIT 1"
        ).fetchall()
    [(name, _)] = names
    select_node(frame, name)
    open_across(frame)
    expect(frame.locator("ga-across .flag").first).to_be_visible()
    with sqlite3.connect(many_ranks) as connection:
        [(there,)] = connection.execute(
            "SELECT count(*) FROM node_view WHERE side = 'npu' AND name = ?", (name,)
        )
    expect(frame.locator("ga-across .place")).to_have_count(there)


def test_a_server_that_does_not_answer_is_said_so(
    page: Page,
    ddp_database: Path,
    tensorboard_server: StartTensorBoard,
    expected_complaints: list[str],
) -> None:
    expected_complaints.append("ERR_FAILED")
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    select_node(frame, NODE)

    def gone(route: Route) -> None:
        route.abort()

    page.route("**/across?*", gone)
    frame.get_by_role("tab", name="Steps and ranks").click()
    expect(frame.locator("ga-across [role=alert]")).to_contain_text("The server does not answer.")
    page.unroute("**/across?*", gone)
    frame.get_by_role("tab", name="Tensors").click()
    open_across(frame)
    expect(frame.locator("ga-across [role=alert]")).to_be_hidden()


def test_a_single_graph_has_no_other_places(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, "Functional.softmax.0.forward")
    expect(frame.get_by_role("tab", name="Steps and ranks")).to_have_count(0)


@pytest.mark.slow
def test_without_a_reference_it_says_what_is_missing_and_shows_the_overflow(
    page: Page, dumps: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    database = build_database(dumps / "ddp4_statistics", None, "-oc")
    frame = open_viewer(page, tensorboard_server(database.parent), GRAPH)
    select_node(frame, NODE)
    open_across(frame)
    expect(frame.locator("ga-across .bar")).to_contain_text("Without a reference there is no error")
    expect(frame.locator("ga-across .place .value")).to_have_text(["No overflow"] * 8)
