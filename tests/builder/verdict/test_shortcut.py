"""What is worked out for many rows at once, or at usual calls, is what the rules for one say."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from msprobe_builder.pipeline.build import build
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import Roles
from msprobe_builder.verdict.roles.one_pass import Pass
from msprobe_builder.verdict.roles.passes import judge
from msprobe_builder.verdict.ruling import judgement

REFERENCE = "llama_statistics/step0/rank"


@pytest.mark.parametrize(
    "run",
    [
        "llama_statistics_wrong_attention_scale/step0/rank",
        "llama_statistics_bf16/step0/rank",
        "llama_statistics/step1/rank",
    ],
)
def test_usual_calls_are_judged_as_all_others(
    run: str, dumps: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(dumps / run, dumps / REFERENCE, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "pair",
    [
        "asked",
        "contrasted_not_exp",
        "gated_bf16",
        "multiplied",
        "normed_bf16",
        "operated",
        "placed_md5",
        "raised",
        "scaled_fp16",
        "styled",
    ],
)
def test_usual_calls_of_devices(
    pair: str, devices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(devices / pair / "npu", devices / pair / "bench", tmp_path, monkeypatch)


def check(npu: Path, bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flows: list[Flow] = []

    def watched(flow: Flow) -> Roles:
        flows.append(flow)
        return judge(flow)

    monkeypatch.setattr(judgement, "judge", watched)
    build(BuildConfig(npu, bench), tmp_path, workers=1)
    [flow] = flows
    short, by_row, whole = (Pass(flow) for _ in range(3))
    plain = np.array([short.plain[row] for row in short.outputs])
    assert plain.mean() > 0.1
    assert np.frombuffer(short.usual, dtype=bool).mean() > 0.4
    by_row.usual = whole.usual = bytes(len(short.usual))
    whole.plain = bytes(len(short.plain))
    one = short.run()
    for other in (by_row.run(), whole.run()):
        for field in fields(one):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
