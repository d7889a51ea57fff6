"""What was planted is one click away from the overview of its file, and one key from elsewhere.

The names of the culprits come from how each fault was planted, not from the verdict.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.viewer import canvas, open_page, wait_for_details
from tests.cases import REPEATED, tried_first
from tests.conftest import BuildDatabase, StartTensorBoard

OVERVIEW = "#graph_ascend&p.graph_ascend.page=overview"
PLANTED = {
    "demo": "Tensor.__mul__.19.forward",  # the scale of the attention in layer 1, in another run
    "argument": "Mint.mul.17.forward",  # the scale of the attention in layer 1
    "weight": "Module.model.layers.1.mlp.down_proj.Linear.forward.0",  # one NaN in it
    "operator": "Functional.softmax.3.forward",  # equal inputs, another output
}


MOST_KEYS = 6


@pytest.fixture(scope="session")
def planted_databases(
    dumps: Path,
    pairs: Path,
    build_database: BuildDatabase,
    demo_database: Path,
    small_database: Path,
) -> dict[str, Path]:
    """A file for each kind of fault: one step, one rank."""
    scaled, right = (
        pairs / name / "step0" / "rank" for name in ("ms_llama_fault_mix_stat", "ms_llama_mix_stat")
    )
    llama = "llama_statistics"
    nan, clean = (dumps / name / "step0" / "rank" for name in (f"{llama}_nan_weight", llama))
    return {
        "demo": demo_database,
        "argument": build_database(scaled, right),
        "weight": build_database(nan, clean),
        "operator": small_database,
    }


@pytest.mark.parametrize("kind", PLANTED)
def test_one_click_leads_from_the_overview_to_the_culprit_and_one_key_back(
    page: Page,
    planted_databases: dict[str, Path],
    tensorboard_server: StartTensorBoard,
    kind: str,
) -> None:
    frame = open_page(page, tensorboard_server(planted_databases[kind].parent), OVERVIEW)
    frame.get_by_role("button", name="Show it in the graph").click()
    wait_for_details(frame, PLANTED[kind])
    expect(frame.locator("ga-overview")).to_be_hidden()
    canvas(frame).focus()
    page.keyboard.press("ArrowUp")
    expect(frame.locator("ga-node-summary h2")).not_to_contain_text(PLANTED[kind])
    page.keyboard.press("v")
    wait_for_details(frame, PLANTED[kind])


@pytest.mark.parametrize("kind", tried_first(PLANTED, 2, REPEATED))
def test_the_keyboard_alone_leads_from_a_fresh_overview_to_the_culprit_and_its_tensors(
    page: Page,
    planted_databases: dict[str, Path],
    tensorboard_server: StartTensorBoard,
    kind: str,
) -> None:
    frame = open_page(page, tensorboard_server(planted_databases[kind].parent), OVERVIEW)
    # Nobody has clicked: the keys are where the first suspect's graph is.
    expect(frame.locator("ga-overview .cell.lead")).to_be_focused()
    keys = ["Enter"]
    page.keyboard.press(keys[-1])
    wait_for_details(frame, PLANTED[kind])
    expect(frame.locator("ga-overview")).to_be_hidden()
    expect(canvas(frame)).to_be_focused()
    expect(frame.locator("ga-tensor-table tbody")).to_contain_text("output.0")
    assert len(keys) <= MOST_KEYS


@pytest.mark.parametrize("kind", tried_first(reversed(PLANTED), 2, REPEATED))
def test_a_fresh_page_can_be_walked_by_keys_to_the_culprit_from_anywhere(
    page: Page,
    planted_databases: dict[str, Path],
    tensorboard_server: StartTensorBoard,
    kind: str,
) -> None:
    database = planted_databases[kind]
    frame = open_page(page, tensorboard_server(database.parent))
    wait_for_details(frame, PLANTED[kind])
    expect(canvas(frame)).to_be_focused()
    page.keyboard.press("Home")
    expect(frame.locator("ga-node-summary h2")).not_to_contain_text(PLANTED[kind])
    keys = ["o", "Enter", "v"]
    page.keyboard.press(keys[0])
    expect(frame.locator("ga-overview .cell.lead")).to_be_focused()
    page.keyboard.press(keys[1])
    expect(frame.locator("ga-overview")).to_be_hidden()
    expect(canvas(frame)).to_be_focused()
    page.keyboard.press(keys[2])
    wait_for_details(frame, PLANTED[kind])
    assert len(keys) <= MOST_KEYS
