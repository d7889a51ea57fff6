"""The panel at the bottom: tensors, errors, stack."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.viewer import (
    NPU,
    find_row,
    open_viewer,
    select_node,
    table_cells,
    wait_for_row,
)
from tests.conftest import BuildDatabase, StartTensorBoard

STATISTICS = ("max", "min", "mean", "norm")


def tensor(database: Path, side: str, node: str, name: str) -> dict[str, Any]:
    """One row of the database's own view for people."""
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        [row] = connection.execute(
            "SELECT * FROM tensor_view WHERE side = ? AND node = ? AND name = ?", (side, node, name)
        )
        return dict(row)


def test_shows_the_tensors_of_both_sides_and_their_error(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    node = "Tensor.pow.4.forward"
    select_node(frame, node)

    cells = table_cells(frame, "output.0")
    npu = tensor(demo_database, "npu", node, "output.0")
    bench = tensor(demo_database, "bench", node, "output.0")
    for statistic in STATISTICS:
        label = statistic.capitalize()
        # The tooltip has every digit, the cell at most five.
        assert float(cells[f"Debug {label}"]["title"]) == npu[statistic]
        assert float(cells[f"Reference {label}"]["title"]) == bench[statistic]
        assert float(cells[f"Debug {label}"]["text"]) == pytest.approx(npu[statistic], rel=1e-3)
        assert (
            float(cells[f"Difference {label} diff"]["title"]) == npu[statistic] - bench[statistic]
        )
    assert cells["Dtype"]["text"] == npu["dtype"]
    assert cells["Shape"]["text"] == npu["shape"]
    relative = abs(npu["min"] - bench["min"]) / abs(bench["min"])
    worst = cells["Error Min rel."]
    assert float(worst["title"].split(" %")[0]) == pytest.approx(100 * relative, rel=1e-9)
    assert worst["title"].endswith("(Severe)")
    assert worst["grade"] == "5"


def test_arguments_that_are_no_tensors_show_their_value(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, "Tensor.pow.4.forward")

    cells = table_cells(frame, "input.1")
    assert cells["Debug Max"]["text"] == cells["Reference Max"]["text"] == "2"
    assert cells["Dtype"]["text"] == "int"


def test_values_that_are_no_numbers_are_shown_as_what_they_are(
    page: Page, nan_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(nan_database.parent))
    with sqlite3.connect(nan_database) as connection:
        [(nan_node,)] = connection.execute(
            "SELECT node.name FROM tensor JOIN node_view node ON node.node_id = tensor.node_id"
            " JOIN text ON text.text_id = tensor.name_id"
            " WHERE node.side = 'npu' AND tensor.nan_flags & 1 AND text.value = 'output.0'"
            " ORDER BY seq LIMIT 1"
        )
        [(infinite_node,)] = connection.execute(
            "SELECT node FROM tensor_view"
            " WHERE side = 'npu' AND mean = -9e999 AND name = 'output.0' LIMIT 1"
        )

    select_node(frame, nan_node)
    cell = table_cells(frame, "output.0")["Debug Max"]
    assert cell["text"] == "NaN"
    assert "notfinite" in cell["tone"]
    assert wait_for_row(frame, nan_node)["grade"] == 5
    expect(frame.locator("ga-node-summary .grade")).to_contain_text("Severe")

    select_node(frame, infinite_node)
    cell = table_cells(frame, "output.0")["Debug Mean"]
    assert cell["text"] == "-Infinity"
    assert "notfinite" not in cell["tone"]  # of a mask: the reference has the same


def test_the_stack_shows_the_calling_line_and_own_frames(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, "Functional.softmax.0.forward")
    frame.get_by_role("tab", name="Stack").click()

    debug, reference = frame.locator("ga-stack").all()
    for stack in (debug, reference):
        expect(stack.locator("li:not(.folded)")).to_have_count(2)
        expect(stack.locator("li.site")).to_contain_text("modeling_llama.py")
        expect(stack.locator("li:not(.folded)").last).to_contain_text("dump_model.py")
    debug.locator("li.folded", has_text="torch").first.get_by_role("button").click()
    expect(debug.locator("li.library")).to_contain_text(
        ["modeling_llama.py", "site-packages/torch"]
    )
    debug.get_by_role("button", name="library frames").click()
    for stack in (debug, reference):
        assert stack.locator("li.library").count() > 5
        expect(stack.locator("li").first).to_contain_text("site-packages")


def test_the_line_that_calls_is_in_sight_and_leads_to_the_stack(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    """The wrong scale stands in the source, one line that no folding may hide."""
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, "Tensor.__mul__.19.forward")
    with sqlite3.connect(demo_database) as connection:
        frames = connection.execute(
            "SELECT file.value, line, source.value FROM node_view node"
            " JOIN node AS raw ON raw.node_id = node.node_id JOIN stack USING (stack_id)"
            " JOIN frame USING (frame_id) JOIN text file ON file.text_id = file_id"
            " JOIN text source ON source.text_id = source_id"
            " WHERE node.side = 'npu' AND node.name = 'Tensor.__mul__.19.forward' ORDER BY depth"
        ).fetchall()
    [path, line, source] = next(
        row for row in frames if "/torch/" not in row[0] and "msprobe" not in row[0]
    )

    site = frame.locator("ga-call-site button")
    expect(site).to_contain_text(f"{Path(path).name}:{line}")
    expect(site).to_contain_text(source.strip())
    site.click()
    expect(frame.locator("ga-stack .site").first).to_contain_text(f"{path}:{line}")


def test_the_full_name_can_be_copied(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    name = "Functional.softmax.0.forward"
    select_node(frame, name)

    frame.get_by_role("button", name="Copy the full name").click()
    expect(frame.locator("ga-node-summary ga-copy")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == name


def test_the_whole_stack_can_be_copied(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    name = "Functional.softmax.0.forward"
    select_node(frame, name)
    frame.get_by_role("tab", name="Stack").click()
    frame.locator("ga-stack ga-copy button").first.click()
    expect(frame.locator("ga-stack ga-copy").first).to_contain_text("Copied")
    with sqlite3.connect(demo_database) as connection:
        frames = connection.execute(
            "SELECT file.value, line, function.value FROM node_view JOIN node USING (node_id)"
            " JOIN stack USING (stack_id) JOIN frame USING (frame_id)"
            " JOIN text AS file ON file.text_id = file_id"
            " JOIN text AS function ON function.text_id = function_id"
            " WHERE side = 'npu' AND node_view.name = ? ORDER BY depth",
            (name,),
        ).fetchall()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert [line for line in copied.splitlines() if line.startswith("File ")] == [
        f'File "{file}", line {line}, in {function}' for file, line, function in frames
    ]


def test_the_panel_can_be_resized_and_closed(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    details = frame.locator("ga-details")

    def height() -> float:
        box = details.bounding_box()
        assert box is not None
        return box["height"]

    before = height()
    frame.get_by_role("separator", name="Size of the details").press("ArrowUp")
    assert height() == before + 24
    frame.get_by_role("button", name="Hide the details").click()
    assert height() < 60
    frame.get_by_role("button", name="Show the details").click()
    assert height() == before + 24


def test_a_single_model_shows_one_side(
    page: Page, dumps: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    database = build_database(dumps / "llama_statistics" / "step0" / "rank")
    frame = open_viewer(page, tensorboard_server(database.parent))

    expect(frame.locator("ga-hierarchy .side:visible")).to_have_count(1)
    expect(frame.locator("ga-view-tools #sync")).to_be_hidden()
    select_node(frame, "Functional.softmax.0.forward")
    assert find_row(frame, "Functional.softmax.0.forward", NPU)["selected"]
    assert not [key for key in table_cells(frame, "output.0") if key.startswith("Reference")]


def test_only_the_error_of_real_data_is_graded(
    page: Page, dumps: Path, build_database: BuildDatabase, tensorboard_server: StartTensorBoard
) -> None:
    database = build_database(
        dumps / "llama_md5_wrong_attention_scale" / "step0" / "rank",
        dumps / "llama_md5" / "step0" / "rank",
    )
    frame = open_viewer(page, tensorboard_server(database.parent))
    with sqlite3.connect(database) as connection:
        [(node, name)] = connection.execute(
            "SELECT node, tensor_view.name FROM tensor_view JOIN node_view USING (node_id)"
            " WHERE node_view.side = 'npu' AND md5_equal = 0"
            " AND tensor_view.name = 'output.0' ORDER BY seq LIMIT 1"
        )
    select_node(frame, node)
    grades = {key: cell["grade"] for key, cell in table_cells(frame, name).items()}
    assert grades.pop("Error Contribution") == "5"
    assert set(grades.values()) == {""}
