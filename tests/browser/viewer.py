"""The viewer as a test sees it: through its hook `ga-app.scene`, its texts and its keys."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Frame, Locator, Page

NPU, BENCH = 0, 1
# Colours by the documented error, where by default they say what part a node plays in the verdict.
DOCUMENTED = "#graph_ascend&p.graph_ascend.colours=precision"
SHOWS_GRAPHS = "document.querySelector('ga-app')?.state?.graphs != null"

Row = dict[str, Any]


# What TensorBoard shows in the frame of a tab.
PLUGIN_PAGE = "data/plugin_entry.html?name=graph_ascend"


def open_viewer(
    page: Page, address: str, fragment: str = "#graph_ascend", *, in_tab: bool = False
) -> Frame:
    """Open the viewer and wait until both hierarchies are there; see ``open_page``."""
    frame = open_page(page, address, fragment, in_tab=in_tab)
    frame.wait_for_function(SHOWS_GRAPHS)
    return frame


def open_page(
    page: Page, address: str, fragment: str = "#graph_ascend", *, in_tab: bool = False
) -> Frame:
    """Open the plugin's page, without animations, and wait for it.

    TensorBoard serves the page by itself, too, and its own scripts take two thirds of the time it
    takes to open a tab of it. So that is done where a test is of the two together: ``in_tab``.
    """
    page.emulate_media(reduced_motion="reduce")
    page.goto(address + ("" if in_tab else PLUGIN_PAGE) + fragment)
    return plugin_frame(page)


def plugin_frame(page: Page) -> Frame:
    """The plugin's page: the whole one, or the frame TensorBoard shows it in."""
    frame: Frame | None = page.main_frame
    if PLUGIN_PAGE not in page.url:
        element = page.wait_for_selector("iframe")
        assert element is not None
        frame = element.content_frame()
    assert frame is not None
    frame.wait_for_selector("ga-app")
    return frame


def wait_for_answers(frame: Frame) -> None:
    """Wait until nothing that was asked for is still to come, and the picture after it is drawn."""
    frame.wait_for_function(
        """() => {
          const { state } = document.querySelector('ga-app');
          return state.busy === null && !state.detailBusy;
        }"""
    )
    frame.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


def make_tall(page: Page, frame: Frame) -> None:
    """Make the window so tall that a few hundred nodes are in view."""
    before = canvas(frame).bounding_box()
    page.set_viewport_size({"width": 1440, "height": 6000})
    assert before is not None
    frame.wait_for_function(
        "(before) => document.querySelector('ga-app').offsetHeight > before + 4000",
        arg=before["height"],
    )
    # The canvas follows with the next frame.
    frame.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")


def scene(frame: Frame, side: int | None = None) -> list[Row]:
    """The boxes in view, top to bottom, of one side or of both."""
    rows: list[Row] = frame.evaluate("document.querySelector('ga-app').scene")
    return [row for row in rows if side is None or row["side"] == side]


def resting_scene(frame: Frame, side: int | None = None) -> list[Row]:
    """The boxes in view once no answer is awaited and nothing has moved for some pictures."""
    frame.evaluate("window.pictures = { last: '', alike: 0 }")
    frame.wait_for_function(
        """() => {
          const { scene, state } = document.querySelector('ga-app');
          const now = JSON.stringify(scene);
          const rests = state.busy === null && !state.detailBusy && now === window.pictures.last;
          window.pictures = { last: now, alike: rests ? window.pictures.alike + 1 : 0 };
          return window.pictures.alike >= 20;
        }"""
    )
    return scene(frame, side)


def find_row(frame: Frame, name: str, side: int = NPU) -> Row:
    """The box of a node that is in view."""
    [row] = [row for row in scene(frame, side) if row["name"] == name]
    return row


def wait_for_row(frame: Frame, name: str, side: int = NPU) -> Row:
    """Wait until a node is in view."""
    frame.wait_for_function(
        """([name, side]) => document.querySelector('ga-app').scene
          .some((row) => row.name === name && row.side === side)""",
        arg=[name, side],
    )
    return find_row(frame, name, side)


def canvas(frame: Frame) -> Locator:
    """What the positions of the scene refer to; it holds the focus for keys."""
    return frame.locator("ga-hierarchy #canvas > [tabindex='0']")


def pixel(frame: Frame, row: dict[str, float]) -> list[int]:
    """The colour of a box, right of its name and left of its error."""
    colour: list[int] = canvas(frame).evaluate(
        """(root, [x, y]) => {
          const board = root.querySelector('canvas');
          const ratio = board.width / board.clientWidth;
          const at = [(x - board.offsetLeft) * ratio, (y - board.offsetTop) * ratio];
          return [...board.getContext('2d').getImageData(...at, 1, 1).data].slice(0, 3);
        }""",
        [row["x"] + row["width"] * 0.6, row["y"] + 4],
    )
    return colour


def click_row(frame: Frame, name: str, side: int = NPU, *, count: int = 1) -> None:
    """Click in the middle of a node's box."""
    row = wait_for_row(frame, name, side)
    canvas(frame).click(
        position={"x": row["x"] + row["width"] / 2, "y": row["y"] + row["height"] / 2},
        click_count=count,
    )


def select_node(frame: Frame, name: str, side: int = NPU) -> None:
    """Find a node by its full name and wait for its details."""
    if frame.locator("ga-search #side").is_visible():
        frame.select_option("ga-search #side", ["npu", "bench"][side])
    frame.fill("ga-search input", name)
    frame.press("ga-search input", "Enter")
    wait_for_details(frame, name)


def wait_for_details(frame: Frame, name: str) -> None:
    """Wait until the panel at the bottom shows a node."""
    frame.locator("ga-node-summary h2", has_text=name).wait_for()


def table_cells(frame: Frame, parameter: str) -> dict[str, dict[str, str]]:
    """Text, tooltip and class of each cell of a parameter's row, by "group column".

    A group is called Debug or Reference, whatever the sides are.
    """
    cells: dict[str, dict[str, str]] = frame.locator("ga-tensor-table").evaluate(
        """(element, parameter) => {
          const table = element.shadowRoot.querySelector('table');
          const [groups, names] = table.tHead.rows;
          const { roles, sides } = document.querySelector('ga-app').text;
          const role = Object.keys(roles).find.bind(Object.keys(roles));
          const titles = [...groups.cells].slice(1).flatMap((group) => {
            const side = role((one) => sides[one] === group.textContent);
            return Array(group.colSpan).fill(side ? roles[side] : group.textContent);
          });
          const keys = [...names.cells].map((name, at) => `${titles[at]} ${name.textContent}`);
          const row = [...table.tBodies[0].rows]
            .find((candidate) => candidate.cells[0].firstChild?.textContent === parameter);
          const cells = [...row.cells].slice(1).flatMap((cell) => Array(cell.colSpan).fill(cell));
          return Object.fromEntries(cells.map((cell, at) => [keys[at].trim(), {
            text: cell.textContent, title: cell.title, tone: cell.className,
            grade: cell.dataset.grade ?? '',
          }]));
        }""",
        parameter,
    )
    return cells
