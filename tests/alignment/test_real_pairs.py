"""Real pairs of one model run in two ways, against what is known of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.alignment.respell import recording, without_calls, without_statistics
from tests.alignment.score import partners
from tests.conftest import PAIR_ARCHIVES

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


@pytest.mark.parametrize("name", ["bert", "vit", "t5", "mamba", "gpt2", "own_llama", "megatron"])
def test_what_nothing_tells_apart_stays_grey(pairs: Path, name: str) -> None:
    """Without statistics: at least 85 % right, at most 0.5 % wrong."""
    truth: dict[str, Any] = json.loads((pairs / name / "truth.json").read_text("utf-8"))
    right: dict[str, str] = truth["pairs"]
    npu, bench = (
        without_statistics(recording(rank(pairs / name / side))) for side in ("npu", "bench")
    )
    found = partners(npu.source(), bench.source())
    owner = {other: name for name, other in right.items()}
    wrong = [(name, other) for name, other in found.items() if owner.get(other, name) != name] + [
        (name, found[name]) for name in right if found.get(name, right[name]) != right[name]
    ]
    assert sum(found.get(name) == other for name, other in right.items()) >= 0.85 * len(right)
    assert len(set(wrong)) <= 0.005 * len(right), wrong[:10]


@pytest.mark.parametrize("name", ["gpt2", "megatron", "mixtral", "own_llama", "sdpa", "t5", "vit"])
def test_modules_alone(pairs: Path, name: str) -> None:
    """What an attention shows beside its result differs; its result tells: 97 % right, none wrong.

    One side of each of these pairs returns the weights of the attention, or nothing in their place.
    """
    truth: dict[str, Any] = json.loads((pairs / name / "truth.json").read_text("utf-8"))
    npu, bench = (without_calls(recording(rank(pairs / name / side))) for side in ("npu", "bench"))
    right = {
        own: other
        for own, other in truth["pairs"].items()
        if own in npu.origin and other in bench.origin
    }
    found = partners(npu.source(), bench.source())
    assert not [(one, found[one]) for one in right if found.get(one, right[one]) != right[one]]
    assert len(right) > 30
    assert sum(one in found for one in right) >= 0.97 * len(right), sorted(set(right) - set(found))


def test_mindspore_against_pytorch(pairs: Path) -> None:
    """Other names, other frameworks, other operators; no option, no file."""
    truth = json.loads((PAIR_ARCHIVES / "ms_mf_truth.json").read_text("utf-8"))
    right = {**truth["modules"], **truth["apis"]}
    found = partners(rank(pairs / "ms_mf_mix_stat"), rank(pairs / "pt_llama_mix_stat"))
    assert sum(found.get(name) == other for name, other in right.items()) >= 0.98 * len(right)
    assert not [name for name, other in right.items() if found.get(name, other) != other]
