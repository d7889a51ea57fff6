"""Splits that are written in an own style, over gloo: correct ones are clean, faults are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe_builder.merge.detect import AutoLayout
from tests.faults.splits.faults import FAULTS
from tests.faults.splits.modern_faults import OF_MODERN, OF_OTHERS
from tests.faults.splits.score import judged, record, score

# Their recordings are judged each time (tests/recorded/splits); here they are recorded anew.
pytestmark = pytest.mark.slow

# Layers without known names; a sequence in two parts, of which each rank averages its own loss;
# stages whose ranks are numbered first; tensors that PyTorch cuts along two meshes; replicas beside
# one rank that has their batches; the schedules of torch's own pipelines; and what modern decoders
# and models of pictures are made of.
FOUND = {
    "own_tp2": ("shard scaled", "NaN on one rank", "reduction missing on one rank"),
    "cp2tp2": (
        "rotary offset of one tp rank",
        "rotary offset of one cp rank",
        "scale of one rank",
    ),
    "ulysses_tp2": ("norm drifted",),
    "order_pp2tp2": ("weight of one rank",),
    "fsdp_tp2dp2": (),
    "dp2_one": ("epsilon of one replica", "weight of one replica"),
    **dict.fromkeys(
        ("pipe_1f1b", "pipe_interleaved", "pipe_zero_bubble", "pipe_v", "pipe_dual_v"),
        ("weight of a stage", "epsilon of a stage"),
    ),
    **{
        split: tuple(one.name for one in (*OF_MODERN, *OF_OTHERS) if one.split == split)
        for split in sorted({one.split for one in (*OF_MODERN, *OF_OTHERS)})
    },
}
# Its replicas share the part that is off: which of their ranks it came from, no number tells.
OF_ALL = {("fsdp_tp2pp2dp2", "weight of a rank")}
# "auto" refuses another numbering of ranks, with what to declare.
TOLD = {
    "own_tp2": "tp 2 (collectives of parallel layers over ranks [0, 1])",
    "cp2tp2": "cp 2 (attention gathers or exchanges over ranks [0, 2])",
    "ulysses_tp2": "cp 2 (attention gathers or exchanges over ranks [0, 2])",
    "fsdp_tp2dp2": "dp 2 (what is left)",
    "dp2_one": "dp 2 (what is left)",
    "pipe_1f1b": "pp 2 (sends between ranks 0 and 1)",
    **dict.fromkeys(
        ("pipe_interleaved", "pipe_zero_bubble", "pipe_v", "pipe_dual_v"),
        "pp 2 (sends between ranks 0 and 1), vpp 2 (model chunks in names of modules)",
    ),
}


@pytest.fixture(scope="module", params=FOUND)
def split(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a split, named after it, with the runs of it."""
    folder = tmp_path_factory.mktemp("splits")
    record(folder, request.param, FOUND[request.param])
    return folder / str(request.param)


def test_a_correct_split_is_clean(split: Path) -> None:
    verdict, _, found = judged(split.parent, split.name, "right")
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
    assert "replicas_disagree" not in {one.code for one in found}


def test_its_layout_is_found(split: Path) -> None:
    if split.name not in TOLD:
        pytest.skip("its order must be declared")
    verdict, _, found = judged(split.parent, split.name, "right", AutoLayout())
    [told] = [one for one in found if one.code == "layout_found"]
    assert TOLD[split.name] in told.message
    assert told.severity == "info"
    assert verdict.conclusion == "clean"


def test_a_fault_is_named_with_its_rank(split: Path) -> None:
    for name in FOUND[split.name]:
        [fault] = [one for one in FAULTS if (one.split, one.name) == (split.name, name)]
        verdict, path, _ = judged(split.parent, split.name, name)
        wanted = "right node, all ranks" if (split.name, name) in OF_ALL else "right"
        assert score(fault, verdict, path) == f"{wanted} strong", (name, verdict.sentence)
