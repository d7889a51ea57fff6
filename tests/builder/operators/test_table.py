"""The table of operators itself: names, words, and whether torch's part is up to date."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
import torch

import torch_registry
from msprobe_builder.operators import table
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.prefixes import COLUMNS
from msprobe_builder.operators.table import is_in_place, named, operator_of, rows, spellings

_CELLS = {
    *("torch", "npu", "mindspore", "library", "class", "distributed"),
    *("condition", "keeps", "breaks", "draws", "arguments", "acts", "idle", "shards", "of"),
    *("is", "pairs"),
}
_WORDS = {
    "condition": "sums products reach exponential near_one near_zero periodic smallest slope"
    " quotient path bounded powers",
    "keeps": "order multiset subset norm extremes opposites itself",
    "breaks": "kink ties steps jumps sign",
    "shards": "add product batched linear grouped indices shrink view swap order slice split join"
    " rows reduce:0:0 reduce:1:0 all gather resize exchange peer",
    "is": "commutative adds_product attention convolution recurrent cell by_label padded own_mean"
    " takes_infinity chooses_size sizes of_number factors writes_first receives"
    " reads_nothing describes hooks exposes exposes_result exact one_signed other_in_linalg"
    " reaches sums_last cancels same_in_mindspore same_primitive",
}


def test_each_cell_has_known_words() -> None:
    for name, (kind, cells) in table._written().items():
        assert Kind(kind) is not Kind.OTHER or name == "set" or cells
        assert not cells.keys() - _CELLS, name
        for cell, words in _WORDS.items():
            assert set(cells.get(cell, "").split(",")) <= {*words.split(), ""}, (name, cell)


def test_no_name_stands_in_two_rows_of_a_column() -> None:
    for column in ("torch", "npu", "mindspore", "library", "class", "distributed"):
        names = [one for several in spellings(column).values() for one in several]
        assert not [name for name, count in Counter(names).items() if count > 1], column


def test_rows_are_composed_of_rows_and_paired_with_names() -> None:
    known = {row.name for row in rows()}
    for row in rows():
        assert {*row.parts, row.pairs or row.name} <= known, row.name
        for one in row.acts:
            assert row.arguments[one].default is not None, (row.name, one)


@pytest.mark.parametrize(
    ("stem", "name"),
    [
        ("Tensor.__radd__", "add"),
        ("Tensor.__iadd__", "add"),
        ("Tensor.add_", "add"),
        ("Mint.add", "add"),
        ("Primitive.AddExt", "add"),
        ("Tensor.__rand__", "and"),
        ("Torch.rand", "rand"),
        ("Torch.multiply", "mul"),
        ("Torch.tensordot", "tensordot"),
        ("Torch.FlashAttnFunc", "flash_attention"),
        ("NPU.npu_grouped_matmul", "grouped_mm"),
        ("Aten._scaled_mm", "scaled_mm"),
        ("Primitive.BatchMatMul", "bmm"),
        ("Functional.reduce_sum", "sum"),
        ("NPU.npu_bmmV2", "bmm"),
        ("NPU.npu_silu", "silu"),
        ("NPU.npu_mish", "mish"),
        ("Distributed.gather", "gather_to_rank"),
        ("Torch.gather", "gather"),
        ("MintDistributed.all_reduce", "all_reduce"),
        ("Module.layers.0.LlamaRMSNorm", "rms_norm"),
        ("Module.layers.0.T5LayerNorm", "layer_norm"),
        ("Cell.layers.0.Dense", "linear"),
        ("Tensor.T", "t"),
        ("Torch.linalg_vector_norm", "vector_norm"),
        ("Aten._softmax", "softmax"),
    ],
)
def test_a_name_leads_to_its_row(stem: str, name: str) -> None:
    assert operator_of(stem) is named(name)


def test_an_unknown_name_is_told_as_such() -> None:
    unknown = operator_of("Torch.Frobnicate")
    assert (unknown.name, unknown.kind) == ("frobnicate", Kind.OTHER)
    assert operator_of("Distributed.frobnicate").kind is Kind.COLLECTIVE
    assert operator_of("Torch._CopyToSequenceParallelRegion").kind is Kind.COLLECTIVE


def test_what_is_written_in_place_is_told_by_its_name() -> None:
    for stem in ("Tensor.add_", "Tensor.__iadd__", "Tensor.__setitem__"):
        assert is_in_place(stem)
    for stem in ("Tensor.add", "Tensor.__add__", "Tensor.__invert__", "Torch.add"):
        assert not is_in_place(stem)


def test_every_prefix_of_the_table_leads_to_columns_of_it() -> None:
    for columns in COLUMNS.values():
        assert set(columns) <= set(table._names())


def test_what_torch_says_is_up_to_date() -> None:
    """On the version of torch alone that it was made of."""
    made_of = torch_registry.TABLE.read_text(encoding="utf-8")
    version = made_of.split()[4]
    if torch.__version__.partition("+")[0] != version:
        pytest.skip(f"torch.tsv was made of torch {version}")
    assert made_of == torch_registry.text(), "run scripts/torch_registry.py"


def test_the_table_is_read_when_it_is_asked_alone() -> None:
    program = (
        "import msprobe_builder.operators.table as table;"
        " print(table._written.cache_info().currsize)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert answer.stdout.strip() == b"0"
