"""Workbooks, CSV and Parquet as other libraries read them; many ranks; Python; mistakes."""

from __future__ import annotations

import csv
import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pandas as pd
import pytest

import msprobe_builder
from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.main import main
from msprobe_builder.dump.task import Task
from msprobe_builder.tables import write
from msprobe_builder.tables.columns import OWN, columns_of
from msprobe_builder.tables.export import TableOptions, export_tables
from msprobe_builder.tables.rows import Row
from msprobe_builder.tables.verdicts import documented_accuracy
from tests.builder.small_dumps import forward, number, tensor, write_dump
from tests.conftest import BuildDatabase

Cells = list[list[str]]
_SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def sheets(path: Path) -> list[Cells]:
    """Cells of each sheet of a workbook, read from its XML: numbers as written, text as text."""
    with zipfile.ZipFile(path) as archive:
        names = sorted(
            name for name in archive.namelist() if name.startswith("xl/worksheets/sheet")
        )
        result = []
        for name in sorted(names, key=lambda one: (len(one), one)):
            root = ElementTree.fromstring(archive.read(name))  # noqa: S314 - our own
            assert not list(root.iter(f"{_SHEET}f")), "a formula"
            rows = []
            for row in root.iter(f"{_SHEET}row"):
                cells: list[str] = []
                for cell in row.iter(f"{_SHEET}c"):
                    letters = "".join(filter(str.isalpha, cell.attrib["r"]))
                    place = 0
                    for letter in letters:
                        place = 26 * place + ord(letter) - 64
                    cells += [""] * (place - 1 - len(cells))
                    is_text = cell.attrib.get("t") == "inlineStr"
                    text = "".join(one.text or "" for one in cell.iter(f"{_SHEET}t"))
                    value = cell.find(f"{_SHEET}v")
                    cells.append(
                        text if is_text else (value.text or "") if value is not None else ""
                    )
                rows.append(cells)
            result.append(rows)
    return result


def same(cell: str, exact: str) -> bool:
    """A workbook's numbers have 16 digits."""
    return cell == exact or abs(float(cell) - float(exact)) <= 1e-15 * abs(float(exact))


def rows_of_csv(path: Path) -> Cells:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.reader(stream))


@pytest.fixture(scope="module")
def run(dumps: Path) -> tuple[Path, Path]:
    folder = dumps / "llama_statistics_L0"
    return folder / "step0" / "rank", folder / "step1" / "rank"


@pytest.fixture(scope="module")
def database(run: tuple[Path, Path], build_database: BuildDatabase) -> Path:
    return build_database(*run)


