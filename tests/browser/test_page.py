"""The viewer in one file, opened from disk: what it shows is what the plugin answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from playwright.sync_api import Frame, Page, expect

from msprobe_builder.command.main import main
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.browser.viewer import (
    canvas,
    select_node,
    table_cells,
    wait_for_details,
)
from tests.plugin.conftest import MESSAGES, Ask, client_of

CULPRIT = "Tensor.__mul__.19.forward"
LAYER = "Module.model.layers.1.LlamaDecoderLayer.forward.0"
# What the page answers to a question, as bytes.
ANSWER = """async ([route, query]) => {
  const app = document.querySelector('ga-app');
  const url = new URL(route, document.baseURI);
  for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value);
  const body = await (await app.session.fetch(url, {})).arrayBuffer();
  return [...new Uint8Array(body)];
}"""


def write(database: Path, folder: Path, *options: str) -> Path:
    """The page of a database."""
    output = folder / "page.html"
    assert main(["page", str(database), "-o", str(output), *options]) == 0
    return output


def open_page(page: Page, path: Path, fragment: str = "") -> Frame:
    """Open it from disk; nothing may be asked of anybody."""
    page.on("request", lambda request: asked.append(request.url))
    asked: list[str] = []
    page.emulate_media(reduced_motion="reduce")
    page.goto(path.as_uri() + fragment)
    # The page's policy lets nothing be evaluated, so that waiting goes by what is seen.
    page.locator("ga-node-summary h2").wait_for()
    assert [url.split("#")[0] for url in asked] == [path.as_uri()]
    return page.main_frame


def content(route: str, body: bytes) -> dict[str, Any]:
    """An answer in a form that compares."""
    found: dict[str, Any] = json.loads(
        json.dumps(MessageToDict(MESSAGES[route].FromString(body)), sort_keys=True)
    )
    return found


@pytest.mark.slow
def test_the_page_answers_as_the_plugin_does(
    page: Page, demo_database: Path, tmp_path: Path
) -> None:
    frame = open_page(page, write(demo_database, tmp_path))
    ask: Ask = client_of(demo_database.parent)
    place = {"file": demo_database.name, "step": 0, "rank": 0}
    count = pb.Skeleton.FromString(ask("skeleton", **place, side="npu").data).node_count
    questions: list[tuple[str, dict[str, Any]]] = [
        ("measures", place),
        *(("node", {**place, "side": index % 2, "index": index}) for index in range(0, count, 7)),
        *(("flow", {**place, "side": index % 2, "index": index}) for index in range(0, count, 5)),
        ("search", {"file": place["file"], "side": 0, "name": "softmax", "limit": 1000}),
        ("search", {"file": place["file"], "side": 1, "dtype": "int64", "limit": 1000}),
        ("search", {"file": place["file"], "side": 0, "output_dtype": "bool", "limit": 1000}),
        ("search", {"file": place["file"], "side": 0, "shape": "2,16,64", "limit": 1000}),
        ("across", {"file": place["file"], "side": 0, "name": CULPRIT}),
    ]
    for route, query in questions:
        there = content(route, ask(route, **query).data)
        here = content(route, bytes(frame.evaluate(ANSWER, [route, query])))
        for one in (there, here):  # of matches by evidence; there are none
            one.pop("matchSource", None)
            one.pop("matchCertainty", None)
            if route in ("search", "across"):  # the page knows them as the colours do
                one["error"] = [float(format(error, ".6g")) for error in one["error"]]
        assert here == there, (route, query)


def test_links_search_table_and_trail_work_from_disk(
    page: Page, demo_database: Path, tmp_path: Path
) -> None:
    path = write(demo_database, tmp_path)
    frame = open_page(page, path)
    wait_for_details(frame, CULPRIT)
    expect(frame.locator("ga-verdict-line")).to_contain_text(CULPRIT)
    assert table_cells(frame, "output.0")["Debug Norm"]["text"] != ""
    # What a server would have to make is not offered.
    frame.get_by_role("button", name="View", exact=True).click()
    expect(frame.get_by_text("Save as PNG image")).to_be_visible()
    expect(frame.get_by_text("Save the report")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(frame.locator("ga-palette").get_by_text("Save as PNG image")).to_have_count(1)
    for made in ("Save the report", "Look for new files"):
        expect(frame.locator("ga-palette").get_by_text(made)).to_have_count(0)
    page.keyboard.press("Escape")
    expect(frame.get_by_role("button", name="CSV").first).to_be_visible()
    for name in ("Excel", "Look for new files and reload", "Trends over many steps"):
        expect(frame.get_by_role("button", name=name)).to_have_count(0)
    select_node(frame, LAYER)
    frame.get_by_role("tab", name="From and to").click()
    expect(frame.locator("ga-flow .stop").first).to_have_text("__mul__.19")
    canvas(frame).focus()
    page.keyboard.press("G")
    wait_for_details(frame, CULPRIT)
    expect(frame.get_by_role("tab", name="Match")).to_have_count(0)
    expect(frame.locator("ga-notice")).to_contain_text("can be read, not changed")
    # The link, in another window.
    fragment = page.evaluate("location.hash")
    moved = tmp_path / "elsewhere.html"
    shutil.move(path, moved)
    page.goto("about:blank")
    frame = open_page(page, moved, fragment)
    wait_for_details(frame, CULPRIT)
    expect(frame.get_by_role("tab", name="From and to")).to_have_attribute("aria-selected", "true")


@pytest.mark.slow
def test_what_is_too_large_is_left_out_and_said(
    page: Page, ddp_database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["page", str(ddp_database), "-o", str(tmp_path / "all.html"), "--size", "1"]) in (
        0,
        1,
    )
    path = write(ddp_database, tmp_path, "--step", "0", "--rank", "1", "--rank", "2")
    assert "holds 2 of 8 graphs" in capsys.readouterr().out
    page.emulate_media(reduced_motion="reduce")
    page.goto(path.as_uri())
    expect(page.locator("ga-notice")).to_contain_text("It has 2 of 8 steps and ranks.")
    expect(page.locator("ga-overview .cell")).to_have_count(2)
