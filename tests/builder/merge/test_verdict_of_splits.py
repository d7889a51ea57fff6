"""No training is accused for how it was split: same weights, same data, other ranks."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from merge_truth import OTHER_SPLITS, SPLITS, SPREAD_SPLITS, Split
from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.worded import worded

# Buffers kept from one call to the next, gathered tensors without history, functions with a
# backward of their own, gradient norms of the parameters that a stage has, keys and values that
# several ranks hold, and a weight that two stages hold. Other tests see moe_tp2sp, megatron_tp2pp2
# and megatron_tp2pp1dp2 to be clean.
TELLING = (
    *("context_tp2cp2sp", "context_cp2ring", "optimizer_tp1pp2vpp2", "heads_tp4", "tied_tp1pp2"),
    *("grouped_tp2sp", "ring_tp2cp2", "halves_tp2pp2sp"),
)


LINEAR = "Torch.LinearWithGradAccumulationAndAsyncCommunication.0.forward"


def judge(split: Split, folder: Path, truth: Path, output: Path) -> list[tuple[str, str]]:
    """Conclusions and sentences of the verdict."""
    layout = parse_layout(split.layout, split.name)
    config = BuildConfig(
        folder / "step0",
        truth / "step0",
        npu_layout=layout,
        bench_layout=parse_layout({"rank_size": layout.dp, "tp": 1, "pp": 1}, split.truth),
    )
    result = build(config, output, workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        found = worded(connection.execute("SELECT conclusion, sentence FROM verdict"))
    assert found
    return found


@pytest.mark.parametrize(
    "split",
    [
        pytest.param(one, id=one.name, marks=() if one.name in TELLING else pytest.mark.slow)
        for one in (*SPLITS, *OTHER_SPLITS, *SPREAD_SPLITS)
    ],
)
def test_no_fault_is_found_against_the_unsplit_run(
    split: Split, dumps: Path, tmp_path: Path
) -> None:
    found = judge(split, dumps / split.name, dumps / split.truth, tmp_path)
    assert [sentence for conclusion, sentence in found if conclusion != "clean"] == []


def test_what_merging_cannot_tell_is_not_accused_behind_what_was_drawn(
    dumps: Path, tmp_path: Path
) -> None:
    """Each rank masks the gradients of words that others have, so what enters is unknown."""
    split = Split("drawn_tp2sp", {"rank_size": 2, "tp": 2, "pp": 1}, "drawn_tp1")
    for conclusion, sentence in judge(
        split, dumps / split.name, dumps / split.truth, tmp_path / "out"
    ):
        assert conclusion == "undecided"
        assert "embedding_dropout → Functional.dropout.0.forward" in sentence
        assert "was drawn otherwise from inputs that agree" in sentence


def edited(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a dump with the records of all ranks changed alike."""
    shutil.copytree(source, target)
    for path in target.glob("step0/rank*/dump.json"):
        content = json.loads(path.read_text("utf-8"))
        change(content["data"])
        path.write_text(json.dumps(content), encoding="utf-8")
    return target


@pytest.mark.parametrize("size", [[64, 32], [500]])
def test_a_gradient_that_nobody_saw_added_up_is_looked_at_first(
    size: list[int], dumps: Path, tmp_path: Path
) -> None:
    """Whether or not an optimizer that shares parameters out goes through flat parts of them."""

    def change(data: dict[str, Any]) -> None:
        data["Torch.norm.0.forward"]["input_args"][0]["shape"] = size
        norm = data["Torch.norm.10.forward"]
        for tensor in (norm["input_args"][0], norm["output"][0]):
            for key in ("Max", "Min", "Mean", "Norm"):
                tensor[key] *= 3

    folder = edited(dumps / "tied_tp1pp1", tmp_path / "changed", change)
    config = BuildConfig(folder / "step0", dumps / "tied_tp1pp1" / "step0")
    result = build(config, tmp_path / "out", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        found = worded(connection.execute("SELECT conclusion, sentence FROM verdict"))
    assert {conclusion for conclusion, _ in found} == {"undecided"}, found
    assert all("look first at Torch.norm.10.forward" in sentence for _, sentence in found)


def _stops_dropping(data: dict[str, Any]) -> None:
    data["Functional.dropout.3.forward"]["input_kwargs"]["training"]["value"] = False


def _puts_out_more(data: dict[str, Any]) -> None:
    [output] = data[LINEAR]["output"]
    for key in ("Max", "Min", "Mean", "Norm"):
        output[key] *= 1.05


@pytest.mark.parametrize(
    ("change", "concluded", "told"),
    [
        (
            None,
            "clean",
            f"explains: 3; first {LINEAR}, argument 5 is True, False in the reference.",
        ),
        # A flag outside of parallel layers, and one of a layer that puts out something else.
        (_stops_dropping, "undecided", "Argument training is False, True in the reference."),
        (_puts_out_more, "fault", "Argument 5 is True, False in the reference."),
    ],
)
def test_only_flags_of_layers_that_agree_are_explained(
    change: Callable[[dict[str, Any]], None] | None,
    concluded: str,
    told: str,
    dumps: Path,
    tmp_path: Path,
) -> None:
    [split] = [one for one in SPREAD_SPLITS if one.name == "moe_tp2sp"]
    folder = dumps / split.name
    if change is not None:
        folder = edited(folder, tmp_path / "changed", change)
    conclusion, sentence = judge(split, folder, dumps / split.truth, tmp_path / "out")[0]
    assert told in sentence
    assert conclusion == concluded
    place = LINEAR if change is not _stops_dropping else "Functional.dropout.3.forward"
    assert place in sentence
