"""Whom a communication call exchanges data with, and the way there and back."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Frame, Locator, Page, expect

from tests.browser.viewer import (
    SHOWS_GRAPHS,
    canvas,
    open_viewer,
    resting_scene,
    select_node,
    wait_for_details,
    wait_for_row,
)
from tests.conftest import BuildDatabase, StartTensorBoard

GRAPH = "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank="
ROLES = ("sends to", "receives from", "exchanges with")
DATA = {None: "cannot be told", 0: "≠ differs", 1: "✓ equal"}


@pytest.fixture(scope="session")
def pipeline_database(dumps: Path, build_database: BuildDatabase) -> Path:
    """One step of four ranks that send activations on and gradients back."""
    return build_database(dumps / "sendrecv4_statistics" / "step0")


def partners(database: Path, side: str, rank: int, name: str) -> list[dict[str, Any]]:
    """What the database knows of the partners of a call in step 0."""
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute(
            "SELECT role, data_equal, other.rank, other.step, other.name, other.grade"
            " FROM communication JOIN node_view AS own USING (node_id)"
            " JOIN node_view AS other ON other.node_id = partner_id"
            " WHERE own.side = ? AND own.step = 0 AND own.rank = ? AND own.name = ?"
            " ORDER BY other.rank, partner_id",
            (side, rank, name),
        )
        return [dict(row) for row in rows]


def shown(frame: Frame) -> list[list[str]]:
    """The cells of the rows of the table, without the titles of the sides."""
    rows = frame.locator("ga-communication tbody tr:not(.side)").all()
    return [[cell.strip() for cell in row.locator("td").all_text_contents()] for row in rows]


def open_communication(frame: Frame) -> Locator:
    frame.get_by_role("tab", name="Communication").click()
    table = frame.locator("ga-communication table")
    expect(table).to_be_visible()
    return table


def wait_for_rank(frame: Frame, rank: int) -> None:
    frame.wait_for_function(
        f"(rank) => {SHOWS_GRAPHS} && document.querySelector('ga-app').state.view.rank === rank",
        arg=rank,
    )


def test_a_collective_lists_all_other_ranks_of_both_sides(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), f"{GRAPH}1")
    name = "Distributed.all_reduce.0.forward"
    select_node(frame, name)
    expect(frame.get_by_role("tab", name="Communication")).to_have_text("Communication (3)")
    open_communication(frame)
    expected = [
        (side, peer) for side in ("npu", "bench") for peer in partners(ddp_database, side, 1, name)
    ]
    assert [peer["rank"] for _, peer in expected] == [0, 2, 3, 0, 2, 3]
    for (side, peer), cells in zip(expected, shown(frame), strict=True):
        grade = peer["grade"].upper() if side == "npu" else "–"
        assert cells[:4] == [ROLES[peer["role"]], str(peer["rank"]), str(peer["step"]), name]
        assert cells[4].startswith(grade)
        assert cells[5:] == [DATA[peer["data_equal"]], "same call of all_reduce in the same group"]
    titles = frame.locator("ga-communication tr.side").all_text_contents()
    assert [title.split(" · ")[0] for title in titles] == [
        "ddp4_statistics_wrong_attention_scale",
        "ddp4_statistics",
    ]


def test_a_peer_is_one_click_away_and_back_leads_home(
    page: Page, pipeline_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(pipeline_database.parent), f"{GRAPH}0")
    name = "Distributed.send.0.forward"
    select_node(frame, name)
    [peer] = partners(pipeline_database, "npu", 0, name)
    open_communication(frame)
    [cells] = shown(frame)
    assert cells[:4] == ["sends to", str(peer["rank"]), "0", peer["name"]]
    assert cells[6] == "same sender, receiver, group and tag; messages counted in order"
    back = frame.locator("ga-back button")
    expect(back).to_be_hidden()

    canvas(frame).focus()
    page.keyboard.press("+")
    before = resting_scene(frame)
    frame.locator("ga-communication").get_by_role("button", name=peer["name"]).click()
    wait_for_rank(frame, peer["rank"])
    wait_for_details(frame, peer["name"])
    assert wait_for_row(frame, peer["name"])["selected"]
    assert f"graph_ascend.rank={peer['rank']}" in page.url
    expect(frame.get_by_role("tab", name="Communication")).to_have_attribute(
        "aria-selected", "true"
    )
    assert shown(frame)[0][:2] == ["receives from", "0"]

    expect(back).to_have_text("Back · step 0 · rank 0")
    back.click()
    wait_for_rank(frame, 0)
    wait_for_details(frame, name)
    expect(back).to_be_hidden()
    frame.wait_for_function("document.querySelector('ga-app').scene.some((row) => row.selected)")
    keys = ("name", "x", "y", "width", "height", "selected")
    assert [[row[key] for key in keys] for row in resting_scene(frame)] == [
        [row[key] for key in keys] for row in before
    ]


def test_several_jumps_lead_back_one_by_one(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), f"{GRAPH}0")
    select_node(frame, "Distributed.broadcast.0.forward")
    open_communication(frame)
    first = frame.locator("ga-communication tbody").first
    for rank in (2, 0, 3):
        role = "receives from" if rank == 0 else "sends to"
        if rank == 0:
            assert shown(frame)[0][:2] == [role, "0"]
        first.locator(f"tr:has(td:nth-child(2):text-is('{rank}')) button").click()
        wait_for_rank(frame, rank)
        wait_for_details(frame, "Distributed.broadcast.0.forward")
    back = frame.locator("ga-back button")
    for rank in (0, 2, 0):
        expect(back).to_have_text(f"Back · step 0 · rank {rank}")
        back.press("Enter")
        wait_for_rank(frame, rank)
    expect(back).to_be_hidden()


def test_a_call_without_counterpart_says_so_and_other_nodes_have_no_such_tab(
    page: Page, dumps: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    alone = build_database(dumps / "sendrecv4_statistics" / "step0" / "rank1")
    frame = open_viewer(page, tensorboard_server(alone.parent))
    select_node(frame, "Distributed.recv.0.forward")
    frame.get_by_role("tab", name="Communication").click()
    expect(frame.locator("ga-communication p")).to_have_text(
        "This file holds one rank of the step, so this recv has no calls to be linked with."
    )
    with sqlite3.connect(alone) as connection:
        [(other,)] = connection.execute(
            "SELECT name FROM node_view WHERE kind = 'api' AND name NOT LIKE 'Distributed%' LIMIT 1"
        )
    select_node(frame, other)
    expect(frame.get_by_role("tab", name="Communication")).to_have_count(0)
    expect(frame.locator("ga-tensor-table table")).to_be_visible()
