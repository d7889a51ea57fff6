"""Real pairs of one model run in two ways, against what is known of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.alignment.respell import Change, Recording, recording, without_calls, without_statistics
from tests.alignment.score import misses, partners, said
from tests.cases import by_turns
from tests.conftest import PAIR_ARCHIVES

PAIRS = (
    *("ddp", "fsdp2", "sdpa", "ckpt_true"),
    *("autocast_bf16", "own_llama", "gpt2", "adapter"),
    *("bert", "vit", "t5", "mixtral", "mamba", "megatron"),
    *("layers_mid", "opt", "dropout", "ck_nonre_micro"),
)
LIBRARIES = ("albert", "clip", "focalnet", "mixer", "moe", "tree", "vae")


def rank(folder: Path) -> Path:
    return min((folder / "step0").glob("rank*"))


KINDS: dict[str, Change] = {
    "pairs": lambda dump: dump,
    "pairs without statistics": without_statistics,
    "pairs of modules alone": without_calls,
}
# Nobody has told who belongs to whom.
UNKNOWN = ("distilbert", "gan", "loops", "mobilenet", "resnet", "towers", "unet")
# Of the layers that one of them has more nothing but numbers tells which it is; a tree of
# parameters has no modules.
UNTOLD = {("layers_mid", "pairs without statistics"), ("tree", "pairs of modules alone")}


@pytest.mark.parametrize(
    ("name", "kind"),
    [one for one in by_turns(PAIRS, list(KINDS)) if one.values not in UNTOLD],
)
def test_pair(pairs: Path, kind: str, name: str) -> None:
    """All find their partner, but for what misses.yaml counts; none takes another's."""
    npu, bench = (KINDS[kind](recording(rank(pairs / name / side))) for side in ("npu", "bench"))
    judge(pairs / name, npu, bench, misses(kind).get(name, (0, 0)))


def judge(folder: Path, npu: Recording, bench: Recording, most: Sequence[int]) -> None:
    """Fail if more than so many are alone or have a wrong partner."""
    truth: dict[str, Any] = json.loads((folder / "truth.json").read_text("utf-8"))
    right = {
        own: other
        for own, other in truth["pairs"].items()
        if own in npu.origin and other in bench.origin
    }
    found = partners(npu.source(), bench.source())
    taken = set(right.values()) | set(truth["alone_bench"])
    wrong = [(one, found[one]) for one in truth["alone_npu"] if one in found]
    wrong += [(one, found[one]) for one in truth["unsure"] if found.get(one) in taken]
    wrong += [(one, found[one]) for one in right if found.get(one, right[one]) != right[one]]
    alone = [one for one in right if one not in found]
    assert len(alone) <= most[0], alone[:10]
    assert len(wrong) <= most[1], wrong[:10]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        one
        for one in by_turns(LIBRARIES, ["pairs with other weights", *KINDS])
        if one.values not in UNTOLD
    ],
)
def test_pair_of_two_libraries(pairs: Path, kind: str, name: str) -> None:
    """The same of models by other authors, whose truth is known by all elements in float64."""
    folder, change = pairs / name, KINDS.get(kind, KINDS["pairs"])
    side = "npu" if kind in KINDS else "npu_other_weights"
    npu, bench = (change(recording(rank(folder / one))) for one in (side, "bench"))
    judge(folder, npu, bench, misses(kind).get(name, (0, 0)))


@pytest.mark.parametrize("name", [one for one in (*PAIRS, *UNKNOWN) if one != "layers_mid"])
@pytest.mark.parametrize("kind", KINDS)
def test_which_side_is_which_does_not_matter(pairs: Path, kind: str, name: str) -> None:
    """Exchanged, the sides have the same pairs for the same reasons, and as surely.

    But for what misses.yaml counts.
    """
    npu, bench = (KINDS[kind](recording(rank(pairs / name / side))) for side in ("npu", "bench"))
    here, there = npu.source(), bench.source()
    apart = said(here, there) ^ said(there, here, is_turned=True)
    assert len(apart) <= misses("exchanged")[kind].get(name, 0), sorted(map(str, apart))[:10]


def test_mindspore_against_pytorch(pairs: Path) -> None:
    """Other names, other frameworks, other operators; no option, no file."""
    truth = json.loads((PAIR_ARCHIVES / "ms_mf_truth.json").read_text("utf-8"))
    right = {**truth["modules"], **truth["apis"]}
    found = partners(rank(pairs / "ms_mf_mix_stat"), rank(pairs / "pt_llama_mix_stat"))
    assert len([name for name in right if name not in found]) <= 0
    assert not [name for name, other in right.items() if found.get(name, other) != other]


@pytest.mark.parametrize("name", ["own_llama", "gpt2", "mixtral", "megatron"])
def test_candidates_of_a_backward_call_are_those_of_its_forward_call(
    pairs: Path, name: str
) -> None:
    npu, bench = (
        without_statistics(recording(rank(pairs / name / side))) for side in ("npu", "bench")
    )
    found: dict[tuple[bool, str], set[str]] = {}
    for kind, *said_of in said(npu.source(), bench.source()):
        if kind == "likely":
            is_bench, node, candidate = said_of[:3]
            found.setdefault((bool(is_bench), str(node)), set()).add(str(candidate))
    names = bench.data, npu.data
    known = 0
    for (is_bench, node), candidates in found.items():
        behind = node.replace(".forward", ".backward")
        wanted = {one.replace(".forward", ".backward") for one in candidates} & set(names[is_bench])
        if behind != node and behind in names[not is_bench] and wanted:
            known += 1
            assert found.get((is_bench, behind), set()) == wanted
    assert known > 10
