"""Splits of a real model over gloo, with tensors and checksums, against the unsplit training."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe_builder import BuildConfig, BuildResult, build, export_merged
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_builder.rematch.edits import MATCH, UNMATCH, Edits
from msprobe_builder.rematch.graphs import read_pairs
from msprobe_builder.rematch.operations import Operation, carry_out
from msprobe_builder.rematch.refresh import refresh
from tests.builder.integrity import check
from tests.builder.merge.parallel_model import HEADS, HIDDEN, INNER, Split, dump
from tests.cases import REPEATED, tried_first
from tests.worded import worded

MakeDump = Callable[[Split], Path]
Compare = Callable[[Split], BuildResult]
# Modules without the calls inside, where a test is of these: a build takes a quarter of the time.
MODULES, WHOLE = Split(2, level="L0"), Split(level="L0")
ROWS = (
    "SELECT node, name, one_thousandth_ratio, cosine, max_abs_err, note"
    " FROM tensor_view WHERE side = 'npu' AND matched IS NOT NULL"
)


@pytest.fixture(scope="module")
def dump_of(tmp_path_factory: pytest.TempPathFactory) -> MakeDump:
    """The dump of a split, made once."""
    made: dict[Split, Path] = {}

    def make(split: Split) -> Path:
        if split not in made:
            made[split] = dump(tmp_path_factory.mktemp("split") / "run", split)
        return made[split]

    return make


@pytest.fixture(scope="module")
def compared(dump_of: MakeDump, tmp_path_factory: pytest.TempPathFactory) -> Compare:
    """A split against the unsplit model, built once: what a test gets is not to be changed."""
    made: dict[Split, BuildResult] = {}

    def make(split: Split) -> BuildResult:
        if split not in made:
            whole = dump_of(Split(task=split.task, level=split.level))
            made[split] = compare(dump_of(split), whole, split, tmp_path_factory.mktemp("compared"))
        return made[split]

    return make


def compare(
    npu: Path, bench: Path, split: Split, output: Path, export_to: Path | None = None
) -> BuildResult:
    sizes = {"rank_size": split.tp * split.pp, "tp": split.tp, "pp": split.pp}
    config = BuildConfig(
        npu,
        bench,
        npu_layout=parse_layout(sizes, "npu"),
        bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "bench"),
    )
    return build(config, output, workers=1, export_to=export_to)


def query(result: BuildResult, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.path)) as connection:
        return worded(connection.execute(sql, values))


@pytest.mark.parametrize(
    "split", tried_first([Split(2), Split(2, 2), Split(1, 2)], 1, REPEATED), ids=str
)
def test_every_tensor_equals_that_of_the_unsplit_model(split: Split, compared: Compare) -> None:
    result = compared(split)
    check(result.path).close()
    rows = query(result, ROWS)
    assert len(rows) > 1000
    unknown = {name for name, *_, note in rows if note}
    if split.tp == 1:
        assert not unknown
    # What looks up words works with a mask of the rank's own, which leaves nothing to compare.
    masked = ("Functional.embedding.", "Tensor.masked_fill.", "Tensor.__getitem__.", "Tensor.__")
    assert all(name.startswith(masked) for name in unknown)
    for name, tensor, ratio, cosine, error, note in rows:
        if not note:
            assert ratio > 0.97, (name, tensor)  # elements next to zero are off by more
            assert cosine > 1 - 1e-9 or error < 1e-6, (name, tensor)
            assert error < 1e-4, (name, tensor)
    assert not query(
        result,
        "SELECT name FROM node_view WHERE grade NOT IN ('ok', 'ungraded') AND grade != 'unmatched'",
    )
    assert "replicas_disagree" not in {one.code for one in result.diagnostics}


def test_with_modules_alone_the_order_that_agrees_is_found(
    dump_of: MakeDump, tmp_path: Path
) -> None:
    split = Split(2, level="L0")
    result = compare(dump_of(split), dump_of(Split(level="L0")), split, tmp_path)
    rows = query(result, ROWS)
    assert all(ratio > 0.97 and error < 1e-4 for *_, ratio, _, error, _ in rows)
    noted = {name for name, *_, note in rows if note is not None and note.startswith("order:")}
    assert noted
    assert all("linear_qkv" in name or "linear_fc1" in name for name in noted)


def test_a_wrong_shard_is_the_first_wrong_node(dump_of: MakeDump, tmp_path: Path) -> None:
    split = Split(2, 2, faulty_rank=3, level="L0")
    result = compare(dump_of(split), dump_of(WHOLE), split, tmp_path)
    weights = query(
        result,
        "SELECT node FROM tensor_view WHERE side = 'npu' AND name = 'parameters.weight'"
        " AND one_thousandth_ratio < 0.9",
    )
    # Rank 3 holds the second layer, which it calls the first.
    layer = "Module.layers.1.mlp.linear_fc1.ColumnParallelLinear"
    assert weights == [(f"{layer}.forward.{call}",) for call in range(2)]
    wrong = query(
        result,
        "SELECT name FROM node_view WHERE side = 'npu' AND grade = 'severe' ORDER BY seq LIMIT 2",
    )
    assert [name for (name,) in wrong] == [
        "Module.layers.1.Layer.forward.0",
        "Module.layers.1.mlp.MLP.forward.0",
    ]


def test_checksums_stay_where_no_tensor_was_split(dump_of: MakeDump, tmp_path: Path) -> None:
    split = Split(1, 2, task="md5")
    result = compare(dump_of(split), dump_of(Split(task="md5")), split, tmp_path)
    counts = query(
        result,
        "SELECT md5_equal, count(*) FROM tensor_view WHERE side = 'npu' AND matched IS NOT NULL"
        " GROUP BY md5_equal",
    )
    assert [equal for equal, _ in counts] == [1]
    assert counts[0][1] > 1000


def test_checksums_of_parts_are_unknown(dump_of: MakeDump, tmp_path: Path) -> None:
    split = Split(2, task="md5")
    result = compare(dump_of(split), dump_of(Split(task="md5")), split, tmp_path)
    rows = query(
        result,
        "SELECT node, name, md5_equal, recipe FROM tensor_view"
        " LEFT JOIN recipe_view USING (node_id, ordinal)"
        " WHERE side = 'npu' AND matched IS NOT NULL AND node LIKE 'Module.%'",
    )
    by_name = {(name, tensor): (equal, recipe) for name, tensor, equal, recipe in rows}
    layer = "Module.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0"
    equal, recipe = by_name[layer, "parameters.weight"]
    assert equal is None
    assert "checksum unknown" in recipe
    norm = by_name["Module.layers.0.input_layernorm.RMSNorm.forward.0", "parameters.weight"]
    assert norm == (1, "alike on ranks 0, 1; because the other side has it in this shape, whole")
    grades = dict(query(result, "SELECT name, grade FROM node_view WHERE side = 'npu'"))
    assert grades[layer] in ("ungraded", "severe")  # not known to be right


def test_replicas_are_compared_element_by_element(dump_of: MakeDump, tmp_path: Path) -> None:
    """Turned around a tensor keeps its statistics, but it is not what the other rank holds."""
    name = "Module.layers.0.input_layernorm.RMSNorm.forward.0.parameters.weight.pt"
    npu = Path(shutil.copytree(dump_of(MODULES), tmp_path / "npu"))
    turned = npu / "rank1" / "dump_tensor_data" / name
    weight = torch.load(turned, weights_only=True)
    torch.save(weight.flip(0).contiguous(), turned)
    result = compare(npu, dump_of(WHOLE), MODULES, tmp_path / "out")
    [finding] = [one for one in result.diagnostics if one.code == "replicas_disagree"]
    assert (finding.subject, finding.side, finding.count) == (name, 0, 1)
    assert "elements" in finding.message


def test_replicas_whose_statistics_differ_are_reported_once(
    dump_of: MakeDump, tmp_path: Path
) -> None:
    name = "Module.layers.0.input_layernorm.RMSNorm.forward.0"
    npu = Path(shutil.copytree(dump_of(MODULES), tmp_path / "npu"))
    rank = npu / "rank1"
    file = rank / "dump_tensor_data" / f"{name}.parameters.weight.pt"
    torch.save(torch.load(file, weights_only=True) * 1.5, file)
    dump_json = json.loads((rank / "dump.json").read_text(encoding="utf-8"))
    weight = dump_json["data"][name]["parameters"]["weight"]
    weight |= {key: weight[key] * 1.5 for key in ("Max", "Min", "Mean", "Norm")}
    (rank / "dump.json").write_text(json.dumps(dump_json), encoding="utf-8")
    result = compare(npu, dump_of(WHOLE), MODULES, tmp_path / "out")
    [finding] = [one for one in result.diagnostics if one.code == "replicas_disagree"]
    assert finding.subject == f"{name} parameters.weight of ranks 0, 1"
    assert (finding.side, finding.count) == (0, 1)


def test_a_missing_file_of_one_rank_is_said(dump_of: MakeDump, tmp_path: Path) -> None:
    name = "Module.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0.output.0.pt"
    npu = Path(shutil.copytree(dump_of(MODULES), tmp_path / "npu"))
    (npu / "rank1" / "dump_tensor_data" / name).unlink()
    result = compare(npu, dump_of(WHOLE), MODULES, tmp_path / "out")
    notes = query(result, "SELECT note FROM tensor_view WHERE note LIKE '%pair.missing%'")
    assert notes == [(f"missing: debug, {name} cannot be opened",)]


def test_the_gated_projection_is_joined_block_by_block(compared: Compare) -> None:
    result = compared(Split(2))
    [(recipe, shape)] = query(
        result,
        "SELECT recipe, shape FROM tensor_view JOIN recipe_view USING (node_id, ordinal)"
        " WHERE side = 'npu' AND name = 'parameters.weight'"
        " AND node = 'Module.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0'",
    )
    assert "shards of ranks 0, 1 along dimension 0 block by block (1 : 1)" in recipe
    assert shape == str([2 * INNER, HIDDEN])


def test_matching_by_hand_measures_merged_tensors_again(compared: Compare, tmp_path: Path) -> None:
    built = compared(Split(2))
    result = replace(built, path=Path(shutil.copy(built.path, tmp_path)))
    everything = (
        "SELECT * FROM comparison ORDER BY npu_node, npu_ordinal",
        "SELECT node_id, error, grade FROM node ORDER BY node_id",
    )
    before = [query(result, one) for one in everything]
    names = [
        "Module.layers.0.mlp.MLP.forward.0",  # with the fused projection
        "Functional.embedding.0.forward",  # with what stays unknown
    ]
    for action in (UNMATCH, MATCH):
        with closing(sqlite3.connect(result.path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            [pair] = read_pairs(connection)
            edits = Edits(connection)
            for name in names:
                npu, bench = (
                    int(
                        connection.execute(
                            "SELECT node_id FROM node_view WHERE name = ? AND side = ?",
                            (name, side),
                        ).fetchone()[0]
                    )
                    for side in ("npu", "bench")
                )
                carry_out(edits, pair, [Operation(action, npu, bench, name == names[0])])
            npu_nodes = {one.npu for one in edits.changes}
            refresh(connection, [pair], npu_nodes, {one.bench for one in edits.changes})
            connection.execute("COMMIT")
        if action == UNMATCH:
            assert len(query(result, everything[0])) < len(before[0]) - 20
    note = "SELECT npu_node, npu_ordinal, value FROM comparison JOIN text ON text_id = note_id"
    assert query(result, note)
    assert [query(result, one) for one in everything] == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "split",
    [
        pytest.param(Split(2), marks=pytest.mark.slow),
        Split(2, 2),
        pytest.param(Split(2, level="L0"), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_an_export_has_the_data_of_the_merged_model(
    split: Split, dump_of: MakeDump, tmp_path: Path
) -> None:
    truth = dump_of(Split(level=split.level))
    merged = compare(dump_of(split), truth, split, tmp_path / "out", tmp_path / "exported")
    dump, bench = (tmp_path / "exported" / side / "step0" / "rank0" for side in ("npu", "bench"))
    config = BuildConfig(dump, bench, options=BuildOptions(layer_mapping=True))
    again = build(config, tmp_path / "again", workers=1)
    before, after = query(merged, ROWS), query(again, ROWS)
    assert [row[:2] for row in before] == [row[:2] for row in after]
    compared = 0
    for (*place, note), (*other, other_note) in zip(before, after, strict=True):
        if note is None:
            assert (place, other_note) == (other, None)
            compared += 1
        else:  # which elements it has is not known for sure, so there is no file
            assert note.startswith(("unmerged", "order"))
            assert other_note.startswith("unsaved: debug, dump.json names no file")
    assert compared > len(before) * 3 / 4
    names = {path.name for path in (dump / "dump_tensor_data").iterdir()}
    own = {path.name for path in (truth / "rank0" / "dump_tensor_data").iterdir()}
    assert len(names & own) > compared * 3 / 4  # named as the collector names them
    for name in sorted(one for one in names & own if one.startswith("Module.")):
        files = [folder / "dump_tensor_data" / name for folder in (dump, truth / "rank0")]
        one, two = (torch.load(file, weights_only=True) for file in files)
        assert (one.dtype, one.shape) == (two.dtype, two.shape)


def test_an_export_leaves_out_what_cannot_be_read(dump_of: MakeDump, tmp_path: Path) -> None:
    name = "Module.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0.output.0.pt"
    npu = Path(shutil.copytree(dump_of(Split(2)), tmp_path / "npu"))
    (npu / "rank1" / "dump_tensor_data" / name).write_bytes(b"nothing")
    layout = parse_layout({"rank_size": 2, "tp": 2, "pp": 1}, "npu")
    config = BuildConfig(npu, npu_layout=layout)
    result = export_merged(config, tmp_path / "exported", workers=1)
    [finding] = [one for one in result.diagnostics if one.code == "tensor_unreadable"]
    assert (finding.subject, finding.count) == (name.removesuffix(".pt"), 1)
    dump = tmp_path / "exported" / "npu" / "step0" / "rank0"
    data = json.loads((dump / "dump.json").read_text(encoding="utf-8"))["data"]
    call = data["Module.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0"]
    assert "data_name" not in call["output"][0]
    assert (dump / "dump_tensor_data" / call["input_args"][0]["data_name"]).is_file()
    assert not (dump / "dump_tensor_data" / name).exists()


def exchange_words(weight: torch.Tensor) -> torch.Tensor:
    """The same rows of an embedding, two of them in each other's place."""
    changed = weight.clone()
    changed[[2, 5]] = weight[[5, 2]]
    return changed


