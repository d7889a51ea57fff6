"""What merging cannot tell accuses nobody; a factor that one rank alone gives names the rank."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.flow.dimensions import PER_EXPERT, Cut
from msprobe_builder.merge.flow.parallel_layers import parameter_state
from msprobe_builder.merge.flow.share import REPLICA, UNKNOWN, Share, State
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.faults import Record, change_rank, same, scale
from tests.cases import REPEATED, tried_first
from tests.worded import worded

HEADS = {"rank_size": 4, "tp": 4, "pp": 1}


def verdict(
    npu: Path,
    bench: Path,
    output: Path,
    layout: dict[str, int],
    whole: dict[str, int] | None = None,
) -> list[tuple[str, str]]:
    """Conclusions and sentences, that on all ranks first."""
    result = build(
        BuildConfig(
            npu / "step0",
            bench / "step0",
            npu_layout=parse_layout(layout, "npu"),
            bench_layout=parse_layout(whole or {"rank_size": 1, "tp": 1, "pp": 1}, "bench"),
        ),
        output,
        workers=1,
    )
    with closing(sqlite3.connect(result.path)) as connection:
        return worded(
            connection.execute("SELECT conclusion, sentence FROM verdict ORDER BY rank IS NOT NULL")
        )


def scale_everywhere(records: Record, tensor: dict[str, Any], factor: float) -> None:
    for record in records.values():
        for one in [*record.get("input_args", ()), *(record.get("output") or ())]:
            if same(one, tensor):
                scale(one, factor)
    scale(tensor, factor)


def test_a_product_of_keys_that_nobody_compared_is_not_accused_for_sure(
    dumps: Path, tmp_path: Path
) -> None:
    """Two ranks hold the same keys, so they are unknown until queries meet them."""
    module = "Module.decoder.layers.0.self_attention.core_attention.DotProductAttention.forward.0"

    def change(records: Record) -> None:
        for name in ("Torch.baddbmm.0.forward", module):  # which shows what comes of it
            scale_everywhere(records, records[name]["output"][0], 1.3)

    changed = change_rank(dumps / "heads_tp4", tmp_path / "changed", 1, change)
    conclusion, sentence = verdict(changed, dumps / "heads_tp1", tmp_path / "out", HEADS)[0]
    assert conclusion == "undecided"
    assert "Torch.baddbmm.0.forward" in sentence
    assert "Nobody can compare input.0 and input.2, which merging could not tell" in sentence
    assert "The inputs agree" not in sentence


def _normalises_by_another_epsilon(records: Record) -> None:
    norm = records["Functional.rms_norm.4.forward"]
    norm["input_args"][3]["value"] = 0.1
    scale_everywhere(records, norm["output"][0], 0.6)


def test_a_rank_that_normalises_by_another_epsilon_is_named(dumps: Path, tmp_path: Path) -> None:
    """What rank 3 normalises is its slice of a sequence: no other rank has it to compare with."""
    changed = change_rank(
        dumps / "halves_tp2pp2sp", tmp_path / "changed", 3, _normalises_by_another_epsilon
    )
    layout = {"rank_size": 4, "tp": 2, "pp": 2}
    conclusion, sentence = verdict(changed, dumps / "halves_tp1", tmp_path / "out", layout)[0]
    assert conclusion == "fault"
    assert sentence.startswith("Module.decoder.final_layernorm → Functional.rms_norm.8.forward ")
    assert "Argument 3 is 1e-05 on rank 2 and 0.1 on rank 3." in sentence


@pytest.mark.parametrize("is_right", tried_first([False, True], 1, REPEATED))
def test_ranks_of_a_reference_that_differ_as_well_tell_of_no_rank(
    dumps: Path, tmp_path: Path, is_right: bool
) -> None:
    """The reference shows the argument of its first rank, which need not be the right one."""
    split = dumps / "halves_tp2pp2sp"
    npu = change_rank(split, tmp_path / "npu", 3, _normalises_by_another_epsilon)
    bench = split
    if not is_right:
        bench = change_rank(split, tmp_path / "bench", 2, _normalises_by_another_epsilon)
    layout = {"rank_size": 4, "tp": 2, "pp": 2}
    verdict(npu, bench, tmp_path / "out", layout, layout)
    [path] = (tmp_path / "out").glob("*.vis.db")
    with closing(sqlite3.connect(path)) as connection:
        [(ranks,)] = connection.execute(
            "SELECT ranks FROM suspect JOIN node_name USING (node_id)"
            " WHERE name = 'Functional.rms_norm.8.forward'"
        )
    assert ranks == ("3" if is_right else None)


def test_norms_that_other_ranks_lack_prove_nothing(dumps: Path, tmp_path: Path) -> None:
    """Ranks go through their own parts of parameters, one through more of them than another."""
    layout, whole = {"rank_size": 4, "tp": 2, "pp": 1}, {"rank_size": 2, "tp": 1, "pp": 1}
    found = verdict(
        dumps / "sharded_tp2dp2", dumps / "replicas_dp2", tmp_path / "out", layout, whole
    )
    assert {conclusion for conclusion, _ in found} == {"clean"}
    assert all("goes through other parts of parameters" in sentence for _, sentence in found[1:])
    assert not any("does not follow" in sentence for _, sentence in found)
    assert not any("is not what follows" in sentence for _, sentence in found)


def test_ranks_that_count_their_own_tokens_are_not_accused_for_sure(
    dumps: Path, tmp_path: Path
) -> None:
    """Megatron divides by the tokens of a rank, and averages over the ranks afterwards."""
    layout = {"rank_size": 2, "tp": 1, "pp": 1, "cp": 2}
    conclusion, sentence = verdict(
        dumps / "counted_cp2", dumps / "counted_tp1", tmp_path / "out", layout
    )[0]
    assert conclusion == "undecided"
    assert "Torch.tensor.2.forward" in sentence
    assert "Argument 0 is 16, 32 in the reference." in sentence


def test_what_a_ring_puts_out_tells_of_what_goes_on_inside(dumps: Path, tmp_path: Path) -> None:
    """The same split with its first block off is accused: the module puts out something else."""
    layout = {"rank_size": 4, "tp": 2, "pp": 1, "cp": 2}
    module = "Module.decoder.layers.0.self_attention.core_attention"
    name = f"{module}.CPDotProductAttention.forward.0"

    def change(records: Record) -> None:
        scale_everywhere(records, records[name]["output"][0], 1.2)

    changed = change_rank(dumps / "ring_tp2cp2", tmp_path / "changed", 2, change)
    conclusion, sentence = verdict(changed, dumps / "ring_tp1", tmp_path / "out", layout)[0]
    # The one call of the module that ranks give other numbers, of whose parts it makes the whole.
    assert conclusion == "undecided"
    assert f"look first at {module} → Torch.AttentionWithCp.0.forward (" in sentence


@pytest.mark.parametrize(
    ("layer", "parameter", "state"),
    [
        ("MindSpeedTELayerNormColumnParallelLinear", "weight", State(Share.SHARD, Cut(0))),
        ("MindSpeedTELayerNormColumnParallelLinear", "layer_norm_weight", REPLICA),
        ("MC2RowParallelLinearImpl", "weight", State(Share.SHARD, Cut(1))),
        ("GroupedMLP", "weight1", State(Share.SHARD, Cut(1, PER_EXPERT))),
        ("GroupedMLP", "weight2", State(Share.SHARD, Cut(0, PER_EXPERT))),
        # Along two dimensions: ranks differ in it, and are no replicas that drifted.
        ("ParallelLinear2D", "weight", UNKNOWN),
    ],
)
def test_what_layers_of_other_names_hold(layer: str, parameter: str, state: State) -> None:
    assert parameter_state(layer, parameter) == state
