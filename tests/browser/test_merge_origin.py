"""Merged models: which ranks a node came from, and how its values were made."""

from __future__ import annotations

import re
import sqlite3
from fnmatch import fnmatch
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Locator, Page, expect

from tests.browser.viewer import open_viewer, select_node, table_cells
from tests.conftest import StartTensorBoard
from tests.worded import worded


def merged_value(database: Path, recipe: str) -> tuple[str, str, str]:
    """Node, parameter and recipe of the first value of the npu side that was made in this way."""
    with sqlite3.connect(database) as connection:
        rows = connection.execute(
            "SELECT node_view.name, text.value, recipe FROM recipe_view"
            " JOIN node_view USING (node_id) JOIN tensor USING (node_id, ordinal)"
            " JOIN text ON text_id = name_id WHERE side = 'npu' ORDER BY node_id, ordinal"
        )
        node, parameter, made = next(row for row in worded(rows) if fnmatch(row[2], recipe))
        return node, parameter, made


def row_of(frame: Frame, parameter: str) -> Locator:
    rows = frame.locator("ga-tensor-table tbody tr")
    return rows.filter(has=frame.locator("th.name", has_text=re.compile(rf"^\s*{parameter}\s*$")))


def open_recipe(frame: Frame, parameter: str) -> Locator:
    """Unfold how a value was merged; the account of the debug side."""
    button = row_of(frame, parameter).get_by_role("button", name="How it was merged")
    expect(button).to_have_attribute("aria-expanded", "false")
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    account = frame.locator("ga-tensor-table tr.recipes section").first
    expect(account).to_be_visible()
    return account


def test_a_merged_node_names_its_ranks(
    page: Page, merged_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(merged_database.parent))
    with sqlite3.connect(merged_database) as connection:
        nodes = dict(
            connection.execute(
                "SELECT group_concat(origin.rank), name FROM node_view"
                " JOIN (SELECT * FROM origin ORDER BY node_id, rank) AS origin USING (node_id)"
                " WHERE side = 'npu' AND seq > 0 GROUP BY node_id ORDER BY node_id DESC"
            ).fetchall()
        )
    shown = {"0,1,2,3": "0–3", "0,1": "0, 1", "2,3": "2, 3"}
    assert shown.keys() <= nodes.keys()
    for ranks, text in shown.items():
        select_node(frame, nodes[ranks])
        expect(frame.locator("ga-node-summary")).to_contain_text(f"Merged from ranks {text}")


def test_shards_are_shown_with_the_numbers_of_each_rank(
    page: Page, merged_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(merged_database.parent))
    node, parameter, recipe = merged_value(merged_database, "shards*along dimension*")
    select_node(frame, node)
    account = open_recipe(frame, parameter)
    expect(account.locator("strong")).to_have_text("megatron_tp2pp2: Shards put together")
    [dimension] = re.findall(r"along dimension (\d+)", recipe)
    expect(account.locator("p").first).to_contain_text(f"cut along dimension {dimension}")
    table = account.locator("table")
    assert table.locator("thead th").all_text_contents() == [
        *("Statistic", "Rank 0", "Rank 1", "Merged", "Rule")
    ]
    rows = [row.locator("th, td").all_text_contents() for row in table.locator("tbody tr").all()]
    assert [row[0] for row in rows] == ["Max", "Min", "Mean", "Norm"]
    numbers = [[float(cell) for cell in row[1:4]] for row in rows]
    for _, *parts, merged in [(None, *row) for row in numbers]:
        assert all(f"{number:.9g}" in recipe for number in (*parts, merged))
    largest, smallest, _, norm = numbers
    assert largest[2] == max(largest[:2])
    assert smallest[2] == min(smallest[:2])
    assert norm[2] == pytest.approx((norm[0] ** 2 + norm[1] ** 2) ** 0.5)
    cells = table_cells(frame, parameter)
    assert float(cells["Debug Norm"]["title"]) == pytest.approx(norm[2], rel=1e-8)

    row_of(frame, parameter).get_by_role("button", name="How it was merged").click()
    expect(frame.locator("ga-tensor-table tr.recipes")).to_have_count(0)


def test_what_merging_could_not_tell_reads_unknown(
    page: Page, merged_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(merged_database.parent))
    node, parameter, _ = merged_value(merged_database, "*depends on the rank*unknown")
    select_node(frame, node)
    cell = table_cells(frame, parameter)["Debug Max"]
    assert (cell["text"], cell["title"]) == ("unknown", "Unknown after merging")
    account = open_recipe(frame, parameter)
    expect(account.locator("strong")).to_have_text("megatron_tp2pp2: Unknown: depends on the rank")
    expect(account).to_contain_text("left unknown, not invented")

    node, parameter, _ = merged_value(merged_database, "*along an unknown dimension*")
    select_node(frame, node)
    cells = table_cells(frame, parameter)
    assert cells["Shape"]["text"].startswith("unknown")
    assert "differs" not in cells["Shape"]["tone"]
    assert float(cells["Debug Max"]["text"]) != 0
    expect(open_recipe(frame, parameter)).to_contain_text("the shape of the whole is unknown")


def test_every_recipe_of_a_real_merge_is_understood(
    page: Page, merged_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(merged_database.parent))
    kinds = {
        "partial results*": "Partial results, reduced",
        "alike on ranks*from pipeline stage*": "Replica: alike on all ranks",
    }
    for recipe, kind in kinds.items():
        node, parameter, sentence = merged_value(merged_database, recipe)
        select_node(frame, node)
        account = open_recipe(frame, parameter)
        expect(account.locator("strong")).to_have_text(f"megatron_tp2pp2: {kind}")
        if stage := re.search(r"stage (\d+) \(rank ([\d, ]+)\)", sentence):
            expect(account).to_contain_text(
                f"Taken from pipeline stage {stage[1]}, that is from ranks {stage[2]}."
            )
    frame.get_by_role("button", name="How values were merged").click()
    accounts = frame.locator("ga-tensor-table tr.recipes")
    assert accounts.count() == frame.locator("ga-tensor-table .recipe-toggle").count() > 1


def test_the_reference_on_one_rank_needs_no_account(
    page: Page, merged_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(merged_database.parent))
    node, parameter, _ = merged_value(merged_database, "shards*along dimension*")
    select_node(frame, node)
    open_recipe(frame, parameter)
    expect(frame.locator("ga-tensor-table tr.recipes section")).to_have_count(1)
