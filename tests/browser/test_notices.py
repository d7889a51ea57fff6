"""What the page says of its surroundings: who can reach it, and files of the reference tool."""

from __future__ import annotations

import lzma
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.viewer import SHOWS_GRAPHS, canvas, open_page, open_viewer, wait_for_details
from tests.cases import tried_first
from tests.conftest import REPOSITORY, BuildDatabase, StartTensorBoard

SPOILT = "Module.model.layers.1.mlp.down_proj.Linear.forward.0"
OVERVIEW = "#graph_ascend&p.graph_ascend.page=overview"
REFERENCE = REPOSITORY / "tests" / "data" / "reference"
NAMES = sorted(path.name.removesuffix(".xz") for path in REFERENCE.glob("*.vis.db.xz"))


def test_who_may_match_is_said_once_where_others_reach_the_port(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    address = tensorboard_server(demo_database.parent, "--bind_all")
    frame = open_viewer(page, address)
    notice = frame.locator("ga-exposed")
    expect(notice).to_contain_text("whoever does may look at these files and match nodes")
    expect(notice).to_contain_text("--graph_ascend_readonly")
    frame.click("ga-exposed #seen")
    expect(notice).to_be_hidden()
    expect(open_viewer(page, address).locator("ga-exposed")).to_be_hidden()


@pytest.mark.parametrize("options", [(), ("--bind_all", "--graph_ascend_readonly")])
def test_nothing_is_said_where_nobody_else_may_match(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard, options: tuple[str, ...]
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent, *options))
    expect(frame.locator("ga-exposed")).to_be_hidden()


@pytest.mark.parametrize("name", tried_first(NAMES))
def test_a_file_of_the_reference_tool_is_imported_with_one_click(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard, name: str
) -> None:
    old = tmp_path / name
    old.write_bytes(lzma.decompress((REFERENCE / f"{name}.xz").read_bytes()))
    before = old.read_bytes()
    frame = open_page(page, tensorboard_server(tmp_path))
    expect(frame.locator("ga-message #message")).to_contain_text("written by another builder")
    frame.click("ga-convert #convert")
    frame.wait_for_function(SHOWS_GRAPHS)
    made = f"{name.removesuffix('.vis.db')}.imported.vis.db"
    page.wait_for_url(re.compile(re.escape(made)))
    assert old.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {name, made}


@pytest.mark.slow
def test_why_a_file_cannot_be_imported_is_said_beside_the_button(
    page: Page,
    expected_complaints: list[str],
    tmp_path: Path,
    tensorboard_server: StartTensorBoard,
) -> None:
    expected_complaints.append(r"409 .*graph_ascend/convert|status of 409 .*graph_ascend/convert")
    old = tmp_path / NAMES[0]
    content = lzma.decompress((REFERENCE / f"{NAMES[0]}.xz").read_bytes())
    old.write_bytes(content)
    frame = open_page(page, tensorboard_server(tmp_path))
    frame.locator("ga-convert #convert").wait_for()
    (tmp_path / f"{NAMES[0].removesuffix('.vis.db')}.imported.vis.db").mkdir()
    frame.click("ga-convert #convert")
    expect(frame.locator("ga-convert [role=alert]")).to_contain_text("is there already")
    assert old.read_bytes() == content


def test_a_note_leads_to_the_node_that_it_names(
    page: Page, dumps: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    runs = ("llama_statistics_nan_weight", "llama_statistics")
    database = build_database(*(dumps / name / "step0" / "rank" for name in runs), "-oc")
    with closing(sqlite3.connect(database)) as connection:
        [[first]] = connection.execute(
            "SELECT subject FROM diagnostic WHERE code = 'overflow' AND side = 0"
        )
        parent = "SELECT parent FROM node_view WHERE side = 'npu' AND name = ?"
        # One weight of this module was made NaN; the call inside it is the first to show it.
        assert connection.execute(parent, (first,)).fetchone() == (SPOILT,)
    address = tensorboard_server(database.parent)
    frame = open_viewer(page, address)
    frame.locator("ga-notes #open").click()
    dialog = frame.get_by_role("dialog", name="About this file")
    frame.locator("ga-notes").get_by_role("button", name=first).first.click()  # slotted
    expect(dialog).to_be_hidden()
    wait_for_details(frame, first)
    expect(canvas(frame)).to_be_focused()
    frame = open_page(page, address, OVERVIEW)
    frame.locator("ga-overview ga-file-facts").get_by_role("button", name=first).first.click()
    wait_for_details(frame, first)
    expect(canvas(frame)).to_be_focused()
