"""Every command leaves the user in the graph, or where it says that it leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.viewer import (
    canvas,
    open_viewer,
    plugin_frame,
    wait_for_answers,
    wait_for_details,
)
from tests.conftest import StartTensorBoard

CULPRIT = "Tensor.__mul__.19.forward"
# Commands that lead somewhere else, and where.
ELSEWHERE = {
    "This list": "ga-help",
    "Command palette": "ga-palette",
    "Search": "ga-search",
    "Overview of all steps and ranks, and back": "ga-overview",
}
HAS_FOCUS = """(part) => {
  for (let at = document.activeElement; at; at = at.shadowRoot?.activeElement) {
    if (at.localName === part) return true;
  }
  return false;
}"""


@pytest.mark.slow
def test_the_focus_is_in_the_graph_after_every_command(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    address = tensorboard_server(demo_database.parent)
    frame = open_viewer(page, address)
    wait_for_details(frame, CULPRIT)
    canvas(frame).focus()
    page.keyboard.press(":")
    texts = frame.locator("ga-palette .item").evaluate_all(
        "(items) => items.map((item) => item.querySelector('.cut').textContent)"
    )
    page.keyboard.press("Escape")
    expect(canvas(frame)).to_be_focused()
    assert len(texts) > 30
    assert set(ELSEWHERE) <= set(texts)
    for place, name in enumerate(texts):
        wait_for_answers(frame)
        canvas(frame).focus()
        page.keyboard.press(":")
        # By its place: commands that were run change words, not the order.
        frame.locator("ga-palette .item").nth(place).click()
        frame.wait_for_function(HAS_FOCUS, arg=ELSEWHERE.get(name, "ga-hierarchy"))
        if name in ELSEWHERE:
            page.goto("about:blank")
            frame = open_viewer(page, address)
            wait_for_details(frame, CULPRIT)


def test_the_culprit_of_the_demo_is_there_without_any_action_and_by_keys(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    expect(frame.locator("ga-verdict-line")).to_contain_text(CULPRIT)
    expect(frame.locator("ga-call-site")).to_contain_text("modeling_llama.py:193")
    expect(frame.locator("ga-call-site")).to_contain_text("* scaling")


def test_from_any_wrong_node_one_key_leads_to_where_it_began_and_another_back(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    layer = "Module.model.layers.1.LlamaDecoderLayer.forward.0"
    fragment = (
        f"#graph_ascend&p.graph_ascend.file={demo_database.name}&p.graph_ascend.step=0"
        f"&p.graph_ascend.rank=0&p.graph_ascend.side=npu&p.graph_ascend.node={layer}"
        "&p.graph_ascend.tab=flow"
    )
    frame = open_viewer(page, tensorboard_server(demo_database.parent), fragment)
    wait_for_details(frame, layer)
    stops = frame.locator("ga-flow .stop")
    expect(stops.first).to_have_text("__mul__.19")
    expect(stops.last).to_have_attribute("aria-current", "true")
    canvas(frame).focus()
    page.keyboard.press("g")
    wait_for_details(frame, "Tensor.__add__.16.forward")
    page.keyboard.press("Backspace")
    wait_for_details(frame, layer)
    page.keyboard.press("t")
    expect(frame.locator("ga-flow #draw")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("G")
    wait_for_details(frame, CULPRIT)
    # The line that multiplies by the scale, in the table as well.
    expect(frame.locator("ga-flow tbody tr").first).to_contain_text("Torch.matmul.2.forward")
    expect(frame.locator("ga-flow tbody tr").last).to_contain_text("Tensor.__add__.13.forward")
    page.keyboard.press("Backspace")
    wait_for_details(frame, layer)
    page.reload()
    frame = plugin_frame(page)
    wait_for_details(frame, layer)
    expect(frame.locator("ga-flow #draw")).to_have_attribute("aria-pressed", "true")


def test_what_takes_an_output_is_one_click_away(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    wait_for_details(frame, CULPRIT)
    frame.get_by_role("tab", name="From and to").click()
    frame.locator("ga-flow .end", has_text="Tensor.__add__.13.forward").click()
    wait_for_details(frame, "Tensor.__add__.13.forward")
    expect(frame.locator("ga-flow tbody")).to_contain_text(CULPRIT)
    expect(frame.locator("ga-flow tbody .role[data-role='suspect']")).to_have_text("suspect")
