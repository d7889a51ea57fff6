"""The table of tensors: order, columns, digits; and what is taken out of the viewer as text."""

from __future__ import annotations

import csv
import io
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import open_viewer, plugin_frame, select_node, table_cells
from tests.conftest import StartTensorBoard

GRAPH = "#graph_ascend&p.graph_ascend.step=0&p.graph_ascend.rank=0"


def busiest_node(database: Path) -> str:
    """The node of the npu side that has the most tensors that were compared."""
    with sqlite3.connect(database) as connection:
        name: str
        [(name,)] = connection.execute(
            "SELECT name FROM comparison JOIN node_view ON node_id = npu_node"
            " GROUP BY npu_node ORDER BY count(*) DESC, npu_node LIMIT 1"
        )
        return name


def names(frame: Frame) -> list[str]:
    cells = frame.locator("ga-tensor-table tbody tr:not(.section) th.name").all_text_contents()
    return [cell.strip() for cell in cells]


def sort_button(key: str) -> str:
    return f"ga-tensor-table [data-sort='{key}']"


def sort_state(frame: Frame, key: str) -> str | None:
    return frame.locator(f"ga-tensor-table th:has([data-sort='{key}'])").get_attribute("aria-sort")


def test_a_node_fills_the_table_once(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, busiest_node(demo_database))
    first = names(frame)
    frame.evaluate(
        """() => {
          const details = document.querySelector('ga-app').shadowRoot.querySelector('ga-details');
          const table = details.shadowRoot.querySelector('ga-tensor-table');
          window.filled = 0;
          const watch = new MutationObserver((changes) => (window.filled += changes.length));
          watch.observe(table.shadowRoot.querySelector('#content'), { childList: true });
        }"""
    )
    select_node(frame, "DefaultModel")
    select_node(frame, busiest_node(demo_database))
    assert names(frame) == first
    assert frame.evaluate("window.filled") == 2


