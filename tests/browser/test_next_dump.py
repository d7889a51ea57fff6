"""What the overview says of a verdict besides its sentence: what to record next, and its age."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.viewer import open_page, open_viewer
from tests.conftest import BuildDatabase, StartTensorBoard

OVERVIEW = "#graph_ascend&p.graph_ascend.page=overview"


def test_the_overview_shows_what_to_record_next_to_be_copied(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    with closing(sqlite3.connect(demo_database)) as connection:
        [(proposal,)] = connection.execute("SELECT next_dump FROM verdict WHERE step IS NULL")
    stored = json.loads(proposal)
    frame = open_page(page, tensorboard_server(demo_database.parent), OVERVIEW)
    record = frame.locator("ga-verdict #record")
    expect(record.locator("summary")).to_contain_text(f"{stored['expected_bytes'] / 1000:.0f} kB")
    expect(record.locator("pre")).to_be_hidden()
    record.locator("summary").click()
    expect(record.locator("pre")).to_be_visible()
    assert json.loads(record.locator("pre").inner_text()) == stored["config"]
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    record.get_by_role("button", name="Copy the configuration").click()
    expect(record.get_by_role("status")).to_have_text("Copied")
    copied = frame.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied) == stored["config"]


def test_the_overview_lists_a_call_of_several_ranks_and_steps_once(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_page(page, tensorboard_server(ddp_database.parent), OVERVIEW)
    expect(frame.locator("ga-verdict ga-card #culprit")).to_have_text("Tensor.__mul__.19.forward")
    listed = frame.locator("ga-verdict ol li")
    expect(listed).to_have_count(1)
    expect(listed.nth(0)).to_contain_text("Tensor.__mul__.44.forward")


def test_a_run_in_another_precision_accuses_nobody_at_first_sight(
    page: Page,
    dumps: Path,
    build_database: BuildDatabase,
    tensorboard_server: StartTensorBoard,
) -> None:
    sides = (dumps / name for name in ("llama_statistics_bf16", "llama_statistics"))
    database = build_database(*sides)
    with closing(sqlite3.connect(database)) as connection:
        [(severe,)] = connection.execute(
            "SELECT count(*) FROM node_view WHERE grade = 'severe' AND step = 0"
        )
    assert severe > 0, "the documented error is large where rounding makes it"
    frame = open_page(page, tensorboard_server(database.parent), OVERVIEW)
    expect(frame.locator("ga-verdict ga-card #title")).to_have_text("Undecided")
    expect(frame.locator("ga-overview .cell[data-outcome='undecided']")).to_have_count(2)
    page.keyboard.press("o")
    legend = frame.locator("ga-legend")
    expect(legend.locator("[data-key='part-carrier'] .count:not(.short)")).to_have_text("0")
    page.keyboard.press("c")
    expect(legend.locator("[data-key='grade-5'] .count:not(.short)")).to_have_text(f"{severe:,}")


def test_a_match_that_is_ended_makes_the_verdict_older_until_it_is_undone(
    page: Page, demo_database: Path, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    database = Path(shutil.copy(demo_database, tmp_path / "demo.vis.db"))
    frame = open_viewer(page, tensorboard_server(database.parent))
    older = frame.locator("ga-verdict-line #older")
    expect(older).to_be_hidden()
    frame.locator("ga-details #match").click()
    frame.locator("ga-match #end").click()
    expect(older).to_contain_text("changed since")
    page.keyboard.press("o")
    expect(frame.locator("ga-verdict #older")).to_contain_text("changed since")
    page.keyboard.press("o")
    frame.locator("ga-match #undo").click()
    expect(older).to_be_hidden()
