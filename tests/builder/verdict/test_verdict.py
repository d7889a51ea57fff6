"""Roles and suspects of small dumps whose truth is plain, and of real ones."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main
from tests.builder.small_dumps import Record, forward, number, tensor, write_dump
from tests.conftest import BuildDatabase

A, B, C, D = (tensor(norm, high=norm / 2, low=-norm / 3) for norm in (2.0, 3.0, 5.0, 7.0))
WRONG = tensor(6.0, high=3.0, low=-2.0)
LATER = tensor(9.0, high=4.0, low=-3.0)


def chain(*, middle: Record = B, last: Record = C, factor: float = 1.5) -> dict[str, Record]:
    """relu → mul → tanh, each given what the one before put out."""
    return {
        "Functional.relu.0.forward": forward([D], [A]),
        "Tensor.__mul__.0.forward": forward([A, number(factor)], [middle]),
        "Torch.tanh.0.forward": forward([middle], [last]),
    }


def verdict_of(folder: Path, npu: dict[str, Record], bench: dict[str, Record]) -> dict[str, Any]:
    sides = [write_dump(folder / name, data) for name, data in (("n", npu), ("b", bench))]
    result = build(BuildConfig(sides[0], sides[1]), folder, name="x.vis.db", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        roles = dict(
            connection.execute("SELECT name, role FROM role JOIN node_name USING (node_id)")
        )
    return {"path": result.path, "roles": roles}


def told(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["verdict", str(path), "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


@pytest.mark.parametrize("framework", ["pytorch", "mindspore"])
def test_calls_that_torch_does_not_have_are_not_to_be_run_again(
    framework: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``msprobe-operators`` is named only where it could test the call."""
    for name, data in (
        ("n", chain(middle=WRONG, last=LATER, factor=3.0)),
        ("b", chain()),
    ):
        path = write_dump(tmp_path / name, data) / "dump.json"
        path.write_text(path.read_text().replace('"pytorch"', f'"{framework}"'))
    result = build(BuildConfig(tmp_path / "n", tmp_path / "b"), tmp_path, workers=1)
    answer = told(result.path, capsys)
    assert (answer["suspects"][0]["command"] is None) == (framework == "mindspore")
    assert (answer["operator_check"] is None) == (framework == "mindspore")
    assert main(["verdict", str(result.path)]) == 0
    assert ("msprobe-operators" in capsys.readouterr().out) == (framework == "pytorch")


def test_tensors_that_are_there_are_not_to_be_recorded_again(
    dumps: Path, build_database: BuildDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "llama_tensor"
    sides = (f"{name}_wrong_attention_scale", name)
    answer = told(build_database(*(dumps / side / "step0" / "rank" for side in sides)), capsys)
    assert answer["suspects"][0]["command"] is not None
    assert (answer["next_dump"], answer["operator_check"]) == (None, None)


def test_what_is_wrong_on_all_ranks_and_steps_is_to_be_recorded_once(
    dumps: Path, build_database: BuildDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "ddp4_statistics"
    database = build_database(dumps / f"{name}_wrong_attention_scale", dumps / name)
    answer = told(database, capsys)
    places = {(one["step"], one["rank"]) for one in answer["suspects"]}
    assert places == {(step, rank) for step in (0, 1) for rank in range(4)}
    config = answer["next_dump"]["config"]
    assert (config["step"], config["rank"]) == ([0], [0])


def test_equal_runs_are_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = verdict_of(tmp_path, chain(), chain())
    answer = told(found["path"], capsys)
    assert (answer["conclusion"], answer["suspects"], answer["next_dump"]) == ("clean", [], None)


def test_the_call_with_right_inputs_is_the_suspect_and_the_next_one_carries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = verdict_of(tmp_path, chain(middle=WRONG, last=LATER, factor=3.0), chain())
    answer = told(found["path"], capsys)
    [suspect] = answer["suspects"]
    expected = {"step": 0, "rank": 0, "side": "npu", "node": "Tensor.__mul__.0.forward"}
    expected |= {"direction": "forward", "strength": "strong", "cause": "argument"}
    assert suspect.items() >= expected.items()
    assert "2 times the norm" in suspect["evidence"]
    assert "is 3.0, 1.5 in b" in suspect["evidence"]  # its folder
    assert found["roles"] == {"Tensor.__mul__.0.forward": 2, "Torch.tanh.0.forward": 3}
    assert answer["conclusion"] == "fault"
    assert answer["first_bad_step"] == 0
    assert answer["next_dump"]["config"]["step"] == [0]
    assert answer["operator_check"] == "msprobe-operators check ./next_dump/step0/rank*"


def test_a_call_that_only_the_reference_makes_is_named_on_its_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = chain() | {"Torch.exp.0.forward": forward([C], [LATER])}
    npu = {name: record for name, record in bench.items() if "mul" not in name}
    npu["Torch.tanh.0.forward"] = forward([A], [WRONG])
    npu["Torch.exp.0.forward"] = forward([WRONG], [A])
    [suspect] = told(verdict_of(tmp_path, npu, bench)["path"], capsys)["suspects"]
    assert (suspect["side"], suspect["node"]) == ("bench", "Tensor.__mul__.0.forward")
    assert suspect["cause"] == "missing"


def test_half_precision_is_no_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def rounded(record: Record) -> Record:
        keys = ("Max", "Min", "Norm")
        return record | {"dtype": "torch.bfloat16"} | {key: record[key] * 1.003 for key in keys}

    npu = {
        name: {
            key: [rounded(one) if "shape" in one else one for one in value] if value else value
            for key, value in record.items()
        }
        for name, record in chain().items()
    }
    answer = told(verdict_of(tmp_path, npu, chain())["path"], capsys)
    assert (answer["conclusion"], answer["suspects"]) == ("clean", [])


def test_the_scale_of_the_attention_is_found_in_a_real_run(
    demo_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = told(demo_database, capsys)
    assert answer["suspects"][0]["node"] == "Tensor.__mul__.19.forward"
    assert answer["suspects"][0]["strength"] == "strong"
    assert main(["verdict", str(demo_database), "--fail-on-suspect"]) == 4
    said = capsys.readouterr().out
    assert said.startswith("Verdict   fault, ")
    assert "modeling_llama.py:193" in said
    assert main(["verdict", str(demo_database)]) == 0


@pytest.mark.parametrize(
    ("npu", "conclusion"),
    [("llama_statistics_renamed_all", "clean"), ("llama_statistics_bf16", "undecided")],
)
def test_other_names_and_another_precision_are_no_fault(
    npu: str, conclusion: str, dumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides = [dumps / name / "step0" / "rank" for name in (npu, "llama_statistics")]
    result = build(BuildConfig(sides[0], sides[1]), tmp_path, workers=1)
    answer = told(result.path, capsys)
    assert answer["conclusion"] == conclusion
    # In half precision what it explains worst is told, as a guess.
    assert all(one["probability"] <= 0.1 for one in answer["suspects"])
    assert not (conclusion == "clean" and answer["suspects"])