def test_headers_sort_and_lead_back_to_the_order_of_execution(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    node = busiest_node(demo_database)
    select_node(frame, node)
    executed = names(frame)
    with sqlite3.connect(demo_database) as connection:
        norms = dict(
            connection.execute(
                "SELECT name, norm FROM tensor_view WHERE side = 'npu' AND node = ?", (node,)
            ).fetchall()
        )
    known = [name for name in executed if norms.get(name) is not None]
    assert len(known) > 3
    order = frame.locator("ga-table-tools #order")
    expect(order).to_be_hidden()

    button = frame.locator(sort_button("npu_norm"))
    button.focus()
    page.keyboard.press("Enter")
    assert sort_state(frame, "npu_norm") == "descending"
    assert [norms[name] for name in names(frame)[: len(known)]] == sorted(
        (norms[name] for name in known), reverse=True
    )
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    assert sort_state(frame, "npu_norm") == "ascending"
    assert [norms[name] for name in names(frame)[: len(known)]] == sorted(
        norms[name] for name in known
    )
    assert set(names(frame)) == set(executed)
    page.keyboard.press("Enter")
    assert sort_state(frame, "npu_norm") is None
    assert names(frame) == executed

    frame.click(sort_button("name"))
    order.click()
    assert names(frame) == executed
    frame.click(sort_button("name"))
    select_node(frame, "Tensor.pow.4.forward")
    expect(order).to_be_hidden()


def test_headers_say_what_they_mean(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    select_node(frame, "Tensor.pow.4.forward")
    own, other = "llama_statistics_wrong_attention_scale", "llama_statistics"
    titles = {
        "max_relative_err": f"|max({own}) − max({other})| ÷ |max({other})|, in percent",
        "norm_diff": f"norm({own}) − norm({other}), in the unit of the tensor",
        "npu_norm": "L2 norm: square root of the sum of squares",
    }
    for key, title in titles.items():
        shown = frame.locator(sort_button(key)).get_attribute("title")
        assert shown is not None
        assert shown.splitlines()[0] == title


@pytest.mark.slow
def test_columns_are_chosen_and_remembered(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    node = "Tensor.pow.4.forward"
    select_node(frame, node)
    assert "Debug Mean" in table_cells(frame, "output.0")
    columns = frame.locator("ga-table-tools #columns")
    columns.press("Enter")
    chooser = frame.get_by_role("dialog", name="Choose which columns are shown")
    expect(chooser).to_be_visible()
    for key in ("npu_mean", "bench_mean", "shape"):
        chooser.locator(f"[data-key='{key}']").press("Space")
    page.keyboard.press("Escape")
    expect(chooser).to_be_hidden()
    cells = table_cells(frame, "output.0")
    assert not {"Debug Mean", "Reference Mean", "Shape"} & set(cells)
    assert {"Debug Max", "Reference Norm", "Difference Mean diff", "Dtype"} <= set(cells)
    frame.click("ga-table-tools #exact")
    exact = table_cells(frame, "output.0")["Debug Max"]
    assert exact["text"] == exact["title"]

    page.reload()
    frame = plugin_frame(page)
    frame.locator("ga-tensor-table td").first.wait_for()
    assert table_cells(frame, "output.0") == {**cells, **table_cells(frame, "output.0")}
    assert "Debug Mean" not in table_cells(frame, "output.0")
    assert table_cells(frame, "output.0")["Debug Max"] == exact
    frame.click("ga-table-tools #columns")
    frame.get_by_role("button", name="Show all").click()
    assert "Debug Mean" in table_cells(frame, "output.0")


def test_parameters_of_one_side_are_counted_and_marked(
    page: Page, demo_database: Path, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    database = Path(shutil.copy(demo_database, tmp_path))
    node = "Functional.linear.3.forward"
    with closing(sqlite3.connect(database)) as connection, connection:
        [(npu, bench, ordinal)] = connection.execute(
            "SELECT match.npu_node, match.bench_node, bench_ordinal FROM match"
            " JOIN node_view ON node_id = match.npu_node JOIN comparison USING (npu_node)"
            " WHERE name = ? ORDER BY npu_ordinal LIMIT 1",
            (node,),
        )
        connection.execute(
            "DELETE FROM comparison WHERE npu_node = ? AND bench_ordinal = ?", (npu, ordinal)
        )
        connection.execute("DELETE FROM tensor WHERE node_id = ? AND ordinal = ?", (bench, ordinal))
    frame = open_viewer(page, tensorboard_server(tmp_path))
    select_node(frame, node)
    expect(frame.locator("ga-tensor-table .one-side")).to_have_text(
        "Only in llama_statistics_wrong_attention_scale"
    )
    expect(frame.locator("ga-table-tools")).to_contain_text("1 parameter on one side only")
    select_node(frame, "Functional.linear.4.forward")
    expect(frame.locator("ga-table-tools .attention")).to_be_hidden()


def test_the_table_is_copied_as_shown_with_all_digits(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    node = busiest_node(demo_database)
    select_node(frame, node)
    frame.click(sort_button("npu_max"))
    frame.click("ga-table-tools #columns")
    frame.locator("ga-table-tools [data-key='dtype']").uncheck()
    page.keyboard.press("Escape")
    frame.locator("ga-table-tools ga-copy button").click()
    expect(frame.locator("ga-table-tools ga-copy")).to_contain_text("Copied")
    text = page.evaluate("navigator.clipboard.readText()")
    rows = list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))
    assert [row["parameter"] for row in rows] == names(frame)
    assert "dtype" not in rows[0]
    with sqlite3.connect(demo_database) as connection:
        tensors = connection.execute(
            "SELECT name, shape, max, max_relative_err FROM tensor_view"
            " WHERE side = 'npu' AND node = ?",
            (node,),
        ).fetchall()
    assert tensors
    by_name = {row["parameter"]: row for row in rows}
    for name, shape, largest, error in tensors:
        row = by_name[name]
        assert row["shape"] == shape
        for key, value in (("npu_max", largest), ("max_relative_err", error)):
            assert row[key] == "" if value is None else float(row[key]) == value


def test_all_columns_are_downloaded_as_csv(
    page: Page, demo_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(demo_database.parent))
    node = busiest_node(demo_database)
    select_node(frame, node)
    with page.expect_download() as download:
        frame.click("ga-table-tools #csv")
    assert download.value.suggested_filename == f"{node}_step0_rank0.csv"
    content = download.value.path().read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(content, newline="")))
    assert [row["npu_name"] or row["bench_name"] for row in rows] == [
        name.split(" / ")[0] for name in names(frame)
    ]
    with sqlite3.connect(demo_database) as connection:
        connection.row_factory = sqlite3.Row
        tensors = connection.execute(
            "SELECT * FROM tensor_view WHERE side = 'npu' AND node = ?", (node,)
        ).fetchall()
    by_name = {row["npu_name"]: row for row in rows}
    for tensor in tensors:
        row = by_name[tensor["name"]]
        assert (row["npu_node"], row["section"]) == (node, tensor["direction"])
        assert row["npu_dtype"] == tensor["dtype"]
        for key in ("max", "min", "mean", "norm"):
            assert row[f"npu_{key}"] == "" or float(row[f"npu_{key}"]) == tensor[key]
        assert (row["error"] == "") == (tensor["error"] is None)
        assert row["error"] == "" or float(row["error"]) == tensor["error"]


def test_results_are_downloaded_also_those_that_are_not_listed(
    page: Page, ddp_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    frame = open_viewer(page, tensorboard_server(ddp_database.parent), GRAPH)
    frame.click("ga-search #list")
    frame.fill("ga-search input", "forward")

    def downloaded() -> list[dict[str, str]]:
        with page.expect_download() as download:
            frame.get_by_role("button", name="Download the results as CSV").click()
        content = download.value.path().read_text(encoding="utf-8")
        return list(csv.DictReader(io.StringIO(content, newline="")))

    def expected(condition: str) -> list[dict[str, str]]:
        with sqlite3.connect(ddp_database) as connection:
            connection.row_factory = sqlite3.Row
            rows = connection.execute(
                "SELECT step, rank, side, seq, name, grade, error, overflow,"
                " unmatched_reason AS reason FROM node_view"
                f" WHERE name LIKE '%forward%' AND side = 'npu' {condition}"
                " ORDER BY step, rank, seq"
            ).fetchall()
            return [{key: row[key] for key in row.keys()} for row in rows]  # noqa: SIM118

    def assert_equal(rows: list[dict[str, str]], wanted: list[dict[str, str]]) -> None:
        assert len(rows) == len(wanted)
        for row, other in zip(rows, wanted, strict=True):
            for key in ("step", "rank", "side", "seq", "name", "grade", "overflow", "reason"):
                assert row[key] == str("" if other[key] is None else other[key])
            if other["error"] is None:
                assert row["error"] == ""
            else:
                # The skeleton of the graph has single precision.
                assert abs(float(row["error"]) - float(other["error"])) <= 1e-6

    expect(frame.locator("ga-hit-list .hit").first).to_be_visible()
    assert_equal(downloaded(), expected("AND step = 0 AND rank = 0"))
    frame.select_option("ga-find #scope", "file")
    everything = expected("")
    assert len(everything) > 1000
    expect(frame.locator("ga-find .summary [role='status']").first).to_contain_text("first 1,000")
    assert_equal(downloaded(), everything)
