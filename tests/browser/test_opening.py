"""What a user sees on opening the tab: both sides, their colours, or why there is nothing."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import Counter
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.viewer import (
    BENCH,
    DOCUMENTED,
    NPU,
    PLUGIN_PAGE,
    SHOWS_GRAPHS,
    canvas,
    find_row,
    make_tall,
    open_page,
    open_viewer,
    pixel,
    plugin_frame,
    scene,
    select_node,
    wait_for_details,
    wait_for_row,
)
from tests.conftest import StartTensorBoard

GRADES = ("ungraded", "ok", "slight", "moderate", "serious", "severe", "unmatched")


def grades_in(database: Path) -> dict[str, str]:
    """Grade of each node of the debug side, by name."""
    with sqlite3.connect(database) as connection:
        return dict(connection.execute("SELECT name, grade FROM node_view WHERE side = 'npu'"))


def test_opens_on_both_hierarchies(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)

    npu, bench = scene(frame, NPU), scene(frame, BENCH)
    # It opens where the run first goes wrong, as the verdict has it.
    with sqlite3.connect(demo_database) as connection:
        [[first]] = connection.execute(
            "SELECT name FROM suspect JOIN node_view USING (node_id) WHERE overall = 1"
        )
    assert first in [row["name"] for row in npu]
    # Matched nodes stand at the same height.
    assert [(row["name"], row["y"]) for row in npu] == [(row["name"], row["y"]) for row in bench]
    assert max(row["x"] + row["width"] for row in npu) <= min(row["x"] for row in bench)
    expect(frame.locator("ga-hierarchy .side")).to_contain_text(
        ["llama_statistics_wrong_attention_scale", "llama_statistics"]
    )


def test_opens_at_the_first_suspect_with_animations_too(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.goto(tensorboard_server(demo_database.parent) + "#graph_ascend")
    frame = plugin_frame(page)
    frame.wait_for_function(SHOWS_GRAPHS)
    # The address follows once the view rests.
    page.wait_for_url(re.compile(r"p\.graph_ascend\.at="))
    with sqlite3.connect(demo_database) as connection:
        suspects = connection.execute(
            "SELECT name FROM suspect JOIN node_view USING (node_id)"
            " WHERE overall IS NOT NULL ORDER BY overall"
        ).fetchall()
    [first], [second], *_ = suspects
    wait_for_details(frame, first)
    box = canvas(frame).bounding_box()
    assert box is not None
    assert box["height"] / 4 < find_row(frame, first)["y"] < box["height"] * 3 / 4

    # A jump arrives although its details come meanwhile.
    frame.get_by_role("button", name="Collapse all").click()
    frame.click("ga-verdict-line #nextSuspect")
    wait_for_details(frame, second)
    wait_for_row(frame, second)
    # What is told is that of the suspect that was walked to.
    expect(frame.locator("ga-verdict-line .chip")).to_have_text("Suspect 2")
    expect(frame.locator("ga-verdict-line .sentence")).to_contain_text(second)
    # The focus is in the graph, whatever led there.
    page.keyboard.press("V")
    wait_for_details(frame, first)


def test_a_graph_is_asked_for_once_and_before_the_program_is_there(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    held: list[Route] = []
    page.route("**/assets/*.js", lambda route: held.append(route))
    place = {"file": demo_database.name, "step": "0", "rank": "0"}
    fragment = urlencode({f"p.graph_ascend.{key}": value for key, value in place.items()})
    address = tensorboard_server(demo_database.parent) + PLUGIN_PAGE
    with page.expect_response(lambda answer: "/skeleton?" in answer.url):
        page.goto(f"{address}#graph_ascend&{fragment}", wait_until="commit")
    held[0].continue_()

    page.wait_for_function(SHOWS_GRAPHS)
    routes = [urlsplit(url).path.rpartition("/")[2] for url in asked]
    assert (routes.count("catalog"), routes.count("skeleton")) == (1, 2)
    # Whoever looks again asks again: what was asked first is out of date.
    page.evaluate("document.querySelector('ga-app').session.refresh()")
    routes = [urlsplit(url).path.rpartition("/")[2] for url in asked]
    assert (routes.count("catalog"), routes.count("skeleton")) == (2, 4)


def test_shows_the_way_to_the_worst_nodes_in_their_colours(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), DOCUMENTED)
    grades = grades_in(demo_database)

    make_tall(page, frame)
    bad = [name for name, grade in grades.items() if grade in ("serious", "severe")]
    assert bad, "the example has something to find"
    rows = {row["name"]: row for row in scene(frame, NPU)}
    assert set(bad) <= set(rows), "they are in view without a click"
    assert {name: GRADES[row["grade"]] for name, row in rows.items()} == {
        name: grades[name] for name in rows
    }
    for name in bad:
        red, green, blue = pixel(frame, rows[name])
        assert red > green > blue, f"{name} is warm, not {red, green, blue}"
        assert red - blue > 100, f"{name} stands out, {red, green, blue}"
    fine = next(row for name, row in rows.items() if grades[name] == "ok")
    assert max(pixel(frame, fine)) - min(pixel(frame, fine)) < 40, "nodes without error are pale"


def test_legend_counts_the_nodes_of_each_grade(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), DOCUMENTED)
    counts = Counter(grades_in(demo_database).values())

    for code, grade in enumerate(GRADES):
        button = frame.locator(f"ga-legend button[data-key='grade-{code}']")
        expect(button.locator(".count:not(.short)")).to_have_text(f"{counts[grade]:,}")
        expect(button).to_be_enabled(enabled=counts[grade] > 0)


def test_legend_walks_through_the_nodes_of_a_grade(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), DOCUMENTED)
    severe = [name for name, grade in grades_in(demo_database).items() if grade == "severe"]

    for name in [*severe, severe[0]]:
        frame.click("ga-legend button[data-key='grade-5']")
        wait_for_details(frame, name)
        assert wait_for_row(frame, name)["selected"]


def test_a_link_brings_the_view_back(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    name = "Functional.softmax.1.forward"
    select_node(frame, name)
    link = page.url

    page.reload()
    frame = plugin_frame(page)
    wait_for_details(frame, name)
    assert wait_for_row(frame, name)["selected"]

    other = page.context.new_page()
    other.goto(link)
    frame = plugin_frame(other)
    wait_for_details(frame, name)
    other.close()


@pytest.mark.slow
def test_works_below_a_path_prefix(
    page: Page,
    demo_database: Path,
    tensorboard_server: StartTensorBoard,
    expected_complaints: list[str],
) -> None:
    # TensorBoard asks for its own fonts without the prefix; each 404 is reported twice.
    expected_complaints += [r"^response: 404 .*/font-roboto/", r"^console: Failed to load resource"]
    address = tensorboard_server(demo_database.parent, "--path_prefix", "/behind/a-proxy")
    frame = open_viewer(page, address, in_tab=True)

    select_node(frame, "Functional.softmax.0.forward", BENCH)
    assert scene(frame, NPU)


def test_an_empty_log_directory_says_what_to_do(
    page: Page, tmp_path: Path, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    logdir = tmp_path / "empty"
    logdir.mkdir()
    frame = open_page(page, tensorboard_server(logdir))

    expect(frame.locator("ga-message")).to_contain_text("No comparison to show yet")
    expect(frame.locator("ga-message #logdir")).to_have_text(str(logdir))
    expect(frame.locator("ga-message")).to_contain_text("msprobe-build -i compare.json")

    (logdir / demo_database.name).write_bytes(demo_database.read_bytes())
    frame.locator("ga-message").get_by_role("button", name="Look again").click()
    frame.wait_for_function(SHOWS_GRAPHS)
    expect(frame.locator("ga-message")).to_be_hidden()


def test_a_damaged_file_never_shows_the_previous_model(
    page: Page, tmp_path: Path, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    (tmp_path / "good.vis.db").write_bytes(demo_database.read_bytes())
    (tmp_path / "torn.vis.db").write_bytes(demo_database.read_bytes()[:5000])
    frame = open_viewer(page, tensorboard_server(tmp_path))

    frame.select_option("ga-toolbar #file", "torn.vis.db")
    expect(frame.locator("ga-message #message")).to_contain_text("torn.vis.db")
    expect(frame.locator("ga-message #remedy")).not_to_be_empty()
    assert scene(frame) == []
    expect(frame.locator("ga-details")).to_be_hidden()

    frame.select_option("ga-toolbar #file", "good.vis.db")
    frame.wait_for_function(SHOWS_GRAPHS)
    assert scene(frame, NPU)


def test_one_of_a_few_files_is_found_by_a_word_of_its_name(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard, tmp_path: Path
) -> None:
    """Names of files begin alike: the list of a browser finds them by their beginnings alone."""
    for name in ("run_of_monday", "run_of_tuesday", "run_of_friday", "run_of_sunday"):
        shutil.copy(demo_database, tmp_path / f"{name}.vis.db")
    frame = open_viewer(page, tensorboard_server(tmp_path))
    frame.locator("ga-toolbar #file").click()
    page.keyboard.type("tues")
    page.keyboard.press("Enter")
    frame.wait_for_function(
        "document.querySelector('ga-app').state.view.file === 'run_of_tuesday.vis.db'"
    )
