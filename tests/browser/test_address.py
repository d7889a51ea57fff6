"""The view in the address: reload, back and forward, links, other tabs, what does not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import (
    BENCH,
    NPU,
    SHOWS_GRAPHS,
    canvas,
    click_row,
    find_row,
    open_page,
    open_viewer,
    plugin_frame,
    scene,
    select_node,
    wait_for_details,
    wait_for_row,
)
from tests.cases import tried_first
from tests.conftest import StartTensorBoard

SOFTMAX = "Functional.softmax.0.forward"
OTHER = "Functional.softmax.1.forward"
PREFIX = "#graph_ascend&p.graph_ascend."
VIEW = "document.querySelector('ga-app').state.view"


def outline(frame: Frame) -> list[tuple[str, bool, int]]:
    """What is in view, with its place."""
    return [(row["name"], row["expanded"], round(row["y"])) for row in scene(frame, NPU)]


def wait_for_address(page: Page, part: str) -> str:
    """Wait until scrolling and folding have reached the address bar."""
    page.wait_for_function("(part) => location.hash.includes(part)", arg=part)
    return page.url


def wait_for_outline(frame: Frame, expected: list[tuple[str, bool, int]]) -> None:
    """Wait until the same is in view again."""
    frame.wait_for_function(
        """(expected) => {
          const rows = document.querySelector('ga-app').scene.filter((row) => row.side === 0);
          const same = ([name, expanded, y], row) => row && row.name === name
            && row.expanded === expanded && Math.abs(row.y - y) <= 2;
          return rows.length === expected.length
            && expected.every((row, at) => same(row, rows[at]));
        }""",
        arg=expected,
    )


def settle(page: Page) -> str:
    """The address once it has not changed for half a second."""
    page.evaluate(
        """() => new Promise((done) => {
          let [seen, since] = ['', 0];
          const look = (now) => {
            if (location.hash !== seen) [seen, since] = [location.hash, now];
            if (now - since > 500) done();
            else requestAnimationFrame(look);
          };
          requestAnimationFrame(look);
        })"""
    )
    return page.url


@pytest.mark.slow
def test_expansion_zoom_and_scroll_come_back(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)
    frame.locator("ga-view-tools [data-command='expand-all']").click()
    for _ in range(3):
        frame.locator("ga-view-tools [data-command='zoom-out']").click()
    canvas(frame).hover()
    page.mouse.wheel(0, 700)
    before = outline(frame)
    link = settle(page)
    assert len(link) < 500, "short enough for any chat"

    page.reload()
    wait_for_outline(plugin_frame(page), before)

    other = page.context.new_page()
    other.goto(link)
    wait_for_outline(plugin_frame(other), before)
    other.close()


def test_back_and_forward_walk_through_nodes(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)
    select_node(frame, SOFTMAX)
    settle(page)
    at_first = outline(frame)
    select_node(frame, OTHER)
    settle(page)
    at_second = outline(frame)
    assert at_first != at_second

    page.go_back()
    wait_for_details(frame, SOFTMAX)
    wait_for_outline(frame, at_first)
    assert find_row(frame, SOFTMAX)["selected"]
    page.go_forward()
    wait_for_details(frame, OTHER)
    wait_for_outline(frame, at_second)
    assert find_row(frame, OTHER)["selected"]


def test_a_walk_with_the_arrows_is_one_step_back(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, SOFTMAX)
    canvas(frame).focus()
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    frame.wait_for_function(f"{VIEW}.node !== '{SOFTMAX}'")
    page.go_back()
    wait_for_details(frame, SOFTMAX)


def test_back_and_forward_walk_through_pages_and_ranks(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent))
    frame.locator("ga-overview").wait_for()
    frame.locator("ga-overview button[data-step='1'][data-rank='2']").first.click()
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {VIEW}.rank === 2")
    frame.select_option("ga-toolbar #rank", "3")
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {VIEW}.rank === 3")

    page.go_back()
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {VIEW}.rank === 2 && {VIEW}.step === 1")
    page.go_back()
    expect(frame.locator("ga-overview")).to_be_visible()
    page.go_forward()
    expect(frame.locator("ga-overview")).to_be_hidden()
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {VIEW}.rank === 2")
    page.go_forward()
    frame.wait_for_function(f"{SHOWS_GRAPHS} && {VIEW}.rank === 3")


def test_leaving_the_tab_and_coming_back_keeps_the_view(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)
    select_node(frame, SOFTMAX)
    before, link = outline(frame), settle(page)
    # The file is called by its time; the runs tell what it is.
    runs = "llama_statistics_wrong_attention_scale ↔ llama_statistics"
    shown = f"{runs} · step 0 · rank 0 – TensorBoard"
    expect(page).to_have_title(shown)

    page.evaluate("location.hash = '#timeseries'")
    expect(page.locator("iframe")).to_be_hidden()
    expect(page).to_have_title("TensorBoard")
    page.evaluate("location.hash = '#graph_ascend'")
    expect(page.locator("iframe")).to_be_visible()
    expect(page).to_have_title(shown)
    wait_for_address(page, "node=")
    assert page.url == link
    frame = plugin_frame(page)
    wait_for_outline(frame, before)
    assert find_row(frame, SOFTMAX)["selected"]

    page.go_back()
    expect(page.locator("iframe")).to_be_hidden()
    page.go_back()
    wait_for_details(plugin_frame(page), SOFTMAX)


@pytest.mark.slow
def test_two_tabs_do_not_influence_each_other(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    server = tensorboard_server(ddp_database.parent)
    frame = open_viewer(page, server, f"{PREFIX}step=0&p.graph_ascend.rank=1", in_tab=True)
    select_node(frame, SOFTMAX)
    before, link = outline(frame), settle(page)

    other = page.context.new_page()
    second = open_viewer(other, server, f"{PREFIX}step=1&p.graph_ascend.rank=3", in_tab=True)
    second.locator("ga-view-tools [data-command='collapse-all']").click()
    settle(other)

    assert outline(frame) == before
    assert page.url == link
    assert frame.evaluate(f"[{VIEW}.step, {VIEW}.rank]") == [0, 1]
    page.reload()
    frame = plugin_frame(page)
    wait_for_outline(frame, before)
    other.close()


def test_the_copied_link_opens_the_same_view(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)
    select_node(frame, SOFTMAX)
    before = outline(frame)
    frame.get_by_role("button", name="Copy a link to this view").click()
    expect(frame.locator("ga-toast [role='status']")).to_contain_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")

    other = page.context.new_page()
    other.goto(link)
    wait_for_details(plugin_frame(other), SOFTMAX)
    wait_for_outline(plugin_frame(other), before)
    other.close()


@pytest.mark.parametrize(
    ("parameters", "said"),
    tried_first(
        [
            ("step=7&rank=9", "step and rank 7 / 9 are not in it"),
            ("node=Module.gone", "no node is called Module.gone"),
            ("step=0&micro=5", "micro-step 5 is not in it"),
            ("step=0&at=100_0_0&open=AAAAAAAA", "what was unfolded belongs to another model"),
            ("step=0&at=%00<script>&rank=-1", "means nothing here"),
            ("grades=1,77&step=0", "“grades=1,77” means nothing here"),
            ("step=0&at=9999_999999999_999999_n999999999&open=____", "belongs to another model"),
        ],
        2,
    ),
)
def test_what_does_not_fit_is_said_once_and_the_rest_is_shown(
    page: Page,
    demo_database: Path,
    tensorboard_server: StartTensorBoard,
    parameters: str,
    said: str,
) -> None:
    fragment = PREFIX + parameters.replace("&", "&p.graph_ascend.")
    frame = open_viewer(page, tensorboard_server(demo_database.parent), fragment)
    notice = frame.locator("ga-notice")
    expect(notice).to_contain_text(said)
    assert scene(frame, NPU)

    notice.get_by_role("button", name="Close").click()
    expect(notice).to_be_hidden()
    click_row(frame, scene(frame, NPU)[2]["name"])
    page.reload()
    frame = plugin_frame(page)
    frame.wait_for_function(SHOWS_GRAPHS)
    settle(page)
    expect(frame.locator("ga-notice")).to_be_hidden()


def test_a_link_to_a_file_that_is_gone_shows_no_other_under_its_name(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(
        page,
        tensorboard_server(demo_database.parent),
        f"{PREFIX}file=runs%2Fgone.vis.db",
    )
    message = frame.locator("ga-message")
    expect(message).to_contain_text("runs/gone.vis.db")
    assert scene(frame) == []
    message.get_by_role("button", name=f"Show {demo_database.name}").click()
    frame.wait_for_function(SHOWS_GRAPHS)
    expect(message).to_be_hidden()
    page.go_back()
    expect(message).to_contain_text("runs/gone.vis.db")


@pytest.mark.slow
def test_a_link_stays_short_however_much_is_unfolded(
    page: Page, large_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(large_database.parent), in_tab=True)
    # Every other module is unfolded: nothing that runs of equal bits could shorten.
    frame.evaluate(
        """() => {
          const view = document.querySelector('ga-app').shadowRoot
            .querySelector('ga-hierarchy').view;
          view.expandAll();
          const { graphs, expansion } = view.hierarchy;
          for (const side of [0, 1]) {
            const { depth, count } = graphs[side];
            for (let node = 0; node < count; node++) {
              if (depth[node] > 2 && node % 7 < 3) expansion.set(side, node, false);
            }
          }
          view.expand(() => {});
        }"""
    )
    canvas(frame).hover()
    page.mouse.wheel(0, 30_000)
    before = outline(frame)
    link = settle(page)
    assert len(link) < 4000

    page.reload()
    frame = plugin_frame(page)
    wait_for_outline(frame, before)
    other = page.context.new_page()
    other.goto(link)
    frame = plugin_frame(other)
    frame.wait_for_function(SHOWS_GRAPHS)
    top = next(row for row in before if row[2] > 100)
    assert abs(wait_for_row(frame, top[0])["y"] - top[2]) <= 2, "the same rows are in view"
    other.close()


def test_reload_keeps_the_filter_and_how_sides_are_shown(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-view-tools #sync")
    frame.fill("ga-search input", "softmax")
    frame.get_by_role("button", name="View", exact=True).click()
    frame.get_by_role("menuitemcheckbox", name="llama_statistics alone").click()
    expect(frame.locator("ga-hierarchy .side")).to_have_count(2)
    assert {row["side"] for row in scene(frame)} == {1}
    link = settle(page)
    assert re.search(r"sync=0", link)

    page.reload()
    frame = plugin_frame(page)
    frame.wait_for_function(SHOWS_GRAPHS)
    expect(frame.locator("ga-search input")).to_have_value("softmax")
    assert {row["side"] for row in scene(frame)} == {1}
    assert frame.evaluate(f"{VIEW}.sync") is False


@pytest.mark.slow
def test_sides_that_do_not_move_together_keep_their_own_places(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent), in_tab=True)
    frame.click("ga-view-tools [data-command='expand-all']")
    frame.click("ga-view-tools #sync")
    place = canvas(frame).bounding_box()
    assert place is not None
    for part, distance in ((0.25, 3000), (0.75, 900)):
        page.mouse.move(place["x"] + place["width"] * part, place["y"] + place["height"] / 2)
        page.mouse.wheel(0, distance)
        settle(page)
    names = {side: [row["name"] for row in scene(frame, side)][-3:] for side in (NPU, BENCH)}
    assert not set(names[NPU]) & set(names[BENCH])
    link = settle(page)

    page.goto("about:blank")
    frame = open_viewer(page, link, "", in_tab=True)
    for side, expected in names.items():
        frame.wait_for_function(
            """([side, expected]) => JSON.stringify(document.querySelector('ga-app').scene
              .filter((row) => row.side === side).slice(-3).map((row) => row.name))
              === JSON.stringify(expected)""",
            arg=[side, expected],
        )
