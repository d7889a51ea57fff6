"""The reference tool's matches of real dumps, reproduced but for listed differences."""

from __future__ import annotations

import csv
import lzma
from pathlib import Path

import pytest

from msprobe_builder.base.codes import Source
from msprobe_builder.base.options import BuildOptions
from tests.builder.match.models import Result, match

REFERENCE = Path(__file__).parents[2] / "data" / "reference"

# The mapping file the reference was given for compare_renamed_all_layer_mapping.
MAPPING = """\
LlamaModel:
  layers: layers
MyDecoderLayer:
  self_attn: self_attention
LlamaDecoderLayer:
  self_attn: self_attention
LlamaAttention:
  o_proj: dense
LlamaMLP:
  down_proj: dense_4h_to_h
"""


def rank(dumps: Path, name: str) -> Path:
    return dumps / name / "step0" / "rank"


def differences(name: str, result: Result) -> dict[str, tuple[str, str]]:
    """Nodes whose partner differs: theirs and ours; both sides must tell the same."""
    with lzma.open(REFERENCE / f"{name}.csv.xz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    theirs = {row["node"]: row["matched"] for row in rows if row["side"] == "NPU"}
    assert {row["matched"]: row["node"] for row in rows if row["side"] == "Bench"}.items() >= {
        (node, matched) for node, matched in theirs.items() if matched
    }
    assert theirs.keys() == set(result.npu.tree.names)
    ours = result.pairs() | {result.npu.tree.names[0]: result.bench.tree.names[0]}
    return {
        node: (matched, ours.get(node, ""))
        for node, matched in theirs.items()
        if matched != ours.get(node, "")
    }


def test_default_rule_on_a_run_in_another_precision(dumps: Path) -> None:
    result = match(rank(dumps, "llama_statistics"), rank(dumps, "llama_statistics_bf16"))
    assert differences("compare_bf16_default", result) == {}
    assert result.why("Tensor.to.9.backward") == (
        "OTHER_PARAMETER_COUNT",
        "Tensor.to.9.backward",
        "1 input, 2 outputs against 1 input, 1 output",
    )


def test_fuzzy_rule_finds_what_the_reference_finds_and_moved_calls(dumps: Path) -> None:
    """In bfloat16 a cast runs before its neighbour instead of after it; pairing by number of
    occurrence then meets another cast of another shape and gives both up."""
    result = match(
        rank(dumps, "llama_statistics"),
        rank(dumps, "llama_statistics_bf16"),
        BuildOptions(fuzzy_match=True),
    )
    assert differences("compare_bf16_fuzzy", result) == {
        name: ("", name) for name in (f"Tensor.to.{number}.backward" for number in (5, 10, 21, 26))
    }
    assert set(result.matching.source[result.matching.npu >= 0].tolist()) == {
        Source.EXACT,
        Source.FUZZY,
    }


def test_default_rule_on_renamed_classes(dumps: Path) -> None:
    npu, bench = (rank(dumps, f"llama_statistics{end}") for end in ("", "_renamed_classes"))
    result = match(npu, bench)
    assert differences("compare_renamed_classes_default", result) == {}
    assert result.why("Module.model.LlamaModel.forward.0") == (
        "OTHER_CLASS",
        "Module.model.MyModel.forward.0",
        "class: LlamaModel against MyModel",
    )
    assert result.why("Tensor.all.0.forward") == (
        "OTHER_PARENT",
        "Tensor.all.0.forward",
        "below Module.model.LlamaModel.forward.0 against Module.model.MyModel.forward.0",
    )


def test_layer_mapping_by_names_alone(dumps: Path) -> None:
    npu, bench = (rank(dumps, f"llama_statistics{end}") for end in ("", "_renamed_classes"))
    result = match(npu, bench, BuildOptions(layer_mapping=True))
    assert differences("compare_renamed_classes_bare_lm", result) == {}
    assert not result.diagnostics


def test_layer_mapping_with_a_file(dumps: Path, tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text(MAPPING, encoding="utf-8")
    options = BuildOptions(layer_mapping=True, layer_mapping_file=file)
    npu, bench = (rank(dumps, f"llama_statistics{end}") for end in ("", "_renamed_all"))
    result = match(npu, bench, options)
    assert differences("compare_renamed_all_layer_mapping", result) == {}
    [unused] = result.diagnostics
    assert (unused.code, unused.subject) == (
        "mapping_rule_unused",
        "MyDecoderLayer: self_attn: self_attention",
    )
    assert f"{file}, line 4:" in unused.message

    [reversed_] = match(bench, npu, options).diagnostics
    assert reversed_.code == "mapping_reversed"
    assert "4 would fit reference to debug" in reversed_.message


@pytest.mark.parametrize("options", [BuildOptions(), BuildOptions(layer_mapping=True)])
def test_structure_dumps(dumps: Path, options: BuildOptions) -> None:
    step = dumps / "llama_structure"
    result = match(step / "step0" / "rank", step / "step1" / "rank", options)
    assert differences("compare_structure", result) == {}
