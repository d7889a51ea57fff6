"""Merged models written as dumps: reading them gives the merged model again."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merge_truth import SPLITS, Split
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.names import Direction, Kind, Name
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.dump.stack import format_frame, parse_frame
from msprobe_builder.export.merged_dump import write_dump
from msprobe_builder.export.record import RecordWriter
from msprobe_builder.graph.parameter_table import ParameterTable, order_parameters
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.ranks.layout import parse_layout, replicas
from msprobe_builder.merge.replica import ReplicaSource, read_replica
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.merge.simulated_training import Model
from tests.builder.merge.simulator import Cluster, simulate
from tests.builder.merge.test_simulator import splits


def check_round_trip(side: Side, texts: Texts, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_dump(side.dump, side.tree, side.table, texts, folder, side.provenance)
    again, found = read_rank(folder, texts)
    assert {one.code for one in found} <= {"call_without_record"}
    assert again.tree.names == side.tree.names
    assert again.tree.parsed == side.tree.parsed
    assert again.tree.micro_steps == side.tree.micro_steps
    for column in ("parent", "subtree_end", "depth", "micro_step", "is_recompute"):
        np.testing.assert_array_equal(getattr(again.tree, column), getattr(side.tree, column))
    np.testing.assert_array_equal(again.tree.record >= 0, side.tree.record >= 0)
    check_equal(again.table, side.table)
    stacks = side.dump.stacks
    for name, stack in stacks.of_name.items():
        own = again.dump.stacks
        assert own.stacks[own.of_name[name]] == stacks.stacks[stack]


def check_equal(one: ParameterTable, other: ParameterTable) -> None:
    for field in fields(ParameterTable):
        values = getattr(one, field.name), getattr(other, field.name)
        if isinstance(values[0], dict):
            assert values[0] == values[1]
        else:
            np.testing.assert_array_equal(*values, err_msg=field.name)


@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split.name)
def test_real_splits_come_back_as_they_were(split: Split, dumps: Path, tmp_path: Path) -> None:
    layout = parse_layout(split.layout, split.name)
    found = discover(dumps / split.name / "step0", split.name).directories
    sources = {place.rank: source for place, source in found.items()}
    for replica in replicas(layout):
        texts = Texts()
        source = ReplicaSource(layout, replica, sources)
        side, _ = read_replica(source, texts, partial(read_rank, texts=texts))
        check_round_trip(side, texts, tmp_path / str(replica.index))


@settings(max_examples=15)
@given(splits())
def test_any_split_comes_back(
    tmp_path_factory: pytest.TempPathFactory, split: tuple[Model, Cluster]
) -> None:
    model, cluster = split
    sizes = {"tp": cluster.tp, "pp": cluster.pp, "vpp": cluster.vpp}
    layout = parse_layout({"rank_size": cluster.tp * cluster.pp, **sizes}, "npu")
    [replica] = replicas(layout)
    texts = Texts()
    source = ReplicaSource(layout, replica, simulate(model, cluster))
    side, _ = read_replica(source, texts, partial(read_rank, texts=texts))
    check_round_trip(side, texts, tmp_path_factory.mktemp("exported"))


# What a record can hold, level by level.
SHAPES = st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=3))
NUMBERS = st.one_of(st.none(), st.floats(), st.booleans(), st.integers(-9, 9))
TENSORS = st.fixed_dictionaries(
    {"type": st.just("torch.Tensor"), "dtype": st.sampled_from(["torch.float32", "torch.bool"])}
    | {"shape": SHAPES, "Max": NUMBERS, "Min": NUMBERS, "Mean": NUMBERS, "Norm": NUMBERS},
    optional={"requires_grad": st.booleans(), "md5": st.text("0123456789abcdef", min_size=8)},
)
ARGUMENTS = st.one_of(
    st.builds(lambda value: {"type": type(value).__name__, "value": value}, st.integers()),
    st.builds(lambda value: {"type": "float", "value": value}, st.floats()),
    st.builds(lambda value: {"type": "str", "value": value}, st.text(max_size=5)),
    st.builds(lambda value: {"type": "bool", "value": value}, st.booleans()),
    st.builds(
        lambda value: {"type": "torch.ProcessGroup", "group_ranks": value},
        st.lists(st.integers(0, 9), max_size=3),
    ),
    st.builds(
        lambda value: {"type": "slice", "value": value},
        st.lists(st.none() | st.integers(), min_size=3, max_size=3),
    ),
    st.just({"type": "torch.dtype", "value": "torch.bfloat16"}),
    st.just({"type": "object"}),
    st.none(),
)
SENDS = st.fixed_dictionaries(
    {"class_type": st.just("torch.distributed.P2POp"), "tensor": TENSORS},
    optional={
        "op": st.text("abc123", max_size=3),
        "peer": st.integers() | st.none(),
        "tag": st.integers(),
        "group_id": st.none() | st.text(max_size=3),
    },
)
LIKE_SENDS = st.fixed_dictionaries(
    {"tensor": TENSORS | ARGUMENTS, "op": ARGUMENTS}, optional={"peer": ARGUMENTS}
)
KEYS = st.text("abc_", min_size=1, max_size=3)
VALUES = st.recursive(
    TENSORS | ARGUMENTS | SENDS | LIKE_SENDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
RECORDS = st.fixed_dictionaries(
    {
        "input_args": st.lists(VALUES, max_size=3),
        "input_kwargs": st.dictionaries(KEYS, VALUES, max_size=2),
        "output": st.lists(VALUES, max_size=3) | st.dictionaries(KEYS, VALUES, max_size=2),
        "parameters": st.dictionaries(KEYS, TENSORS, max_size=2),
    }
)


def table_of(record: dict[str, Any], texts: Texts) -> ParameterTable:
    parameters = Parameters(texts)
    parameters.add_record(0, record)
    one = np.zeros(1, dtype=np.int64)
    name = Name(Kind.API, "Torch.f", Direction.FORWARD, 0)
    tree = Tree(["Torch.f.0.forward"], [name], one, one, one, one, one, one > 0, 1)
    return order_parameters(tree, parameters)


@given(RECORDS)
def test_any_record_comes_back(record: dict[str, Any]) -> None:
    texts = Texts()
    table = table_of(record, texts)
    name = Name(Kind.API, "Torch.f", Direction.FORWARD, 0)
    writer = RecordWriter(table, texts, with_statistics=True)
    written = writer.call(name, range(len(table)), is_recompute=False)
    check_equal(table_of(json.loads(json.dumps(written)), texts), table)


def test_a_record_looks_as_the_collector_writes_it() -> None:
    tensor: dict[str, Any] = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    tensor |= {"Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "requires_grad": False}
    record = {
        "input_args": [[tensor, None], {"type": "int", "value": 3}, {"mask": tensor}],
        "input_kwargs": {"eps": {"type": "float", "value": 1e-5}},
        "output": [tensor],
        "parameters": {"weight": tensor},
        "is_recompute": False,
    }
    texts = Texts()
    table = table_of(record, texts)
    name = Name(Kind.MODULE, "Module.f.F", Direction.FORWARD, 0)
    writer = RecordWriter(table, texts, with_statistics=True)
    assert writer.call(name, range(len(table)), is_recompute=False) == record


def test_a_send_between_ranks_looks_as_the_collector_writes_it() -> None:
    tensor: dict[str, Any] = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    tensor |= {"Max": 1.0, "Min": 1.0, "Mean": 1.0, "Norm": 1.0}
    send: dict[str, Any] = {
        "class_type": "torch.distributed.P2POp",
        "tensor": tensor,
        "op": "isend",
    }
    send |= {"peer": 1, "tag": 0, "group_id": "77849d8c"}
    record = {"input_args": [[send, send]], "input_kwargs": {}, "output": [[send]]}
    texts = Texts()
    table = table_of(record, texts)
    name = Name(Kind.API, "Distributed.batch_isend_irecv", Direction.FORWARD, 0)
    writer = RecordWriter(table, texts, with_statistics=True)
    again = writer.call(name, range(len(table)), is_recompute=False)
    assert again == {**record, "is_recompute": False}


# No function is called by a comma, which ends its name in such a line.
WORDS = st.text(st.characters(categories=["L", "N", "P"], exclude_characters=","), min_size=1)


@given(st.text(), WORDS, st.integers(0, 10**9 - 1), st.text())
def test_any_stack_line_comes_back(text: str, word: str, line: int, source: str) -> None:
    for one in (text, f"File {word}, line {line}, in {word}, \n {source}"):
        frame = parse_frame(one)
        assert parse_frame(format_frame(frame)) == frame
