"""Real pairs of one model run in two ways, against what is known of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.alignment.conftest import ARCHIVES
from tests.alignment.score import partners

PAIRS = (
    *("ddp", "fsdp2", "sdpa", "ckpt_true"),
    *("autocast_bf16", "own_llama", "gpt2", "adapter"),
    *("bert", "vit", "t5", "mixtral", "mamba", "megatron"),
    *("layers_mid", "opt", "dropout", "ck_nonre_micro"),
)


def rank(folder: Path) -> Path:
    return min((folder / "step0").glob("rank*"))


@pytest.mark.parametrize("name", PAIRS)
def test_pair(pairs: Path, name: str) -> None:
    """At least 95 % right, at most 1 % wrong; nothing takes the partner of another."""
    truth: dict[str, Any] = json.loads((pairs / name / "truth.json").read_text("utf-8"))
    right: dict[str, str] = truth["pairs"]
    found = partners(rank(pairs / name / "npu"), rank(pairs / name / "bench"))
    taken = set(right.values()) | set(truth["alone_bench"])
    wrong = [(name, found[name]) for name in truth["alone_npu"] if name in found]
    wrong += [(name, found[name]) for name in truth["unsure"] if found.get(name) in taken]
    wrong += [(name, found[name]) for name in right if found.get(name, right[name]) != right[name]]
    good = sum(found.get(name) == other for name, other in right.items())
    assert good >= 0.95 * len(right), [name for name in right if name not in found][:10]
    assert len(wrong) <= 0.01 * len(right), wrong[:10]


def test_mindspore_against_pytorch(pairs: Path) -> None:
    """Other names, other frameworks, other operators; no option, no file."""
    truth = json.loads((ARCHIVES / "ms_mf_truth.json").read_text("utf-8"))
    right = {**truth["modules"], **truth["apis"]}
    found = partners(rank(pairs / "ms_mf_mix_stat"), rank(pairs / "pt_llama_mix_stat"))
    assert sum(found.get(name) == other for name, other in right.items()) >= 0.98 * len(right)
    assert not [name for name, other in right.items() if found.get(name, other) != other]
