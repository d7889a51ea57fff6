"""Opening, selecting and finding nodes, by mouse and by keyboard."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.viewer import (
    BENCH,
    NPU,
    canvas,
    click_row,
    find_row,
    make_tall,
    open_viewer,
    resting_scene,
    scene,
    select_node,
    wait_for_details,
    wait_for_row,
)
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.conftest import REPOSITORY, BuildDatabase, StartTensorBoard

LAYER = "Module.model.layers.0.LlamaDecoderLayer.forward.0"
MODEL = "Module.model.LlamaModel.forward.0"
EMBEDDING = "Module.model.embed_tokens.Embedding.forward.0"


def test_double_click_opens_a_module_on_both_sides(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-view-tools [data-command='collapse-all']")
    assert not find_row(frame, MODEL)["expanded"]

    click_row(frame, MODEL, count=2)
    assert find_row(frame, MODEL, NPU)["expanded"]
    assert find_row(frame, MODEL, BENCH)["expanded"]
    embedding = "Module.model.embed_tokens.Embedding.forward.0"
    assert find_row(frame, embedding)["depth"] == find_row(frame, MODEL)["depth"] + 1

    click_row(frame, MODEL, count=2)
    assert not find_row(frame, MODEL)["expanded"]
    assert embedding not in [row["name"] for row in scene(frame)]


def test_without_moving_together_only_one_side_opens(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-view-tools [data-command='collapse-all']")
    sync = frame.locator("ga-view-tools #sync")
    expect(sync).to_have_attribute("aria-pressed", "true")
    sync.click()
    expect(sync).to_have_attribute("aria-pressed", "false")

    click_row(frame, MODEL, BENCH, count=2)
    assert find_row(frame, MODEL, BENCH)["expanded"]
    assert not find_row(frame, MODEL, NPU)["expanded"]


def test_the_keyboard_walks_opens_and_closes(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-view-tools [data-command='collapse-all']")
    tree = canvas(frame)
    tree.focus()

    def active() -> dict[str, str | None]:
        """The tree item that a screen reader announces."""
        item = frame.locator(f"#{tree.get_attribute('aria-activedescendant')}")
        states = ("aria-level", "aria-expanded", "aria-posinset", "aria-setsize")
        return {"text": item.text_content(), **{at: item.get_attribute(at) for at in states}}

    tree.press("Home")
    wait_for_details(frame, "DefaultModel")
    tree.press("ArrowDown")
    wait_for_details(frame, MODEL)
    expect(frame.locator("[role=treeitem][aria-selected=true]")).to_contain_text(MODEL)
    closed = active()
    assert (closed["aria-level"], closed["aria-expanded"]) == ("2", "false")
    assert closed["aria-posinset"] == "1"
    root_children = [row for row in scene(frame, NPU) if row["depth"] == 1]
    assert closed["aria-setsize"] == str(len(root_children))

    tree.press("ArrowRight")
    expect(frame.locator("[role=treeitem][aria-selected=true]")).to_have_attribute(
        "aria-expanded", "true"
    )
    tree.press("ArrowRight")
    wait_for_details(frame, "Module.model.embed_tokens.Embedding.forward.0")
    tree.press("ArrowLeft")
    wait_for_details(frame, MODEL)
    tree.press("Enter")
    expect(frame.locator("[role=treeitem][aria-selected=true]")).to_have_attribute(
        "aria-expanded", "false"
    )
    tree.press("x")
    expect(tree).to_have_attribute("aria-label", "Hierarchy, llama_statistics")
    assert find_row(frame, MODEL, BENCH)["selected"]


def test_levels_open_to_the_depth_asked_for(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    make_tall(page, frame)

    frame.select_option("ga-view-tools #level", "2")
    depths = {row["depth"] for row in scene(frame, NPU)}
    assert depths == {0, 1, 2}
    assert all(
        row["expanded"] for row in scene(frame, NPU) if row["depth"] < 2 and row["expandable"]
    )


def test_search_opens_the_way_to_each_match_on_both_sides(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-view-tools [data-command='collapse-all']")
    with sqlite3.connect(demo_database) as connection:
        query = (
            "SELECT name FROM node_view WHERE side = 'npu' AND name LIKE '%softmax%' ORDER BY seq"
        )
        names = [name for (name,) in connection.execute(query)]
    assert len(names) > 2

    frame.locator("body").press("/")
    expect(frame.locator("ga-search input")).to_be_focused()
    page.keyboard.type("SoftMax")
    count = frame.locator("ga-search [role=status]")
    expect(count).to_have_text(f"{len(names)} matches")

    # A graph with a verdict opens at its first suspect; hits go on from there.
    with sqlite3.connect(demo_database) as connection:
        [[before]] = connection.execute(
            "SELECT count(*) FROM node_view WHERE side = 'npu' AND name LIKE '%softmax%' AND seq <"
            " (SELECT seq FROM node_view JOIN suspect USING (node_id) WHERE overall = 1)"
        )
    names = names[before:] + names[:before]
    for place, name in enumerate(names):
        position = (before + place) % len(names) + 1
        page.keyboard.press("Enter")
        expect(count).to_have_text(f"{position} / {len(names)}")
        wait_for_details(frame, name)
        row = wait_for_row(frame, name, NPU)
        assert row["selected"]
        assert find_row(frame, name, BENCH)["y"] == row["y"]
    page.keyboard.press("Enter")
    wait_for_details(frame, names[0])
    page.keyboard.press("Shift+Enter")
    wait_for_details(frame, names[-1])

    canvas(frame).focus()
    page.keyboard.press("p")
    wait_for_details(frame, names[-2])
    page.keyboard.press("n")
    wait_for_details(frame, names[-1])


def test_search_says_when_nothing_matches(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))

    frame.fill("ga-search input", "no such <node>")
    expect(frame.locator("ga-search [role=status]")).to_have_text("No match")
    expect(frame.locator("ga-search #next")).to_be_disabled()
    frame.press("ga-search input", "Escape")
    expect(frame.locator("ga-search [role=status]")).to_be_empty()


def test_keys_typed_into_the_search_do_not_move_the_graph(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    before = resting_scene(frame)

    frame.click("ga-search input")
    page.keyboard.type("wasd+-0fnpx?")
    assert resting_scene(frame) == before
    expect(frame.locator("ga-help dialog")).to_be_hidden()


def test_jumps_to_the_matched_node(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    name = "Functional.softmax.0.forward"
    select_node(frame, name)

    frame.click("ga-node-summary #jump")
    wait_for_row(frame, name, BENCH)
    assert find_row(frame, name, BENCH)["selected"]
    assert not find_row(frame, name, NPU)["selected"]


def test_a_micro_step_hides_the_others(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    make_tall(page, frame)
    frame.click("ga-view-tools [data-command='collapse-all']")
    with sqlite3.connect(demo_database) as connection:
        query = (
            "SELECT name, micro_step FROM node_view WHERE side = 'npu' AND parent = 'DefaultModel'"
        )
        micro_steps = dict(connection.execute(query))
    assert set(micro_steps.values()) == {0, 1}

    frame.select_option("ga-toolbar #micro", "1")
    shown = [row["name"] for row in scene(frame, NPU) if row["depth"] == 1]
    assert shown == [name for name, micro in micro_steps.items() if micro == 1]


def test_zoom_and_fit(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    frame.click("ga-view-tools [data-command='expand-all']")
    zoom = frame.locator("ga-view-tools #zoom")
    expect(zoom).to_have_text("100 %")
    in_view = len(scene(frame, NPU))

    frame.click("ga-view-tools [data-command='zoom-in']")
    expect(zoom).to_have_text("125 %")
    assert len(scene(frame, NPU)) < in_view
    frame.click("ga-view-tools [data-command='fit']")
    frame.wait_for_function("document.querySelector('ga-app').scene.length === 2 * 688")
    frame.click("ga-view-tools #zoom")
    expect(zoom).to_have_text("100 %")


@pytest.fixture(scope="module")
def wrapped_database(
    tmp_path_factory: pytest.TempPathFactory, build_database: BuildDatabase
) -> Path:
    """A model in the wrapper of data parallelism against the same without it."""
    folder = tmp_path_factory.mktemp("wrapped")
    archive = REPOSITORY / "tests" / "data" / "pairs" / "ddp.tar.xz"
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    npu, bench = folder / "ddp" / "npu" / "step0" / "rank0", folder / "ddp" / "bench" / "step0"
    return build_database(npu, next(bench.iterdir()))


def test_what_a_wrapper_holds_stands_beside_its_counterpart(
    page: Page, wrapped_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    wrapper = "Module.module.LlamaForCausalLM.forward.0"
    inside = "Module.module.model.LlamaModel.forward.0"
    frame = open_viewer(page, tensorboard_server(wrapped_database.parent))
    frame.click("ga-view-tools [data-command='collapse-all']")
    click_row(frame, wrapper)
    page.keyboard.press("ArrowRight")
    row = wait_for_row(frame, inside)
    assert find_row(frame, MODEL, BENCH)["row"] == row["row"] == find_row(frame, wrapper)["row"] + 1

    click_row(frame, MODEL, BENCH, count=2)
    embedding = ("Module.module.model.embed_tokens.Embedding.forward.0", EMBEDDING)
    rows = [wait_for_row(frame, name, side)["row"] for side, name in enumerate(embedding)]
    assert rows == [row["row"] + 1] * 2
    # Folded again, the wrapper hides its own side alone.
    click_row(frame, wrapper)
    page.keyboard.press("ArrowLeft")
    frame.wait_for_function(
        "(name) => document.querySelector('ga-app').scene.every((row) => row.name !== name)",
        arg=inside,
    )
    assert find_row(frame, EMBEDDING, BENCH)["row"] > find_row(frame, MODEL, BENCH)["row"]


def test_three_hundred_levels_down_the_selected_node_is_in_view(
    page: Page, tmp_path: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    call = "Functional.softmax.0.forward"
    database = build_database(*(nested(tmp_path / side, 300, call) for side in ("npu", "bench")))
    frame = open_viewer(page, tensorboard_server(database.parent))
    select_node(frame, call)
    frame.wait_for_function(IN_VIEW, arg=call)
    canvas(frame).press("ArrowLeft")
    frame.locator("ga-node-summary h2", has_text="Block299").wait_for()
    frame.wait_for_function(IN_VIEW, arg=f"Module{'.m' * 300}.Block299.forward.0")


# The left end of a node's row lies on the pane.
IN_VIEW = """(name) => {
  const row = document.querySelector('ga-app').scene.find((row) => row.name === name);
  const pane = document.querySelector('ga-app').clientWidth / 2;
  return row !== undefined && row.x >= 0 && row.x + 100 < pane;
}"""


def nested(directory: Path, levels: int, call: str) -> Path:
    """Modules in each other, and a call in the innermost."""
    names = [f"Module{'.m' * (level + 1)}.Block{level}.forward.0" for level in range(levels)]
    construct = dict(zip([*names, call], [None, *names], strict=True))
    data = {name: forward([tensor(3.0)], [tensor(2.0)]) for name in (call, *reversed(names))}
    return write_dump(directory, data, construct)
