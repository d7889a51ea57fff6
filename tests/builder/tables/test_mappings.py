"""Tables of dumps whose calls or values have other names: -cm, -am, -dm; and of level L1."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.base.options import BuildOptions
from msprobe_builder.command.main import main
from msprobe_builder.match.renaming import call_and_value, read_renaming
from tests.builder.small_dumps import forward, tensor, write_dump

Rows = dict[str, dict[str, str]]


def table(folder: Path, *options: str) -> Rows:
    """Rows by npu name of the table of ``folder/npu`` against ``folder/bench``."""
    compare = folder / "compare.json"
    sides = {f"{side}_path": str(folder / side) for side in ("npu", "bench")}
    compare.write_text(json.dumps(sides | {"stack_path": "not needed"}))
    out = folder / "out"
    arguments = ["-i", str(compare), "-o", str(out), "--format", "csv", "--quiet", *options]
    assert main(["table", *arguments]) == 0
    [path] = out.glob("compare_result_*.csv")
    with path.open(newline="", encoding="utf-8") as stream:
        return {row["NPU Name"]: row for row in csv.DictReader(stream)}


def dump(folder: Path, side: str, calls: dict[str, Any], framework: str = "pytorch") -> None:
    path = write_dump(folder / side, calls)
    content = json.loads((path / "dump.json").read_text())
    (path / "dump.json").write_text(json.dumps(content | {"framework": framework}))


def test_a_dump_without_a_hierarchy_has_a_table(tmp_path: Path) -> None:
    calls = {
        f"Torch.add.{number}.forward": forward([tensor(1.0)], [tensor(2.0)]) for number in (0, 1)
    }
    for side in ("npu", "bench"):
        write_dump(tmp_path / side, calls, construct={})
    (tmp_path / "bench" / "stack.json").unlink()  # which the comparison does not need
    rows = table(tmp_path)
    assert list(rows) == [f"{call}.{value}.0" for call in calls for value in ("input", "output")]
    assert all(row["Bench Name"] == name for name, row in rows.items())


def test_cells_are_modules(tmp_path: Path) -> None:
    call = forward([tensor(1.0)], [tensor(2.0)])
    names = ("Cell.fc2.Dense.forward.0", "Cell.act.GELU.forward.0")
    others = ("Module.fc9.Linear.forward.0", "Module.act.GELU.forward.0")
    dump(tmp_path, "npu", dict.fromkeys(names, call), "mindspore")
    dump(tmp_path, "bench", dict.fromkeys(others, call))
    mapping = tmp_path / "cell.yaml"
    mapping.write_text("fc2.Dense: fc9.Linear\n")
    rows = table(tmp_path, "-cm", str(mapping))
    for name, other in zip(names, others, strict=True):
        assert rows[f"{name}.output.0"]["Bench Name"] == f"{other}.output.0"


def test_apis_and_what_goes_into_them_are_mapped(tmp_path: Path) -> None:
    one, two, three = (tensor(float(number), high=float(number)) for number in (1, 2, 3))
    npu = {
        "Mint.scale_add.0.forward": forward([one, two, three], [three]),
        "Functional.abs.0.forward": forward([one], [two]),
    }
    bench = {
        "NPU.fused_add.0.forward": forward([two, one], [three]),
        "Torch.abs.0.forward": forward([one], [two]),
    }
    dump(tmp_path, "npu", npu, "mindspore")
    dump(tmp_path, "bench", bench)
    mapping = tmp_path / "api.yaml"
    mapping.write_text(
        "ms_api: Mint.scale_add\npt_api: NPU.fused_add\n"
        "ms_args: [0, 1]\npt_args: [1, 0]\nms_outputs: [0]\npt_outputs: [0]\n"
    )
    rows = table(tmp_path, "-am", str(mapping))
    assert rows["Functional.abs.0.forward.input.0"]["Bench Name"] == "Torch.abs.0.forward.input.0"
    found = {name.rpartition("forward.")[2]: row for name, row in rows.items() if "scale" in name}
    assert found["input.0"]["Bench Name"] == "NPU.fused_add.0.forward.input.1"
    assert found["input.1"]["Bench Name"] == "NPU.fused_add.0.forward.input.0"
    assert found["input.2"]["Bench Name"] == "N/A"
    assert {found[name]["Max diff"] for name in ("input.0", "input.1", "output.0")} == {"0.0"}


def test_single_values_are_mapped(tmp_path: Path) -> None:
    one, two = tensor(1.0, high=1.0), tensor(2.0, high=2.0)
    dump(tmp_path, "npu", {"Torch.both.0.forward": forward([], [one, two])})
    dump(tmp_path, "bench", {"Torch.both.0.forward": forward([], [two, one])})
    mapping = tmp_path / "data.yaml"
    mapping.write_text(
        "Torch.both.0.forward.output.0: Torch.both.0.forward.output.1\n"
        "Torch.both.0.forward.output.1: Torch.both.0.forward.output.0\n"
    )
    rows = table(tmp_path, "-dm", str(mapping))
    assert [row["Max diff"] for row in rows.values()] == ["0.0", "0.0"]
    assert [row["Bench Name"][-1] for row in rows.values()] == ["1", "0"]


def test_a_value_that_nobody_has_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("npu", "bench"):
        dump(tmp_path, side, {"Torch.add.0.forward": forward([], [tensor(1.0)])})
    mapping = tmp_path / "data.yaml"
    mapping.write_text("Torch.sub.0.forward.output.0: Torch.add.0.forward.output.0\n")
    table(tmp_path, "-dm", str(mapping))
    assert "Torch.sub.0.forward" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("-cm", "[1]", "must hold"),
        ("-cm", "a: 1", "must map names to names"),
        ("-cm", "a: [", "not valid YAML"),
        ("-am", "- ms_api: A.b", "lacks the name"),
        ("-am", "- {ms_api: A.b, pt_api: C.d, ms_args: [0], pt_args: []}", "equally long"),
        ("-am", "- {ms_api: A.b, pt_api: C.d, ms_args: [0, 0], pt_args: [0, 1]}", "different"),
        ("-am", "- {ms_api: A.b, pt_api: C.d, more: 1}", "nothing else"),
        ("-dm", "!!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_a_wrong_mapping_stops_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, text: str, words: str
) -> None:
    for side in ("npu", "bench"):
        dump(tmp_path, side, {"Torch.add.0.forward": forward([], [tensor(1.0)])})
    compare = tmp_path / "compare.json"
    compare.write_text(json.dumps({f"{s}_path": str(tmp_path / s) for s in ("npu", "bench")}))
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(text)
    out = tmp_path / "out"
    assert main(["table", "-i", str(compare), "-o", str(out), option, str(mapping)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert str(mapping) in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_names_of_values_are_taken_apart() -> None:
    assert call_and_value("Torch.add.0.forward.input.0") == ("Torch.add.0.forward", "input.0")
    assert call_and_value("A.0.forward.kwargs.mask") == ("A.0.forward", "input.mask")
    gradients = "Module.a.Linear.parameters_grad"
    assert call_and_value(f"{gradients}.weight") == (gradients, "parameters_grad.weight")
    assert call_and_value("Torch.add.0.forward") == ("Torch.add.0.forward", "")


def test_nothing_is_renamed_unless_asked() -> None:
    assert read_renaming(BuildOptions()) is None
