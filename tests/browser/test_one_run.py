"""A run alone shows what does not hold in it, or nothing where nothing was checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from playwright.sync_api import Page, expect

from tests.browser.viewer import open_page, wait_for_details
from tests.builder.invariants.sketched_ranks import verdict_of
from tests.builder.invariants.test_transfers_and_replicas import alike, models
from tests.conftest import BuildDatabase, StartTensorBoard

OVERVIEW = "#graph_ascend&p.graph_ascend.page=overview"


def test_a_drifted_replica_is_one_click_away(
    page: Page, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    weights = alike()
    weights[2]["norm.weight"] = weights[2]["norm.weight"] * np.float32(1.01)
    verdict_of(tmp_path, models(weights))
    frame = open_page(page, tensorboard_server(tmp_path / "out"), OVERVIEW)
    verdict = frame.locator("ga-verdict")
    expect(verdict).to_contain_text("Fault found")
    expect(verdict).to_contain_text("Module.norm.weight is another one than ranks 0, 1 and 3 hold")
    frame.get_by_role("button", name="Show it in the graph").click()
    wait_for_details(frame, "Module.norm.Layer.forward.0")
    expect(frame.locator("ga-verdict-line .sentence")).to_contain_text("Module.norm")
    assert frame.evaluate("document.querySelector('ga-app').state.view.rank") == 2


def test_a_run_in_which_nothing_was_checked_shows_no_verdict(
    page: Page, dumps: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    server = tensorboard_server(build_database(dumps / "llama_statistics").parent)
    frame = open_page(page, server, OVERVIEW)
    expect(frame.locator("ga-overview ga-file-facts")).to_be_visible()
    expect(frame.locator("ga-verdict")).to_be_hidden()
