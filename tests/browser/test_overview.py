"""All steps and ranks of a file at a glance."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Locator, Page, expect

from tests.browser.conftest import generate
from tests.browser.viewer import NPU, SHOWS_GRAPHS, open_page, open_viewer, resting_scene
from tests.conftest import StartTensorBoard

ERRORS = ("severe", "serious", "moderate", "slight", "ok")


def cell(frame: Frame, step: int, rank: int) -> Locator:
    return frame.locator(f"ga-overview .cell[data-step='{step}'][data-rank='{rank}']")


def shows(frame: Frame, step: int, rank: int) -> None:
    """Wait for the graph of a step and rank."""
    frame.wait_for_function(
        f"""([step, rank]) => {SHOWS_GRAPHS}
          && document.querySelector('ga-app').state.view.page === 'graph'
          && document.querySelector('ga-app').state.view.step === step
          && document.querySelector('ga-app').state.view.rank === rank""",
        arg=[step, rank],
    )
    expect(frame.locator("ga-overview")).to_be_hidden()


def test_shows_the_verdict_and_the_counts_of_each_graph(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent))
    expect(frame.locator("ga-overview .cell")).to_have_count(8)
    with sqlite3.connect(ddp_database) as connection:
        for step in (0, 1):
            for rank in range(4):
                counts = dict(
                    connection.execute(
                        "SELECT grade, count(*) FROM node_view"
                        " WHERE side = 'npu' AND step = ? AND rank = ? GROUP BY grade",
                        (step, rank),
                    )
                )
                [(conclusion,)] = connection.execute(
                    "SELECT conclusion FROM verdict WHERE step = ? AND rank = ?", (step, rank)
                )
                expect(cell(frame, step, rank)).to_have_attribute("data-outcome", conclusion)
                worst = next(grade for grade in ERRORS if grade in counts)
                title = cell(frame, step, rank).get_attribute("title")
                assert title is not None
                assert title.splitlines()[:3] == [
                    f"Step {step}, rank {rank}",
                    conclusion.capitalize(),
                    worst.capitalize(),
                ]
                row = frame.locator("ga-overview .counts tbody tr").nth(1 + 4 * step + rank)
                shown = row.locator("td").all_text_contents()
                expected = [counts.get(grade, 0) for grade in ERRORS]
                assert shown[3:8] == [str(count) for count in expected]
    facts = frame.locator("ga-overview ga-file-facts")
    expect(facts).to_contain_text("ddp4_statistics_wrong_attention_scale")


def test_a_click_enters_a_graph_and_a_key_goes_back(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent))
    cell(frame, 1, 2).click()
    shows(frame, 1, 2)
    before = resting_scene(frame, NPU)

    page.keyboard.press("o")
    expect(cell(frame, 1, 2)).to_be_focused()
    assert "graph_ascend.page=overview" in page.url
    page.keyboard.press("Enter")
    shows(frame, 1, 2)
    assert resting_scene(frame, NPU) == before, "the graph is as it was left"

    frame.get_by_role("button", name="Overview").click()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(cell(frame, 0, 1)).to_be_focused()
    page.keyboard.press("Enter")
    shows(frame, 0, 1)


def test_the_worst_graph_is_one_click_away(
    page: Page, many_ranks: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(many_ranks.parent))
    with sqlite3.connect(many_ranks) as connection:
        [(step, rank)] = connection.execute(
            "SELECT step, rank FROM node_view WHERE side = 'npu' AND grade = 'severe'"
            " GROUP BY step, rank ORDER BY count(*) DESC, step, rank LIMIT 1"
        )
    frame.click("ga-overview #worst")
    shows(frame, step, rank)


def test_a_file_of_one_graph_opens_on_it(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    expect(frame.locator("ga-overview")).to_be_hidden()
    frame.get_by_role("button", name="Overview").click()
    expect(frame.locator("ga-overview .cell")).to_have_count(1)
    frame.get_by_role("button", name="Overview").click()
    expect(frame.locator("ga-overview")).to_be_hidden()


def test_one_model_alone_is_not_said_to_have_errors(
    page: Page, single_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(single_database.parent))
    expect(frame.locator("ga-legend")).to_contain_text("nodes")
    expect(frame.locator("ga-legend #colours")).to_be_hidden()
    frame.get_by_role("button", name="Overview").click()
    expect(frame.locator("ga-overview #worst")).to_have_text("Open step 0, rank 0")


def test_a_link_to_the_overview_opens_it_in_both_languages(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    fragment = "#graph_ascend&p.graph_ascend.page=overview"
    frame = open_page(page, tensorboard_server(ddp_database.parent), fragment)
    expect(frame.locator("ga-overview")).to_contain_text("Verdict per step and rank")
    frame.click("ga-toolbar #language")
    expect(frame.locator("ga-overview")).to_contain_text("各 step 与 rank 的结论")
    title = cell(frame, 0, 0).get_attribute("title")
    assert title is not None
    assert title.startswith("Step 0，rank 0\n故障\n严重")


def test_the_first_wrong_graph_is_offered_beside_the_worst(
    page: Page, many_ranks: Path, tensorboard_server: StartTensorBoard
) -> None:
    with sqlite3.connect(many_ranks) as connection:
        step, rank = connection.execute(
            "SELECT step, rank FROM node_view WHERE side = 'npu'"
            " AND grade IN ('moderate', 'serious', 'severe') ORDER BY step, rank LIMIT 1"
        ).fetchone()
    frame = open_page(page, tensorboard_server(many_ranks.parent))
    first = frame.locator("ga-overview #first")
    expect(first).to_contain_text(f"step {step}, rank {rank}")
    expect(frame.locator("ga-overview #worst")).not_to_contain_text(f"step {step}, rank {rank}")
    first.click()
    shows(frame, step, rank)


def test_the_command_that_checks_the_first_suspect_stands_below_the_verdict(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent))
    command = frame.locator("ga-verdict ga-card #check code")
    expect(command).to_contain_text("msprobe-operators check ")
    expect(command).to_contain_text("--call Tensor.__mul__.19")
    expect(frame.locator("ga-verdict ga-card #check ga-copy")).to_be_visible()


def test_what_the_configurations_differ_in_stands_above_the_verdict(
    page: Page, configured_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(configured_database.parent))
    shown = frame.locator("ga-configuration")
    expect(shown.locator(".outcome")).to_have_text("Do not compare yet")
    rows = shown.locator("tbody tr")
    expect(rows).to_have_count(8)
    expect(rows.first.locator("td")).to_have_text(
        ["Error", "options", "seed", "1235", "1234"], use_inner_text=True
    )
    expect(rows.nth(1).locator("td")).to_have_text(
        ["Warning", "options", "option-0", "(not there)", "true"], use_inner_text=True
    )
    expect(shown).to_contain_text("Cannot be told, because no two files hold it: data, weights.")
    place, verdict = shown.bounding_box(), frame.locator("ga-verdict").bounding_box()
    assert place is not None
    assert verdict is not None
    assert place["y"] < verdict["y"]
    shown.get_by_role("button", name="Show all 11").click()
    expect(rows).to_have_count(11)
    expect(shown.locator("#all")).to_be_hidden()
    frame.click("ga-toolbar #language")
    expect(shown.locator(".outcome")).to_have_text("暂勿比对")
    expect(rows.nth(1).locator("td").nth(3)).to_have_text("(无)")


def test_without_configurations_the_overview_begins_with_the_verdict(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent))
    expect(frame.locator("ga-verdict ga-card #title")).to_be_visible()
    expect(frame.locator("ga-configuration")).to_be_hidden()


def test_a_ring_marks_where_the_first_suspect_of_each_graph_lies(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent))
    expect(frame.locator("ga-overview .cell")).to_have_count(8)
    with sqlite3.connect(ddp_database) as connection:
        suspects = connection.execute(
            "SELECT step, rank, name FROM suspect JOIN node_view USING (node_id)"
            " WHERE overall IS NOT NULL ORDER BY overall"
        ).fetchall()
    firsts: dict[tuple[int, int], str] = {}
    for step, rank, node in suspects:
        firsts.setdefault((step, rank), node)
    expect(frame.locator("ga-overview .cell .mark")).to_have_count(len(firsts))
    for place, node in firsts.items():
        expect(cell(frame, *place)).to_have_attribute("title", re.compile(re.escape(node)))
    expect(frame.locator("ga-overview .cell.lead")).to_have_count(1)
    expect(cell(frame, *suspects[0][:2])).to_have_class(re.compile("lead"))


@pytest.mark.slow
def test_the_cells_of_many_ranks_are_small_and_all_graphs_are_counted(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    shape = ("--layers", "1", "--steps", "3", "--ranks", "70")
    generate(tmp_path / "ranks.vis.db", *shape)
    frame = open_page(page, tensorboard_server(tmp_path))
    expect(frame.locator("ga-overview .cell")).to_have_count(210)
    width = cell(frame, 0, 0).evaluate("(button) => button.getBoundingClientRect().width")
    assert width < 20
    headings = frame.locator("ga-overview .map .head .heading").all_text_contents()
    assert headings[1:] == [str(rank) for rank in range(0, 70, 8)]
    # A walk along the row brings the last rank into view.
    cell(frame, 0, 0).focus()
    page.keyboard.press("End")
    expect(cell(frame, 0, 69)).to_be_focused()
    expect(cell(frame, 0, 69)).to_be_in_viewport()
    page.set_viewport_size({"width": 400, "height": 800})
    frame.wait_for_function("innerWidth === 400")
    assert not frame.evaluate("document.scrollingElement.scrollWidth > innerWidth")
    # Below the totals, a row per graph, the later ones once somebody looks there.
    rows = frame.locator("ga-overview .counts tbody tr")
    for graphs in (50, 100, 150, 200, 210):
        expect(rows).to_have_count(1 + graphs)
        rows.last.scroll_into_view_if_needed()
    last = rows.last.get_by_role("button", name="Step 2, rank 69")
    last.click()
    shows(frame, 2, 69)


def test_of_many_cells_those_in_view_are_there_and_that_of_the_keyboard(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    ranks, steps = 300, 2
    generate(tmp_path / "r.vis.db", "--layers", "0", "--steps", str(steps), "--ranks", str(ranks))
    frame = open_page(page, tensorboard_server(tmp_path))
    cells = frame.locator("ga-overview .cell")
    expect(cell(frame, 0, 0)).to_be_in_viewport()
    assert cells.count() < ranks
    grid = frame.get_by_role("grid")
    expect(grid).to_have_attribute("aria-rowcount", str(1 + steps))
    expect(grid).to_have_attribute("aria-colcount", str(1 + ranks))

    cell(frame, 0, 0).focus()
    page.keyboard.press("End")
    last = cell(frame, 0, ranks - 1)
    expect(last).to_be_focused()
    expect(last).to_be_in_viewport()
    page.keyboard.press("ArrowDown")
    last = cell(frame, 1, ranks - 1)
    expect(last).to_be_focused()
    expect(last.locator("xpath=..")).to_have_attribute("aria-colindex", str(1 + ranks))
    # A cell lies below the heading of its rank.
    headings = frame.locator("ga-overview .map .head .heading")
    heading = headings.filter(has_text=re.compile(r"^296$")).bounding_box()
    box = cell(frame, 0, 296).bounding_box()
    assert heading is not None
    assert box is not None
    assert abs(heading["x"] - box["x"]) < 1

    # Who scrolls away keeps the focus; what comes into view is there, what leaves it is not.
    frame.locator("ga-overview #map").evaluate("(map) => map.scrollTo(0, 0)")
    expect(cell(frame, 1, 0)).to_be_in_viewport()
    expect(last).to_be_focused()
    expect(cell(frame, 0, ranks - 1)).to_have_count(0)
    assert cells.count() < ranks
    # One cell alone is in the tab order, and the cells of a row stand in order.
    expect(frame.locator("ga-overview .cell[tabindex='0']")).to_have_count(1)
    order = frame.locator("ga-overview .cell[data-step='1']").evaluate_all(
        "(cells) => cells.map((cell) => Number(cell.dataset.rank))"
    )
    assert order == sorted(order)
    cell(frame, 1, 5).click()
    shows(frame, 1, 5)
    page.keyboard.press("o")
    expect(cell(frame, 1, 5)).to_be_focused()


def test_of_many_ranks_a_picture_shows_where_it_begins_and_leads_to_the_cell(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    ranks, culprit = 80, 66
    database = generate(
        tmp_path / "r.vis.db", "--layers", "1", "--steps", "2", "--ranks", str(ranks)
    )
    follows = '[{"code":"follows_from_elsewhere"}]'
    with sqlite3.connect(database) as connection:
        places = [(step, rank) for step in range(2) for rank in range(ranks)]
        said = [
            ("fault", "[]") if place == (0, culprit) else ("clean", follows) for place in places
        ]
        connection.execute("DELETE FROM verdict")
        connection.executemany(
            "INSERT INTO verdict (step, rank, conclusion, sentence, compared)"
            " VALUES (?, ?, ?, ?, 9)",
            [(None, None, "fault", "[]")]
            + [(*one, *two) for one, two in zip(places, said, strict=True)],
        )
        [(node,)] = connection.execute(
            "SELECT max(node_id) FROM node_view WHERE side = 'npu' AND step = 0 AND rank = ?",
            (culprit,),
        )
        connection.execute(
            "INSERT INTO suspect (node_id, place, overall, strength, cause, followers, evidence)"
            " VALUES (?, 1, 1, 2, 'output', 3, '[]')",
            (node,),
        )
    frame = open_page(page, tensorboard_server(tmp_path))
    expect(frame.locator("#outcomes [data-outcome='follows'] strong")).to_have_text("159")
    picture = frame.locator("#strip canvas")
    expect(picture).to_have_attribute("aria-label", re.compile(f"begins at step 0, rank {culprit}"))
    box = picture.bounding_box()
    assert box is not None
    # The red of the culprit is where its rank lies, and nowhere else.
    reds = picture.evaluate(
        """(canvas) => {
          const { width } = canvas;
          const { data } = canvas.getContext('2d').getImageData(0, 3, width, 1);
          const reds = [...Array(width).keys()]
            .filter((x) => data[4 * x] > 150 && data[4 * x + 1] < 80);
          return [Math.min(...reds) / width, Math.max(...reds) / width];
        }"""
    )
    assert culprit / ranks - 0.02 < reds[0] <= reds[1] < (culprit + 1) / ranks + 0.02
    picture.click(position={"x": box["width"] * (culprit + 0.5) / ranks, "y": 4})
    expect(cell(frame, 0, culprit)).to_be_focused()
    expect(cell(frame, 0, culprit)).to_be_in_viewport()
