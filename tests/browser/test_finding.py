"""Finding nodes by name, pattern and filter, here and in all steps and ranks."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import (
    NPU,
    canvas,
    open_viewer,
    plugin_frame,
    wait_for_details,
    wait_for_row,
)
from tests.conftest import StartTensorBoard

GRAPH = "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank=0"


def open_list(frame: Frame) -> None:
    frame.click("ga-search #list")
    expect(frame.locator("ga-find")).to_be_visible()


def found(database: Path, condition: str, order: str = "seq") -> list[str]:
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            f"SELECT name FROM node_view WHERE side = 'npu' AND {condition} ORDER BY {order}"
        )
        return [name for (name,) in rows]


def listed(frame: Frame) -> list[str]:
    return frame.locator("ga-hit-list .hit .name").all_text_contents()


def edge_of(page: Page, frame: Frame, name: str) -> bytes:
    """What is painted just before a node's box, where hits are marked."""
    row = wait_for_row(frame, name)
    box = canvas(frame).bounding_box()
    assert box is not None
    x, y = box["x"] + row["x"] - 5, box["y"] + row["y"] + row["height"] / 2
    return page.screenshot(clip={"x": x, "y": y, "width": 3, "height": 3})


def test_filters_and_patterns_list_what_the_database_holds(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    open_list(frame)
    frame.click("ga-find [data-kind='grades'][data-value='5']")
    severe = found(demo_database, "grade = 'severe'")
    expect(frame.locator("ga-find .summary > [role='status']:not(.muted)")).to_have_text(
        f"{len(severe)} matches" if len(severe) > 1 else "1 match"
    )
    assert listed(frame) == severe[: len(listed(frame))]

    frame.click("ga-find [data-kind='grades'][data-value='3']")
    frame.fill("ga-search input", r"^(Tensor|Torch)\..*backward$")
    frame.click("ga-search #pattern")
    frame.select_option("ga-find #order", "severity")
    expected = found(
        demo_database,
        "grade IN ('severe', 'moderate') AND name LIKE '%backward'"
        " AND (name LIKE 'Tensor.%' OR name LIKE 'Torch.%')",
        "grade = 'severe' DESC, error DESC, seq",
    )
    assert expected
    expect(frame.locator("ga-hit-list .hit").first).to_contain_text(expected[0])
    assert listed(frame) == expected[: len(listed(frame))]

    frame.fill("ga-search input", "(")
    expect(frame.locator("ga-find .summary > [role='status']:not(.muted)")).to_have_text(
        "Incomplete pattern"
    )


def test_an_operator_is_found_whatever_its_family(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    open_list(frame)
    frame.fill("ga-find #operator", "softmax")
    expected = found(demo_database, "name LIKE '%.softmax.%'")
    status = frame.locator("ga-find .summary > [role='status']:not(.muted)")
    expect(status).to_have_text(f"{len(expected)} matches")
    assert listed(frame) == expected[: len(listed(frame))]


def test_the_list_and_the_keys_walk_through_the_hits(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    open_list(frame)
    frame.fill("ga-search input", "softmax")
    names = found(demo_database, "name LIKE '%softmax%'")
    frame.locator("ga-hit-list .hit").nth(1).click()
    wait_for_details(frame, names[1])
    assert wait_for_row(frame, names[1], NPU)["selected"]
    for key, place in ((".", 2), ("n", 3), (",", 2), ("p", 1)):
        page.keyboard.press(key)
        wait_for_details(frame, names[place])
    frame.locator("ga-hit-list [role='listbox']").focus()
    page.keyboard.press("ArrowUp")
    wait_for_details(frame, names[0])
    expect(frame.locator("ga-hit-list [aria-selected='true']")).to_contain_text(names[0])


def test_all_steps_and_ranks_are_searched_and_a_hit_opens_its_graph(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    open_list(frame)
    frame.click("ga-find [data-kind='grades'][data-value='5']")
    frame.select_option("ga-find #scope", "file")
    with sqlite3.connect(ddp_database) as connection:
        severe = connection.execute(
            "SELECT step, rank, name FROM node_view WHERE side = 'npu' AND grade = 'severe'"
            " ORDER BY step, rank, seq"
        ).fetchall()
    status = frame.locator("ga-find .summary > [role='status']:not(.muted)")
    expect(status).to_have_text(f"{len(severe)} matches")
    place = next(at for at, (step, rank, _) in enumerate(severe) if (step, rank) == (0, 1))
    _, _, name = severe[place]
    hit = frame.locator("ga-hit-list .hit").nth(place)
    expect(hit).to_contain_text("step 0 · rank 1")
    hit.click()
    frame.wait_for_function("document.querySelector('ga-app').state.view.rank === 1")
    wait_for_details(frame, name)
    expect(frame.locator("ga-hit-list [aria-selected='true']")).to_contain_text(name)
    page.keyboard.press("n")
    wait_for_details(frame, severe[place + 1][2])


def test_a_link_brings_the_search_back(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    open_list(frame)
    frame.fill("ga-search input", "softmax")
    frame.click("ga-find [data-kind='grades'][data-value='1']")
    status = frame.locator("ga-find .summary > [role='status']:not(.muted)")
    before = status.text_content()
    page.reload()
    frame = plugin_frame(page)
    expect(frame.locator("ga-search input")).to_have_value("softmax")
    expect(frame.locator("ga-search .count")).to_have_text(before or "")


def test_tensors_are_found_by_dtype_and_shape(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    open_list(frame)
    with sqlite3.connect(ddp_database) as connection:
        dtype, shape = connection.execute(
            "SELECT dtype, shape FROM tensor_view WHERE side = 'npu' AND shape LIKE '%,%' LIMIT 1"
        ).fetchone()
        everywhere = connection.execute(
            "SELECT DISTINCT step, rank, node FROM tensor_view"
            " WHERE side = 'npu' AND dtype = ? AND shape = ?",
            (dtype, shape),
        ).fetchall()
    here = {node for step, rank, node in everywhere if (step, rank) == (0, 0)}
    for field, value in (("dtype", dtype), ("shape", shape)):
        frame.fill(f"ga-find #{field}", value)
        frame.press(f"ga-find #{field}", "Enter")
    status = frame.locator("ga-find .summary > [role='status']:not(.muted)")
    expect(status).to_have_text(f"{len(here)} matches")
    names = listed(frame)
    frame.locator("ga-hit-list .hit").first.click()
    wait_for_details(frame, names[0])
    page.keyboard.press("n")
    wait_for_details(frame, names[1])
    page.keyboard.press("p")
    wait_for_details(frame, names[0])
    marked = edge_of(page, frame, names[0])
    frame.fill("ga-find #shape", "[9999999]")
    frame.press("ga-find #shape", "Enter")
    expect(status).to_have_text("No node matches.")
    assert edge_of(page, frame, names[0]) != marked
    frame.fill("ga-find #shape", shape)
    frame.press("ga-find #shape", "Enter")
    frame.select_option("ga-find #scope", "file")
    expect(status).to_contain_text(f"{len(everywhere):,}")


def test_one_line_says_what_is_looked_for_and_takes_conditions_away(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    line = frame.locator("ga-find-line")
    frame.fill("ga-search input", "Tensor")
    expect(line).to_be_hidden()
    open_list(frame)
    for grade in (3, 5):
        frame.click(f"ga-find [data-kind='grades'][data-value='{grade}']")
    frame.fill("ga-find #dtype", "float32")
    frame.press("ga-find #dtype", "Enter")
    conditions = line.locator(".condition")
    expect(conditions).to_have_text(["“Tensor”", "Moderate", "Severe", "Dtype float32"])
    expect(line.locator("span.muted")).to_have_text(["Looking for", "and", "or", "and"])

    with sqlite3.connect(demo_database) as connection:
        [(wanted,)] = connection.execute(
            "SELECT count(DISTINCT node_view.name) FROM node_view JOIN tensor_view"
            " ON tensor_view.node = node_view.name AND tensor_view.side = node_view.side"
            " WHERE node_view.side = 'npu' AND node_view.name LIKE '%tensor%'"
            " AND grade IN ('moderate', 'severe') AND dtype = 'torch.float32'"
        )
    status = frame.locator("ga-find .summary > [role='status']:not(.muted)")
    expect(status).to_have_text(f"{wanted} matches" if wanted > 1 else "1 match")
    line.locator(".condition", has_text="Moderate").click()
    line.locator(".condition", has_text="Dtype").click()
    expect(conditions).to_have_text(["“Tensor”", "Severe"])
    severe = found(demo_database, "grade = 'severe' AND name LIKE '%tensor%'")
    words = {0: "No node matches.", 1: "1 match"}
    expect(status).to_have_text(words.get(len(severe), f"{len(severe)} matches"))
    line.locator("#clear").click()
    expect(line).to_be_hidden()


def test_the_filters_fit_a_small_screen(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    open_list(frame)
    expect(frame.locator("ga-find [data-kind='overflows']").first).to_be_visible()
    filters = frame.locator("ga-find .filters")
    assert filters.evaluate("(box) => box.scrollHeight <= box.clientHeight")
    frame.click("ga-find [data-kind='grades'][data-value='3']")
    expect(frame.locator("ga-hit-list .hit").nth(3)).to_be_in_viewport()


def test_the_next_hit_computes_nothing_of_all_nodes(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    """Neither colours nor the overview, which is not shown; other colours are computed."""
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.wait_for_function("document.querySelector('ga-app').state.measures")
    frame.fill("ga-search input", "linear")
    expect(frame.locator("ga-search .count")).to_contain_text("match")
    frame.evaluate(
        """() => {
          const { shadowRoot } = document.querySelector('ga-app');
          const { painter } = shadowRoot.querySelector('ga-hierarchy').view;
          const map = shadowRoot.querySelector('ga-overview').shadowRoot.querySelector('#map');
          const tones = painter.tones;
          window.asked = 0;
          Object.defineProperty(map, 'scrollTop', { get: () => (window.asked++, 0) });
          window.isSame = () => painter.tones === tones;
        }"""
    )
    for _ in range(3):
        before = frame.evaluate("document.querySelector('ga-app').state.selected?.index ?? -1")
        frame.press("ga-search input", "Enter")
        frame.wait_for_function(
            "before => document.querySelector('ga-app').state.selected?.index > before",
            arg=before,
        )
    assert frame.evaluate("[isSame(), asked]") == [True, 0]
    frame.evaluate("document.querySelector('ga-app').nextColours()")
    assert not frame.evaluate("isSame()")
