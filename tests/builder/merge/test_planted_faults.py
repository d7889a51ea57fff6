"""Faults of one of two or four tensor-parallel ranks, trained and recorded, against one rank."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest
import torch.distributed as dist

from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.parallel_model import Split, dump
from tests.builder.merge.planted_faults import FAULTS, RANK, dump_all
from tests.worded import worded

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch was built without it")

# The first call or module that is coloured with nothing coloured inside.
FIRST = {
    "drifted norm": "Module.layers.1.pre_mlp_layernorm.RMSNorm.forward.0",
    "last norm drifted": "Module.norm.RMSNorm.forward.0",
    "larger shard": "Module.layers.1.self_attention.linear_proj.RowParallelLinear.forward.0",
    "larger head": "Module.output_layer.ColumnParallelLinear.forward.0",
    "dropped reduction": "Module.layers.0.mlp.linear_fc2.RowParallelLinear.forward.0",
    "no reduction": "Torch.matmul.11.forward",  # inside of layers.1.mlp.linear_fc2
    "another epsilon": "Tensor.__add__.4.forward",  # of epsilon to the mean square
    "another scale": "Torch.softmax.1.forward",
    "layers swapped": "Tensor.__mul__.2.forward",  # by the weight of the first norm
    # Statistics of the weights are as they should be; what follows from them is not.
    "keys and values exchanged": "Torch.split.0.forward",
    "rows of words exchanged": "Functional.embedding.0.forward",
    "words shifted": "Functional.embedding.0.forward",
}
# How the verdict begins.
ACCUSED = {
    "drifted norm": "Module.layers.1 → Module.layers.1.pre_mlp_layernorm.",
    "last norm drifted": "Module.norm.",
    "larger shard": "Module.layers.1.self_attention → Module.layers.1.self_attention.linear_proj.",
    "larger head": "Module.output_layer.",
    "dropped reduction": "Module.layers.0.mlp → Module.layers.0.mlp.linear_fc2.",
    "no reduction": "Module.layers.1.mlp → Module.layers.1.mlp.linear_fc2.",
    "another epsilon": "Module.layers.1.input_layernorm → Tensor.__add__.4.",
    "another scale": "Module.layers.1.self_attention → Torch.softmax.1.",
    "layers swapped": "Module.layers.0 → Module.layers.0.input_layernorm.",
    # The split shows it; the product has the weight whose rows are exchanged.
    "keys and values exchanged": "Module.layers.0.self_attention → Torch.split.0.",
    "rows of words exchanged": "Module.embedding → Functional.embedding.0.",
    "words shifted": "Module.embedding → Functional.embedding.0.",
}
# What merging, or statistics, cannot tell: of a buffer, and of rows that stand at other places.
UNCERTAIN = ("another scale", "keys and values exchanged")
# Those that say themselves which rank it is.
NAMED = ("drifted norm", "last norm drifted", "larger shard", "larger head")
NAMED_TOO = ("dropped reduction", "another epsilon")


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, BuildResult]:
    folder = tmp_path_factory.mktemp("faults")
    dump_all(folder, ranks=request.param)
    whole = dump(folder / "whole", Split(task="statistics"))
    layouts = [
        parse_layout({"rank_size": size, "tp": size, "pp": 1}, "") for size in (request.param, 1)
    ]
    return {
        name: build(
            BuildConfig(
                folder / name.replace(" ", "_") / "dump" / "step0",
                whole,
                npu_layout=layouts[0],
                bench_layout=layouts[1],
            ),
            folder / "out" / name,
            workers=1,
        )
        for name in FAULTS
    }


def query(result: BuildResult, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.path)) as connection:
        return worded(connection.execute(sql))


def coloured(result: BuildResult) -> list[str]:
    rows = query(
        result,
        "SELECT name, parent FROM node_view WHERE side = 'npu' AND kind != 'collection'"
        " AND grade NOT IN ('ok', 'ungraded', 'unmatched') ORDER BY seq",
    )
    around = {parent for _, parent in rows}
    return [name for name, _ in rows if name not in around]


def disagreements(result: BuildResult) -> list[tuple[Any, ...]]:
    return query(
        result,
        "SELECT name, rank, suspect, is_origin FROM disagreement JOIN node_name USING (node_id)"
        " ORDER BY node_id",
    )


def test_without_a_fault_nothing_is_coloured(results: dict[str, BuildResult]) -> None:
    assert coloured(results["none"]) == []
    assert disagreements(results["none"]) == []


def test_every_fault_is_tried() -> None:
    assert {"none", *FIRST} == set(FAULTS)


@pytest.mark.parametrize("fault", FIRST)
def test_the_fault_is_the_first_wrong_node(fault: str, results: dict[str, BuildResult]) -> None:
    assert coloured(results[fault])[0] == FIRST[fault]


@pytest.mark.parametrize("fault", [*NAMED, *NAMED_TOO])
def test_the_rank_is_named(fault: str, results: dict[str, BuildResult]) -> None:
    found = [one for one in disagreements(results[fault]) if one[0] == FIRST[fault]]
    assert found
    assert {tuple(said) for _, *said in found} == {(RANK, RANK, 1)}


@pytest.mark.parametrize("fault", ["keys and values exchanged", "rows of words exchanged"])
def test_what_statistics_cannot_tell_is_said(fault: str, results: dict[str, BuildResult]) -> None:
    module = "linear_qkv.ColumnParallelLinear" if "keys" in fault else "VocabParallelEmbedding"
    [(recipe,)] = query(
        results[fault],
        "SELECT recipe FROM tensor_view JOIN recipe_view USING (node_id, ordinal)"
        f" WHERE side = 'npu' AND node LIKE 'Module.%{module}.forward.0'"
        " AND name = 'parameters.weight' ORDER BY node_id LIMIT 1",
    )
    assert "whether elements are in their places cannot be told from statistics" in recipe


@pytest.mark.parametrize("fault", FIRST)
def test_the_verdict_accuses_the_module_of_the_fault(
    fault: str, results: dict[str, BuildResult]
) -> None:
    [(conclusion, sentence)] = query(
        results[fault], "SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL"
    )
    assert conclusion == ("undecided" if fault in UNCERTAIN else "fault")
    assert sentence.removeprefix("Nothing certain; look first at ").startswith(ACCUSED[fault])


@pytest.mark.parametrize(
    ("fault", "layer"),
    [
        ("dropped reduction", "Module.layers.0.mlp.linear_fc2"),  # on one rank
        ("no reduction", "Module.layers.1.mlp.linear_fc2"),  # on both
    ],
)
def test_the_verdict_accuses_the_layer_that_lacks_its_reduction(
    fault: str, layer: str, results: dict[str, BuildResult]
) -> None:
    [(conclusion, sentence)] = query(
        results[fault], "SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL"
    )
    assert conclusion == "fault"
    assert f"{layer}.RowParallelLinear.forward.0 (" in sentence.partition(": ")[0]
    assert "Ranks that should be alike are not. In output.0 rank 1 has max " in sentence