def exchange_keys_and_values(weight: torch.Tensor) -> torch.Tensor:
    """Each head has its query, key and value side by side."""
    heads = weight.clone().view(HEADS // 2, 3, HIDDEN // HEADS, HIDDEN)
    heads[:, [1, 2]] = heads[:, [2, 1]]
    return heads.reshape(weight.shape)


@pytest.mark.parametrize(
    ("module", "exchange", "split"),
    [
        ("embedding.VocabParallelEmbedding", exchange_words, MODULES),
        (
            "layers.1.self_attention.linear_qkv.ColumnParallelLinear",
            exchange_keys_and_values,
            Split(2),  # calls tell how it is cut
        ),
    ],
)
@pytest.mark.parametrize("rank", tried_first([0, 1]))
def test_elements_exchanged_within_a_shard_name_the_rank(
    module: str,
    exchange: Callable[[torch.Tensor], torch.Tensor],
    split: Split,
    rank: int,
    dump_of: MakeDump,
    tmp_path: Path,
) -> None:
    folder = shutil.copytree(dump_of(split), tmp_path / "run")
    files = [*folder.glob(f"rank{rank}/dump_tensor_data/Module.{module}.*parameters.weight.pt")]
    assert len(files) == 2  # micro-batches
    for path in files:
        weight = torch.load(path)
        changed = exchange(weight)
        assert torch.equal(changed.flatten().sort().values, weight.flatten().sort().values)
        torch.save(changed, path)
    result = compare(folder, dump_of(Split(level=split.level)), split, tmp_path / "out")
    found = query(
        result,
        "SELECT name, rank, kind, suspect, is_origin, value FROM disagreement"
        " JOIN node_name USING (node_id) JOIN text ON text_id = note_id ORDER BY node_id",
    )
    note = "the same elements in another order"
    assert found == [(f"Module.{module}.forward.{call}", rank, 2, rank, 1, note) for call in (0, 1)]
    wrong = query(
        result,
        "SELECT name FROM node_view WHERE side = 'npu' AND grade = 'severe' ORDER BY seq",
    )
    assert wrong == [(f"Module.{module}.forward.{call}",) for call in (0, 1)]