@pytest.fixture(scope="module")
def tables(database: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tables")
    for form in ("xlsx", "csv", "parquet"):
        options = ["--format", form, "-s", "--own", "-hl", "--quiet"]
        assert main(["table", str(database), "-o", str(folder / form), *options]) == 0
    return {
        form: next((folder / form).glob(f"compare_result_*.{form}"))
        for form in ("xlsx", "csv", "parquet")
    }


def test_all_formats_hold_the_same(tables: dict[str, Path]) -> None:
    [sheet] = sheets(tables["xlsx"])
    table = rows_of_csv(tables["csv"])
    frame = pd.read_parquet(tables["parquet"])
    names = columns_of(Task.STATISTICS, stack=True, own=True).names
    assert tuple(sheet[0]) == tuple(table[0]) == tuple(frame.columns) == names
    assert len(sheet) == len(table) == len(frame) + 1 > 300
    for one, other in zip(sheet[1:], table[1:], strict=True):
        padded = one + [""] * (len(other) - len(one))
        for left, right in zip(padded, other, strict=True):
            assert same(left, right)
    place = names.index("NPU max")
    numbers = [write.number_of(row[place]) for row in table[1:]]
    assert frame["NPU max"].dropna().tolist() == [one for one in numbers if one is not None]
    assert len(frame["NPU max"].dropna()) > 200
    assert frame["MaxRelativeErr"].dtype == "float64"


def test_a_workbook_can_be_read_as_it_opens(tables: dict[str, Path]) -> None:
    [sheet] = openpyxl.load_workbook(tables["xlsx"]).worksheets
    assert sheet.freeze_panes == "B2"
    assert sheet.auto_filter.ref == sheet.dimensions
    widths = {
        place: one.width
        for one in sheet.column_dimensions.values()
        for place in range(one.min, one.max + 1)  # columns of one width stand together
    }
    for place, column in enumerate(sheet.columns, start=1):
        title = str(column[0].value)
        assert widths[place] > len(title)
        if title in ("NPU max", "Max diff"):  # nearly all digits of a float64
            assert widths[place] >= max(len(str(cell.value)) for cell in column[1:200]) - 4
    assert widths[1] >= 60


def test_both_sides_are_complete(tables: dict[str, Path], database: Path) -> None:
    table = rows_of_csv(tables["csv"])[1:]
    with closing(sqlite3.connect(database)) as connection:
        for column, side in enumerate(("npu", "bench")):
            stored = {
                f"{node}.{name}".replace(".parameters_grad.parameters_grad.", ".parameters_grad.")
                for node, name in connection.execute(
                    "SELECT node, name FROM tensor_view WHERE side = ?", (side,)
                )
            }
            assert stored <= {row[column] for row in table}


def test_advice_names_the_line_of_the_sheet(tables: dict[str, Path]) -> None:
    [path] = tables["xlsx"].parent.glob("advisor_*.txt")
    line, suspect, advice, *_ = path.read_text(encoding="utf-8").splitlines()
    [sheet] = sheets(tables["xlsx"])
    verdict = sheet[0].index("Result")
    bad = [
        number for number, row in enumerate(sheet, 1) if row[verdict : verdict + 1] == ["Warning"]
    ]
    assert line == f"Line: {bad[0]}"
    assert suspect == f"Suspect Nodes: {sheet[bad[0] - 1][0]}"
    assert advice.startswith("Expert Advice: ")
    said = json.loads(next(path.parent.glob("advisor_*.json")).read_text(encoding="utf-8"))
    assert (said["line"], said["suspect"]) == (bad[0], sheet[bad[0] - 1][0])
    assert said["verdict"]


def test_nothing_of_a_dump_becomes_a_formula(tmp_path: Path) -> None:
    names = ['=HYPERLINK("http://x").0.forward', "@SUM(1).0.forward", "+1.0.forward"]
    for side in ("npu", "bench"):
        write_dump(tmp_path / side, {name: forward([], [tensor(1.0)]) for name in names})
    compare = tmp_path / "compare.json"
    compare.write_text(
        json.dumps({f"{side}_path": str(tmp_path / side) for side in ("npu", "bench")})
    )
    for form in ("xlsx", "csv"):
        options = ["-i", str(compare), "-o", str(tmp_path / form), "--format", form, "-c"]
        assert main(["table", *options]) == 0
    [workbook] = (tmp_path / "xlsx").iterdir()
    [sheet] = sheets(workbook)  # which looks for formulas
    assert {row[0].removesuffix(".output.0") for row in sheet[1:]} == set(names)
    [table] = (tmp_path / "csv").iterdir()
    assert {row[0].removesuffix(".output.0") for row in rows_of_csv(table)[1:]} == {
        f"'{name}" for name in names
    }


@pytest.mark.parametrize("form", ["xlsx", "csv"])
def test_an_argument_that_no_float_holds_has_all_its_digits(tmp_path: Path, form: str) -> None:
    large = 10**400
    for side in ("npu", "bench"):
        write_dump(tmp_path / side, {"Torch.add.0.forward": forward([number(large)], [tensor()])})
    compare = tmp_path / "compare.json"
    compare.write_text(
        json.dumps({f"{side}_path": str(tmp_path / side) for side in ("npu", "bench")})
    )
    assert main(["table", "-i", str(compare), "-o", str(tmp_path / "t"), "--format", form]) == 0
    [table] = (tmp_path / "t").glob(f"*.{form}")
    [head, row] = (rows_of_csv(table) if form == "csv" else sheets(table)[0])[:2]
    assert row[head.index("NPU max")] == str(large)


def test_many_rows_go_on_in_further_sheets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ROWS_OF_A_SHEET", 10)
    columns = columns_of(Task.MD5)
    path = tmp_path / "many.xlsx"
    with write.table_file(path, columns) as put:
        for number in range(25):
            put(Row([number, *("x" for _ in columns.names[1:])], 0, is_bad=False))
    parts = sheets(path)
    assert [len(part) for part in parts] == [11, 11, 6]
    assert all(part[0] == list(columns.names) for part in parts)
    assert [row[0] for part in parts for row in part[1:]] == [str(number) for number in range(25)]


def test_nothing_is_left_of_a_table_that_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with write.table_file(tmp_path / "a.csv", columns_of(Task.MD5)):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_each_rank_has_a_table_and_all_have_one_together(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    database = build_database(
        dumps / "ddp2_statistics" / "step0", dumps / "ddp2_statistics" / "step1"
    )
    out = ["-o", str(tmp_path), "--quiet"]
    assert main(["table", str(database), *out, "--format", "csv"]) == 0
    of_rank = {}
    for rank in (0, 1):
        [path] = tmp_path.glob(f"compare_result_rank{rank}_*.csv")
        of_rank[rank] = {row[0]: row for row in rows_of_csv(path)[1:]}
        head = rows_of_csv(path)[0]
    indexes = ["--index", "Max diff", "--index", "NPU max", "--call", "Functional.linear.0."]
    assert main(["table", str(database), *out, "--ranks", *indexes]) == 0
    [workbook] = tmp_path.glob("multi_ranks_compare_merge_*.xlsx")
    for index, sheet in zip(("Max diff", "NPU max"), sheets(workbook), strict=True):
        assert sheet[0] == ["NPU Name", "rank0", "rank1"]
        assert len(sheet) > 3
        for name, *cells in sheet[1:]:
            assert name.startswith("Functional.linear.0.")
            for rank, cell in enumerate(cells):
                stored = of_rank[rank][name][head.index(index)]
                assert same(cell, stored)
    [path] = tmp_path.glob("ranks_*.json")
    said = json.loads(path.read_text(encoding="utf-8"))
    verdict = head.index("Result")
    firsts = {
        rank: next(
            (order, name)
            for order, (name, row) in enumerate(rows.items())
            if row[verdict] == "Warning"
        )
        for rank, rows in of_rank.items()
    }
    _, rank = min((order, rank) for rank, (order, _) in firsts.items())
    first = said["first_difference"]
    assert (first["rank"], first["name"]) == (rank, firsts[rank][1])
    assert first["name"] in said["sentences"][0]
    assert said["first_not_finite"] is None


def test_python_gets_the_same_table(
    run: tuple[Path, Path], database: Path, tables: dict[str, Path], tmp_path: Path
) -> None:
    frame = msprobe_builder.read_table(database, stack=True, own_columns=True)
    assert list(frame.columns[:2]) == ["step", "rank"]
    written = pd.read_parquet(tables["parquet"]).drop(columns="Err_message")  # which has marks
    pd.testing.assert_frame_equal(frame[written.columns], written, check_dtype=False)
    params = {
        "npu_json_path": str(run[0] / "dump.json"),
        "bench_json_path": str(run[1] / "dump.json"),
        "is_print_compare_log": False,
    }
    compared = msprobe_builder.compare(params, tmp_path, suffix="_mine")
    assert len(compared) == len(frame)
    assert list(tmp_path.glob("compare_result_mine_*.xlsx"))
    assert list(tmp_path.glob("advisor_mine_*.txt"))
    assert compared["Max diff"].equals(frame["Max diff"])


def test_ranks_of_two_directories_are_compared_in_python(dumps: Path, tmp_path: Path) -> None:
    run = dumps / "ddp2_statistics"
    frame = msprobe_builder.compare_distributed(
        run / "step0", run / "step1", tmp_path, auto_analyze=False
    )
    assert set(frame["rank"]) == {0, 1}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_data_mapping_pairs_what_is_called_otherwise(tmp_path: Path) -> None:
    for side, operator in (("npu", "fused_norm"), ("bench", "layer_norm")):
        calls = {f"Torch.{operator}.0.forward": forward([tensor(1.0)], [tensor(2.0)])}
        write_dump(tmp_path / side, calls)
    params = {f"{side}_json_path": str(tmp_path / side) for side in ("npu", "bench")}
    alone = msprobe_builder.compare(params, tmp_path / "a")
    assert set(alone["Result"]) == {"N/A"}
    item = "Torch.fused_norm.0.forward.output.0"
    mapping = {item: "Torch.layer_norm.0.forward.output.0"}
    mapped = msprobe_builder.compare(params, tmp_path / "b", data_mapping=mapping)
    assert mapped.set_index("NPU Name")["Bench Name"][item] == mapping[item]
    assert mapped["Max diff"].tolist() == [0.0, 0.0]
    with pytest.raises(UsageError, match="must map names to names"):
        msprobe_builder.compare(params, tmp_path / "c", data_mapping={item: 3})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("cosine", "max_abs_err", "expected"),
    [
        ("shape unmatched", "shape unmatched", "Unmatched"),
        ("N/A", 0.0, "No"),
        ("unsupported", 5.0, "None"),
        (0.98, 0.002, "No"),
        (0.98, 0.0005, "Yes"),
        (0.8, 0.0, "No"),
        (1.0, 1.5, "No"),
        (0.995, 0.9, "Yes"),
        ("Nan", 1.0, "Yes"),  # the reference's own hole, kept in the documented column
    ],
)
def test_the_documented_verdict(
    cosine: float | str, max_abs_err: float | str, expected: str
) -> None:
    assert documented_accuracy(cosine, max_abs_err) == expected


def tensors(path: Path, values: dict[str, list[float]]) -> None:
    """A dump of task tensor with one call per name."""
    torch = pytest.importorskip("torch")
    (path / "dump_tensor_data").mkdir(parents=True)
    data = {}
    for name, numbers in values.items():
        content = torch.tensor(numbers)
        file = f"{name}.output.0.pt"
        torch.save(content, path / "dump_tensor_data" / file)
        leaf = {
            "type": "torch.Tensor", "dtype": "torch.float32", "shape": list(content.shape),
            "Max": float(content.max()), "Min": float(content.min()),
            "Mean": float(content.mean()), "Norm": float(content.norm()),
            "requires_grad": False, "data_name": file,
        }  # fmt: skip
        data[name] = {"input_args": [], "input_kwargs": {}, "output": [leaf]}
    header = {"task": "tensor", "level": "L1", "framework": "pytorch", "data": data}
    header["dump_data_dir"] = str(path / "dump_tensor_data")
    (path / "dump.json").write_text(json.dumps(header))
    (path / "construct.json").write_text(json.dumps(dict.fromkeys(data)))
    (path / "stack.json").write_text("{}")


def test_the_corrected_verdict_knows_scale_zeros_and_single_values(tmp_path: Path) -> None:
    cases: dict[str, tuple[list[float], list[float], str, str]] = {  # npu, bench, both verdicts
        "Torch.large.0.forward": ([1e5, 2e5, 3e5], [1e5, 2e5, 3e5 + 6], "No", "Yes"),
        "Torch.small.0.forward": ([1e-5, 0, 0], [0, 0, 1e-5], "No", "No"),
        "Torch.tiny.0.forward": ([1e-5, 2e-5], [1.5e-5, 2e-5], "Yes", "No"),
        "Torch.zero.0.forward": ([1.0, 1.0], [0.0, 0.0], "Yes", "No"),
        "Torch.loss.0.forward": ([5.0], [7.0], "None", "No"),
        "Torch.same.0.forward": ([5.0], [5.0], "None", "Yes"),
    }
    for place, side in enumerate(("npu", "bench")):
        tensors(tmp_path / side, {name: case[:2][place] for name, case in cases.items()})
    params = {f"{side}_json_path": str(tmp_path / side) for side in ("npu", "bench")}
    table = msprobe_builder.compare(params, tmp_path / "out", own_columns=True)
    table = table.set_index("NPU Name")
    for name, (_, _, documented, corrected) in cases.items():
        row = table.loc[f"{name}.output.0"]
        assert row["Accuracy Reached or Not"] == documented, name
        assert row["Corrected Result"] == corrected, name
    assert list(table.columns[-len(OWN) :]) == list(OWN)


def test_structure_has_no_table(dumps: Path, build_database: BuildDatabase, tmp_path: Path) -> None:
    run = dumps / "llama_structure"
    database = build_database(run / "step0" / "rank", run / "step1" / "rank")
    with pytest.raises(BuildError, match="structure without values"):
        export_tables(database, tmp_path, TableOptions())
