"""Runs on an NVIDIA H100 against the same runs on a CPU: what kernels do otherwise is no fault."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.facts.fact import has_code
from msprobe_builder.facts.words import UNUSUAL
from tests.faults.judging import verdict_on


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("styled", "Convolutions differ as much as operands rounded to 10 or 11 bits explain"),
        ("asked", "(TF32, HF32)"),  # an LSTM cell of one kernel
        ("operated", "Convolutions differ"),  # of which gradients alone, beside one that cancels
        ("normed_bf16", "No fault beyond rounding"),  # in float32, made of half precision
        ("scaled_fp16", "The debug run multiplies its loss by 1,024 times what the reference does"),
    ],
)
def test_another_device_is_no_fault(name: str, told: str, devices: Path, tmp_path: Path) -> None:
    verdict = verdict_on(devices / name / "npu", devices / name / "bench", tmp_path)
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
    assert told in verdict.sentence


def test_a_factor_of_nearly_one_in_half_precision_is_no_fault(
    devices: Path, tmp_path: Path
) -> None:
    """Two calls put out nearly the same."""
    name = devices / "gated_bf16"
    verdict = verdict_on(name / "npu", name / "bench", tmp_path)
    assert verdict.conclusion == "undecided"
    assert "Nothing is off by more than rounding explains" in verdict.sentence
    assert {one.strength for one in verdict.suspects} <= {"weak"}
    assert all(has_code(one.facts, UNUSUAL) for one in verdict.suspects)


def test_powers_that_the_reference_alone_rounds_to_halves_accuse_nobody_for_certain(
    devices: Path, tmp_path: Path
) -> None:
    verdict = verdict_on(devices / "raised" / "npu", devices / "raised" / "bench", tmp_path)
    assert verdict.conclusion != "fault"
    assert not [one.node for one in verdict.suspects if one.strength == "strong"]


def test_a_fault_behind_convolutions_in_tf32_is_found(devices: Path, tmp_path: Path) -> None:
    name = devices / "contrasted_not_exp"
    first = verdict_on(name / "npu", name / "bench", tmp_path).suspects[0]
    assert (first.node, first.side, first.strength) == ("Tensor.exp.0.forward", "bench", "strong")


def test_a_factor_before_calls_that_move_numbers_is_found(devices: Path, tmp_path: Path) -> None:
    name = devices / "multiplied"
    first = verdict_on(name / "npu", name / "bench", tmp_path).suspects[0]
    assert (first.node, first.strength) == ("Tensor.__mul__.13.forward", "strong")
    assert first.cause == "extra"


def test_other_bits_of_another_device_accuse_no_convolution(devices: Path, tmp_path: Path) -> None:
    name = devices / "placed_md5"
    suspects = verdict_on(name / "npu", name / "bench", tmp_path).suspects
    assert not any("conv2d" in one.node or "Conv2d" in one.node for one in suspects)
    assert suspects[0].node == "Tensor.transpose.0.forward"


def test_one_convolution_is_not_excused_where_all_others_are_equal(
    devices: Path, tmp_path: Path
) -> None:
    bench = devices / "styled" / "bench"
    npu = tmp_path / "npu"
    shutil.copytree(bench, npu)
    file = npu / "dump.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    name = "Functional.conv2d.4.forward"
    for key in ("Max", "Min", "Mean", "Norm"):
        content["data"][name]["output"][0][key] *= 1 + 1e-4
    file.write_text(json.dumps(content), encoding="utf-8")
    verdict = verdict_on(npu, bench, tmp_path / "out")
    assert name in verdict.sentence  # though nothing was made of what it puts out here


def whole_numbers(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of tensors of integers."""
    return [
        one
        for call in content["data"].values()
        for one in [*(call.get("input_args") or []), *(call.get("output") or [])]
        if isinstance(one, dict) and str(one.get("dtype")).startswith("torch.int")
    ]


@pytest.mark.parametrize(
    ("unit", "in_single", "is_same"),
    [
        (2.0**-52, False, True),
        (2.0**-22, True, True),
        (2.0**-12, True, False),
    ],
)
def test_whole_numbers_that_were_added_up_otherwise_are_the_same(
    unit: float, in_single: bool, is_same: bool, devices: Path, tmp_path: Path
) -> None:
    written = json.loads((devices / "asked" / "bench" / "dump.json").read_text(encoding="utf-8"))
    for side, factor in (("npu", 1 + unit), ("bench", 1.0)):
        shutil.copytree(devices / "asked" / "bench", tmp_path / side)
        content = copy.deepcopy(written)
        records = whole_numbers(content)
        assert len(records) > 3
        for one in records:
            for key in ("Mean", "Norm"):
                number = one[key] * factor
                one[key] = float(np.float32(number)) if in_single else number
        (tmp_path / side / "dump.json").write_text(json.dumps(content), encoding="utf-8")
    verdict = verdict_on(tmp_path / "npu", tmp_path / "bench", tmp_path / "out")
    assert (verdict.conclusion == "clean") == is_same
