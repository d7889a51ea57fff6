"""Files of versions of the reference tool before its databases: JSON, one step and rank each."""

from __future__ import annotations

import json
import lzma
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.command.main import main
from tests.builder.integrity import check

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "reference" / "compare_1.2.2.vis.xz"
CONTENT: dict[str, Any] = json.loads(lzma.decompress(SAMPLE.read_bytes()))
WRONG = "Tensor.__mul__.8.forward"  # by a scale of 0.25 in place of 0.35


def written(folder: Path, content: Any, name: str = "compare_1.vis") -> Path:
    path = folder / name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def imported(path: Path) -> sqlite3.Connection:
    assert main(["import", str(path)]) == 0
    new = path.with_name(f"{path.name.removesuffix('.vis')}.imported.vis.db")
    check(new).close()
    return sqlite3.connect(new)


def test_nodes_matches_and_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    own = {name: node for name, node in CONTENT["NPU"]["node"].items() if name != "DefaultModel"}
    with closing(imported(written(tmp_path, CONTENT))) as connection:
        query = (
            "SELECT name, parent, matched FROM node_view"
            " WHERE side = 'npu' AND kind != 'collection'"
        )
        found = {name: (parent, matched) for name, parent, matched in connection.execute(query)}
        assert found.keys() - {"DefaultModel"} == own.keys()
        for name, node in own.items():
            link = node["matched_node_link"]
            assert found[name][1] == (link[-1] if link else None)
            if node["upnode"] in own:
                assert found[name][0] == node["upnode"]
        query = (
            "SELECT norm, md5 FROM tensor_view WHERE side = ? AND node = ? AND name = 'output.0'"
        )
        for side, key in (("npu", "NPU"), ("bench", "Bench")):
            [(norm, checksum)] = connection.execute(query, (side, WRONG))
            cell = CONTENT[key]["node"][WRONG]["output_data"][f"{WRONG}.output.0"]
            assert (norm, checksum) == (float(cell["Norm"]), None)
        query = "SELECT name FROM suspect JOIN node_view USING (node_id) WHERE overall = 1"
        assert connection.execute(query).fetchall() == [(WRONG,)]


def test_one_side_alone_and_its_place(tmp_path: Path) -> None:
    content = {**CONTENT["NPU"], "task": "summary", "MicroSteps": 1}
    with closing(imported(written(tmp_path, content, "build_rank3_1.vis"))) as connection:
        assert connection.execute("SELECT side, step, rank FROM graph").fetchall() == [(0, 0, 3)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1], "a cell that should hold a dict holds another value"),
        ({"task": "summary"}, "it holds no nodes"),
        ({"task": "dance", "node": {}}, "its task is 'dance'"),
        ({"task": "summary", "NPU": {"node": {}}, "Bench": 3}, "Bench holds no nodes"),
        ({"task": "summary", "node": {"Torch.add.0.forward": 3}}, "is no object"),
        (
            {"task": "summary", "node": {"Torch.add.0.forward": {"input_data": {"x": {}}}}},
            "has a parameter x",
        ),
    ],
)
def test_what_is_no_such_file_ends_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, said: str
) -> None:
    path = written(tmp_path, content)
    assert main(["import", str(path)]) == 1
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert [one.name for one in tmp_path.iterdir()] == [path.name]
