"""MindSpore against PyTorch: real dumps of models with equal weights and data."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from tests.alignment.score import partners
from tests.conftest import PAIR_ARCHIVES, BuildDatabase

TWINS = (
    ("ms_llama_mix_stat", "pt_llama_mix_stat", "llama"),
    ("ms_llama_fault_mix_stat", "pt_llama_mix_stat", "llama"),
    ("ms_llama_mix_struct", "pt_llama_mix_struct", "llama"),
    ("ms_mf_mix_stat", "pt_llama_mix_stat", "mf"),
    ("ms_mf_fault_mix_stat", "pt_llama_mix_stat", "mf"),
    ("ms_cnn_mix_stat", "pt_cnn_mix_stat", "cnn"),
    ("ms_cnn_mix_md5", "pt_cnn_mix_md5", "cnn"),
)


def rank(pairs: Path, name: str) -> Path:
    return pairs / name / "step0" / "rank"


def truth(name: str) -> dict[str, str]:
    known = json.loads((PAIR_ARCHIVES / f"ms_{name}_truth.json").read_text("utf-8"))
    return {**known["modules"], **known["apis"]}


@pytest.mark.parametrize("turned", [False, True], ids=["MindSpore first", "PyTorch first"])
@pytest.mark.parametrize(("npu", "bench", "model"), TWINS)
def test_every_module_and_call_finds_its_twin(
    pairs: Path, npu: str, bench: str, model: str, turned: bool
) -> None:
    right = truth(model)
    if turned:
        npu, bench = bench, npu
        right = {other: name for name, other in right.items()}
    there = [
        set(json.loads((rank(pairs, name) / "construct.json").read_text("utf-8")))
        for name in (npu, bench)
    ]
    right = {name: other for name, other in right.items() if name in there[0] and other in there[1]}
    assert len(right) > 80
    found = partners(rank(pairs, npu), rank(pairs, bench))
    assert {name: found.get(name) for name in right} == right


@pytest.mark.parametrize("turned", [False, True], ids=["MindSpore first", "PyTorch first"])
@pytest.mark.parametrize(
    ("npu", "bench"),
    [(npu, bench) for npu, bench, _ in TWINS if "fault" not in npu and "struct" not in npu],
)
def test_nothing_is_red_that_is_right(
    pairs: Path, build_database: BuildDatabase, npu: str, bench: str, turned: bool
) -> None:
    sides = (bench, npu) if turned else (npu, bench)
    path = build_database(*(rank(pairs, side) for side in sides))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT name, error FROM node_view WHERE side = 'npu' AND kind != 'collection'"
            " AND grade IN ('moderate', 'serious', 'severe')"
        ).fetchall()
    assert not rows


@pytest.mark.parametrize("model", ["llama", "mf"])
def test_the_faulty_twin_is_accused_of_its_multiplication(
    pairs: Path, build_database: BuildDatabase, model: str
) -> None:
    """The attention of layer 1 is scaled by 1.5 times what it should be."""
    npu = rank(pairs, f"ms_{model}_fault_mix_stat")
    with opened(build_database(npu, rank(pairs, "pt_llama_mix_stat"))) as connection:
        verdict = read_verdict(connection)
        [[stack_of]] = connection.execute(
            "SELECT parent FROM node_view WHERE name = ? AND side = 'npu'",
            (verdict.suspects[0].node if verdict else "",),
        )
    assert verdict is not None
    assert verdict.conclusion == "fault"
    first = verdict.suspects[0].node
    right = {"llama": "Mint.mul.17.forward", "mf": "Primitive.mul.Mul.13.forward"}[model]
    assert first == right
    assert ".layers.1." in stack_of


def test_batch_norm_parameters_are_compared_by_their_role(
    pairs: Path, build_database: BuildDatabase
) -> None:
    path = build_database(rank(pairs, "ms_cnn_mix_stat"), rank(pairs, "pt_cnn_mix_stat"))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT DISTINCT name, matched FROM tensor_view WHERE side = 'npu'"
            " AND node LIKE 'Cell.%.bn.%' AND direction LIKE 'parameters%' AND matched NOT NULL"
        ).fetchall()
    assert set(rows) == {
        ("parameters.gamma", "parameters.weight"),
        ("parameters.beta", "parameters.bias"),
        ("parameters_grad.gamma", "parameters_grad.weight"),
        ("parameters_grad.beta", "parameters_grad.bias"),
    }


def test_gradients_in_another_order_are_compared_with_their_own(
    pairs: Path, build_database: BuildDatabase
) -> None:
    path = build_database(rank(pairs, "ms_cnn_mix_stat"), rank(pairs, "pt_cnn_mix_stat"))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT name, matched, max_relative_err < 1e-3 FROM tensor_view WHERE side = 'npu'"
            " AND node = 'Primitive.bn_train.BatchNorm.1.backward' AND matched NOT NULL"
        ).fetchall()
    assert set(rows) == {
        ("input.0", "input.0", 1),
        ("output.0", "output.2", 1),
        ("output.1", "output.1", 1),
        ("output.2", "output.0", 1),
    }
