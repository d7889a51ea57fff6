"""Checking the calls of a dump."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from msprobe_builder import BuildConfig, build
from msprobe_builder.facts.fact import Fact, decode, has_code, within
from msprobe_builder.facts.wording import tell
from msprobe_collector import PrecisionDebugger
from msprobe_operators.command import main
from msprobe_operators.dump.calls import RecordedCall, function_of, recorded_calls
from msprobe_operators.dump.check import CheckOptions, check_recorded
from msprobe_operators.dump.operands import Source


@pytest.fixture(scope="module")
def recorded(dumps: Path) -> Path:
    """A dump of real tensors."""
    [path] = (dumps / "llama_tensor").rglob("dump.json")
    return path.parent


def shortened(source: Path, target: Path, *names: str) -> Path:
    """A copy of a dump with the records of some calls alone, its tensors linked."""
    target.mkdir()
    content = json.loads((source / "dump.json").read_text("utf-8"))
    content["data"] = {
        name: record for name, record in content["data"].items() if name.rpartition(".")[0] in names
    }
    (target / "dump.json").write_text(json.dumps(content), "utf-8")
    (target / "dump_tensor_data").mkdir()
    for file in (source / "dump_tensor_data").iterdir():
        if file.name.startswith(tuple(f"{name}." for name in names)):
            shutil.copyfile(file, target / "dump_tensor_data" / file.name)
    for name in ("stack.json", "construct.json"):
        (target / name).symlink_to(source / name)
    return target


CALLS = (
    "Functional.embedding.0 Functional.linear.0 Functional.softmax.0 Functional.silu.0"
    " Functional.cross_entropy.0 Torch.rsqrt.0 Tensor.__mul__.19 Tensor.to.3 Torch.matmul.0"
).split()


def rows_of(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "operator_check.json").read_text("utf-8"))
    return found


def test_recorded_results_that_are_right_pass(recorded: Path, tmp_path: Path) -> None:
    dump = shortened(recorded, tmp_path / "dump", *CALLS, "Functional.dropout.0")
    assert main(["check", str(dump), "-o", str(tmp_path / "out")]) == 0
    rows = rows_of(tmp_path / "out")
    forward = {row["name"]: row for row in rows if row["direction"] == "forward"}
    # A dropout with probability 0 draws nothing, and is a call as any other.
    compared = {name for name, row in forward.items() if row["compared"] == "recorded"}
    assert compared == {*CALLS, "Functional.dropout.0"}
    assert {row["status"] for row in rows} <= {"passed", "not tested"}
    backward = {row["name"] for row in rows if row["direction"] == "backward"}
    assert {"Functional.linear.0", "Functional.silu.0"} <= backward


def test_a_recorded_result_that_is_wrong_is_named(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = shortened(recorded, tmp_path / "dump", *CALLS)
    file = dump / "dump_tensor_data" / "Functional.silu.0.forward.output.0.pt"
    content = torch.load(file, weights_only=True)
    file.unlink()
    torch.save((content * 1.001).contiguous(), file)
    assert main(["check", str(dump), "-o", str(tmp_path / "out")]) == 4
    assert "The recorded result of Functional.silu.0.forward is wrong" in capsys.readouterr().out
    failed = [row["name"] for row in rows_of(tmp_path / "out") if row["status"] == "failed"]
    assert failed == ["Functional.silu.0"]


def test_findings_stand_beside_their_nodes(recorded: Path, tmp_path: Path) -> None:
    dump = shortened(recorded, tmp_path / "dump", "Functional.silu.0", "Torch.rsqrt.0")
    database = build(BuildConfig(dump), tmp_path / "built").path
    command = ["check", str(dump), "-o", str(tmp_path / "out"), "--database", str(database)]
    assert main(command) == 0
    query = "SELECT name, {} FROM operator_check JOIN node_name USING (node_id)"
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute(query.format("status, compared")).fetchall()
    assert ("Functional.silu.0.forward", "passed", "recorded") in found
    assert ("Torch.rsqrt.0.forward", "passed", "recorded") in found
    file = dump / "dump_tensor_data" / "Functional.silu.0.forward.input.0.pt"
    file.write_bytes(file.read_bytes()[:100])
    assert main([*command, "-o", str(tmp_path / "again")]) == 1
    with closing(sqlite3.connect(database)) as connection:
        reasons = dict(connection.execute(query.format("reason")).fetchall())
    [unread] = decode(reasons["Functional.silu.0.forward"])
    assert unread.code == "operator.unreadable"
    assert has_code(within(unread), "file.error")
    assert reasons["Torch.rsqrt.0.forward"] == ""


def test_a_file_that_findings_cannot_go_to_is_named_before_anything_is_run(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = shortened(recorded, tmp_path / "dump", "Functional.silu.0")
    database = build(BuildConfig(dump), tmp_path / "built").path
    (tmp_path / "text").write_text("no database")
    command = ["check", str(dump), "-o", str(tmp_path / "out"), "--database"]
    for file, more, words in (
        (database, ["--step", "7"], "has no step 7 rank 0"),
        (tmp_path / "text", [], "text is not a SQLite database."),
        (tmp_path, [], "is a directory; give a .vis.db file."),
    ):
        assert main([*command, str(file), *more]) in (1, 2)
        assert words in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_it_goes_on_where_it_stopped(recorded: Path, tmp_path: Path) -> None:
    dump = shortened(recorded, tmp_path / "dump", "Functional.silu.0", "Torch.rsqrt.0")
    command = ["check", str(dump), "-o", str(tmp_path / "out")]
    assert main(command) == 0
    journal = tmp_path / "out" / "journal.jsonl"
    whole = journal.read_text("utf-8").splitlines()
    marked = whole[1].replace('"passed"', '"not tested"')
    journal.write_text("\n".join([whole[0], marked, whole[2][:40]]) + "\n", "utf-8")
    assert main(command) == 0
    assert [row["status"] for row in rows_of(tmp_path / "out")].count("not tested") == 2
    content = (dump / "dump.json").read_text("utf-8")
    (dump / "dump.json").write_text(content + " ", "utf-8")  # another dump: begins again
    assert main(command) == 0
    assert [row["status"] for row in rows_of(tmp_path / "out")].count("not tested") == 0


def leaf(*shape: int, dtype: str = "torch.float32", low: float = 0.0, high: float = 1.0) -> Any:
    return {
        "type": "torch.Tensor",
        "dtype": dtype,
        "shape": list(shape),
        "Max": high,
        "Min": low,
        "requires_grad": False,
    }


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("Torch.load.0", [{"type": "str", "value": "/etc/passwd"}], "no function of tensors"),
        ("Torch.from_file.0", [{"type": "str", "value": "x"}], "not run from a dump"),
        ("Torch.hub.load.0", [], "not run from a dump"),
        ("Tensor.__reduce_ex__.0", [leaf(2)], "not run from a dump"),
        ("Torch.zeros.0", [{"type": "int", "value": 10**13}], "would take"),
        ("Tensor.repeat.0", [leaf(10), {"type": "int", "value": 10**12}], "would take"),
        ("Functional.relu.0", [leaf(10**7, 10**7)], "above"),
        ("Functional.relu.0", [leaf(-1)], "shape"),
        ("Functional.relu.0", [{"type": "Foo"}], "was not recorded"),
        ("Distributed.all_reduce.0", [leaf(2)], "communication"),
        ("Functional.no_such.0", [leaf(2)], "this torch has no"),
        ("Torch.norm.0", [leaf(2, 2)], "torch.linalg.norm"),
        ("Functional.linear.0", [leaf(2, 3), leaf(4, 5)], "does not run"),
    ],
)
def test_what_cannot_be_run_is_not_run(name: str, arguments: list[Any], why: str) -> None:
    call = RecordedCall(name, {"input_args": arguments, "input_kwargs": {}, "output": []}, None)
    [row] = check_recorded(call, CheckOptions(Source(None)))
    assert row.status == "not tested"
    assert row.reason is not None
    assert why in tell(row.reason)


def test_a_dump_of_which_nothing_can_be_run_says_why(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = shortened(recorded, tmp_path / "dump", "Functional.silu.0")
    for file in (dump / "dump_tensor_data").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert main(["check", str(dump), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    assert said.startswith("Functional.silu.0.forward was not tested: ")
    assert "2 not tested" in said


def test_a_dump_with_tensors_that_cannot_be_read_does_not_end_well(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = shortened(recorded, tmp_path / "dump", "Functional.silu.0", "Functional.softmax.0")
    for file in (dump / "dump_tensor_data").glob("Functional.silu.0.*"):
        file.write_bytes(file.read_bytes()[:100])
    assert main(["check", str(dump), "-o", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out
    first = "Functional.silu.0.forward.input.0.pt"
    assert f"its recorded tensors cannot be read: {first}: PickleError" in said
    assert "2 not tested, 2 passed" in said
    rows = (tmp_path / "out" / "operator_check.csv").read_text("utf-8")
    assert "Functional.softmax.0.forward is right to rounding." in rows
    assert main(["check", str(dump), "-o", str(tmp_path / "out"), "--language", "zh"]) == 1
    said = capsys.readouterr().out
    assert f"Functional.silu.0.forward 未测试：无法读取采集到的张量：{first}：PickleError" in said
    assert "2 个未测试、2 个通过；详见 " in said
    rows = (tmp_path / "out" / "operator_check.csv").read_text("utf-8")
    assert "Functional.softmax.0.forward 在舍入范围内正确。" in rows
    told = {row["sentence"] for row in rows_of(tmp_path / "out")}
    assert "Functional.softmax.0.forward is right to rounding." in told  # for programs


def test_names_without_their_namespace_are_found() -> None:
    call = RecordedCall("Torch.vector_norm.0", {}, None)
    assert function_of(call) is torch.linalg.vector_norm


@pytest.mark.parametrize("name", ["T", "mT", "H", "mH", "real"])
def test_an_attribute_that_is_a_view_is_run_as_a_call(name: str) -> None:
    x = torch.randn(2, 3)
    found = function_of(RecordedCall(f"Tensor.{name}.0", {}, None))
    assert callable(found)
    assert torch.equal(found(x), getattr(x, name))


@pytest.mark.parametrize("name", ["data", "grad", "_version", "requires_grad", "is_leaf"])
def test_other_attributes_are_not_run(name: str) -> None:
    assert isinstance(function_of(RecordedCall(f"Tensor.{name}.0", {}, None)), Fact)


FLOAT = {"type": "float", "value": 0.3}
NO, YES = ({"type": "bool", "value": one} for one in (False, True))


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "draws"),
    [
        ("Functional.dropout.0", [leaf(2)], {}, True),
        ("Functional.dropout.0", [leaf(2), FLOAT], {}, True),
        ("Functional.dropout.0", [leaf(2), FLOAT, NO], {}, False),
        ("Functional.dropout.0", [leaf(2)], {"p": FLOAT | {"value": 0.0}}, False),
        ("Functional.dropout.0", [leaf(2)], {"p": leaf()}, True),
        ("Functional.rrelu.0", [leaf(2)], {}, False),
        ("Functional.rrelu.0", [leaf(2)], {"training": YES}, True),
        ("Functional.scaled_dot_product_attention.0", [leaf(2)] * 3, {}, False),
        ("Functional.scaled_dot_product_attention.0", [leaf(2)] * 3, {"dropout_p": FLOAT}, True),
        ("Torch.randn.0", [], {}, True),
    ],
)
def test_what_drew_random_numbers_is_not_run(
    name: str, args: list[Any], kwargs: dict[str, Any], draws: bool
) -> None:
    found = function_of(RecordedCall(name, {"input_args": args, "input_kwargs": kwargs}, None))
    assert isinstance(found, Fact) is draws


def test_every_function_that_dumps_name_can_be_called(recorded: Path) -> None:
    unknown = {
        one.name
        for one in recorded_calls(recorded / "dump.json")
        if isinstance(function_of(one), Fact)
    }
    assert {name.split(".")[1] for name in unknown} <= {"dropout"}


def test_an_overflow_is_of_the_operands_or_of_the_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "dump_tensor_data"
    data.mkdir()
    torch.save(torch.tensor([1.0, 200.0]), data / "large.pt")
    torch.save(torch.tensor([1.0, 2.0]), data / "small.pt")
    infinite = leaf(2, high=float("inf"))

    def record(file: str, given: Any) -> dict[str, Any]:
        inputs = [given | {"data_name": file}]
        return {"input_args": inputs, "input_kwargs": {}, "output": [infinite]}

    calls = {
        "Torch.exp.0.forward": record("large.pt", leaf(2, low=1.0, high=200.0)),
        "Torch.exp.1.forward": record("small.pt", leaf(2, low=1.0, high=2.0)),
        "Torch.exp.2.forward": {"input_args": [infinite], "output": [infinite]},
    }
    (tmp_path / "dump.json").write_text(json.dumps({"task": "tensor", "data": calls}))
    assert main(["overflow", str(tmp_path)]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Torch.exp.0.forward overflows for these operands anywhere")
    assert lines[1].startswith("Torch.exp.1.forward overflows on the recorded device alone")
    assert lines[2] == (
        "1 call overflows on the recorded device alone, "
        "1 call overflows anywhere, as expected of its operands"
    )


def test_wrong_use_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["check", str(tmp_path)],
        ["overflow", str(tmp_path / "no")],
        ["check", str(tmp_path), "--device", "nonsense"],
    ):
        assert main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1


class Unusual(nn.Module):
    """Results that are not used, complex, sorted or, in float16, too large."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.GRU(8, 16, batch_first=True)
        self.up = nn.ConvTranspose2d(1, 4, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)[0]  # the last state is not used
        left, _ = y.chunk(2, -1)
        values, _ = torch.cat([left, left], -1).sort(-1)  # equal values, in any order
        spectrum = torch.fft.rfft(values.float()).abs().to(y.dtype)
        grown = self.up(functional.hardswish(y)[:, None])
        safe = torch.where(y > -2, y, (y * 0 + 20).exp())
        first = values.new_zeros(values.shape[-1]) + values[0, 0] + values[[0, 1]].mean()
        loss: Tensor = (
            spectrum.mean() + grown.mean() + safe.square().mean() + (values * first).mean()
        )
        return loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_unusual_calls_that_are_right_are_not_accused(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(2)
    model = Unusual().to(dtype)
    debugger = PrecisionDebugger(dump_path=str(tmp_path / "dump"), task="tensor", level="mix")
    debugger.start(model)
    model(torch.linspace(-1, 1, 4 * 64 * 8).sin().reshape(4, 64, 8).to(dtype)).backward()
    debugger.stop()
    debugger.step()
    debugger.close()
    [dump] = (tmp_path / "dump").rglob("dump.json")
    assert main(["check", str(dump), "-o", str(tmp_path / "out")]) == 0
    rows = rows_of(tmp_path / "out")
    tested = {
        (row["name"].split(".")[1], row["direction"]) for row in rows if row["status"] == "passed"
    }
    for name in (
        "gru",
        "chunk",
        "fft_rfft",
        "hardswish",
        "conv_transpose2d",
        "__abs__",
        "new_zeros",
    ):
        assert (name, "forward") in tested, name
    assert not [r for r in rows if "__getitem__" in r["name"] and r["status"] != "passed"]
    for name in ("gru", "chunk", "sort", "fft_rfft", "hardswish", "conv_transpose2d"):
        assert (name, "backward") in tested, name
    overflow = {row["reason"] for row in rows if row["name"] == "Tensor.exp.0"}
    assert any("overflows in float16" in reason for reason in overflow) is (dtype is torch.float16)
