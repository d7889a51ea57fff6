"""The canvas itself: images of it, and nodes without match pulled and picked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Frame, Page

from tests.browser.viewer import BENCH, NPU, canvas, open_viewer, scene
from tests.conftest import BuildDatabase, StartTensorBoard

HIERARCHY = "document.querySelector('ga-app').shadowRoot.querySelector('ga-hierarchy')"
VIEW = f"{HIERARCHY}.made"
UNMATCHED = 6
# The same anchor with a blob: address that elements use to hand a file to the user.
DOWNLOAD = f"""
async () => {{
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await {VIEW}.toPng({{ titles: ['debug', 'reference'] }}));
  link.download = 'view.png';
  link.click();
}}
"""
PIXEL_SIZE = f"""
async () => {{
  const image = await createImageBitmap(await {VIEW}.toPng());
  const shown = {HIERARCHY};
  const canvases = [...shown.shadowRoot.querySelectorAll('#canvas canvas')];
  const [npu, , bench] = canvases.map((canvas) => canvas.clientWidth);
  return {{ image: [image.width, image.height], npu, bench, tall: canvases[0].clientHeight }};
}}
"""
SVG_TEXTS = f"""
() => {{
  const file = {VIEW}.toSvg({{ titles: ['debug', 'a < b & c'] }});
  const drawing = new DOMParser().parseFromString(file, 'image/svg+xml');
  if (drawing.querySelector('parsererror')) throw new Error(drawing.documentElement.textContent);
  return [...drawing.querySelectorAll('text')].map((text) => text.textContent);
}}
"""
HEARD = f"""
() => {{
  window.heard = [];
  for (const name of ['match-drop', 'pick', 'select']) {{
    {VIEW}.on(name, (detail) => window.heard.push([name, detail]));
  }}
}}
"""


@pytest.fixture(scope="module")
def renamed_database(
    dumps: Path, tmp_path_factory: pytest.TempPathFactory, build_database: BuildDatabase
) -> Path:
    """A run that calls one activation by another name than its reference."""
    reference = dumps / "llama_statistics" / "step0" / "rank"
    renamed = tmp_path_factory.mktemp("renamed") / "rank"
    shutil.copytree(reference, renamed)
    for file in renamed.glob("*.json"):
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("Functional.silu.0", "NPU.npu_of_our_own.0"), encoding="utf-8")
    dump = json.loads((renamed / "dump.json").read_text(encoding="utf-8"))
    [output] = dump["data"]["NPU.npu_of_our_own.0.forward"]["output"]
    output |= {"Max": 3 * output["Max"] + 1, "Norm": 3 * output["Norm"] + 1}  # what else it does
    (renamed / "dump.json").write_text(json.dumps(dump), encoding="utf-8")
    return build_database(renamed, reference)


@pytest.fixture
def frame(page: Page, renamed_database: Path, tensorboard_server: StartTensorBoard) -> Frame:
    frame = open_viewer(page, tensorboard_server(renamed_database.parent))
    frame.evaluate(f"{VIEW}.expandAll()")
    return frame


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_image_is_what_is_on_screen(
    frame: Frame, page: Page, theme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=theme)
    frame.wait_for_function(f"document.querySelector('ga-app').theme === '{theme}'")
    size = frame.evaluate(PIXEL_SIZE)
    assert size["image"] == [2 * (size["npu"] + size["bench"] + 3), 2 * size["tall"]]
    with page.expect_download() as download:
        frame.evaluate(DOWNLOAD)
    image = Path(download.value.path()).read_bytes()
    assert image.startswith(b"\x89PNG\r\n\x1a\n")

    texts = set(frame.evaluate(SVG_TEXTS))
    assert {"debug", "a < b & c"} <= texts
    titles = {row["label"].split(" · ")[0] for row in scene(frame)}
    assert titles <= texts


def point(frame: Frame, row: dict[str, Any]) -> tuple[float, float]:
    box = canvas(frame).bounding_box()
    assert box is not None
    return box["x"] + row["x"] + row["width"] / 2, box["y"] + row["y"] + row["height"] / 2


def answered(frame: Frame) -> list[Any]:
    told: list[Any] = json.loads(frame.evaluate("JSON.stringify(window.heard.splice(0))"))
    return told


def free_pair(frame: Frame) -> tuple[dict[str, Any], dict[str, Any]]:
    """The boxes of a node without match on each side, both in view."""
    frame.evaluate(
        f"""() => {{
          const [npu] = document.querySelector('ga-app').state.graphs;
          {VIEW}.select({NPU}, npu.grade.indexOf({UNMATCHED}), {{ centre: true }});
        }}"""
    )
    boxes = [row for row in scene(frame) if row["grade"] == UNMATCHED and not row["expanded"]]
    npu = next(row for row in boxes if row["side"] == NPU)
    bench = next(row for row in boxes if row["side"] == BENCH)
    frame.evaluate(HEARD)
    return npu, bench


def test_a_new_size_is_drawn_in_the_frame_that_shows_it(frame: Frame) -> None:
    seen = frame.evaluate(
        f"""async () => {{
          const host = {HIERARCHY};
          const canvas = host.shadowRoot.querySelector('#canvas canvas');
          const colours = () => [...canvas.getContext('2d').getImageData(99, 99, 1, 1).data];
          const frame = (change) => new Promise((done) =>
            requestAnimationFrame(() => {{ change(); setTimeout(done); }}));
          await frame(() => {{}});
          const found = [[canvas.height, colours()]];
          await frame(() => (host.style.maxHeight = `${{host.clientHeight - 40}}px`));
          found.push([canvas.height, colours()]);
          host.style.maxHeight = '';
          return found;
        }}"""
    )
    (tall, colours), (lower, after) = seen
    assert lower < tall
    assert after == colours
    assert after[3] == 255, "it is drawn at all"


def test_a_node_is_pulled_to_one_of_the_other_side(frame: Frame, page: Page) -> None:
    npu, bench = free_pair(frame)
    page.keyboard.down("Alt")
    page.mouse.move(*point(frame, bench))
    page.mouse.down()
    page.mouse.move(*point(frame, npu), steps=5)
    page.mouse.up()
    page.keyboard.up("Alt")
    pair = {
        "npu": {"side": NPU, "index": npu["index"]},
        "bench": {"side": BENCH, "index": bench["index"]},
    }
    # The view tells of the selection made above when its glide has ended.
    told = [event for event in answered(frame) if event[1].get("origin") != "program"]
    assert told == [["match-drop", pair]]


def test_pulling_ends_with_escape(frame: Frame, page: Page) -> None:
    npu, bench = free_pair(frame)
    page.keyboard.down("Alt")
    page.mouse.move(*point(frame, npu))
    page.mouse.down()
    page.mouse.move(*point(frame, bench), steps=5)
    page.keyboard.press("Escape")
    page.mouse.up()
    page.keyboard.up("Alt")
    assert answered(frame) == []


def picked(frame: Frame) -> list[Any]:
    return [event for event in answered(frame) if event[0] == "pick"]


def test_the_next_click_picks_a_node_without_match(frame: Frame, page: Page) -> None:
    npu, bench = free_pair(frame)
    frame.evaluate(f"{VIEW}.setPickMode({BENCH})")
    page.mouse.click(*point(frame, npu))
    assert picked(frame) == []
    page.mouse.click(*point(frame, bench))
    assert picked(frame) == [["pick", {"node": {"side": BENCH, "index": bench["index"]}}]]
    assert frame.evaluate(f"{VIEW}.pickMode") is None

    frame.evaluate(f"{VIEW}.setPickMode({NPU})")
    page.keyboard.press("Escape")
    assert picked(frame) == [["pick", {"node": None}]]
