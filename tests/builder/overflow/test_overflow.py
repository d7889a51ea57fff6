"""Overflow levels: the user's definition, what does not count, and real dumps."""

from __future__ import annotations

import csv
import json
import lzma
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.options import BuildOptions
from tests.builder.small_dumps import (
    Record,
    communicate,
    forward,
    number,
    tensor,
    write_dump,
)

NAN, INF = math.nan, math.inf
OK = tensor()
BAD = tensor(NAN, high=NAN, low=NAN, mean=NAN)
MASK = tensor(INF, high=0.0, low=-INF, mean=-INF)
LOWEST = tensor(INF, high=0.0, low=-3.4028234663852886e38, mean=-INF)
CLEAN = [
    "collectives4_statistics/step0/rank0",
    "collectives4_statistics/step0/rank2",
    "ddp2_statistics/step0/rank1",
    "llama_statistics/step0/rank",
    "llama_statistics/step1/rank",
    "llama_statistics_L0/step0/rank",
    "llama_statistics_wrong_attention_scale/step0/rank",
    "megatron_tp1pp2vpp2/step0/rank1",
    "megatron_tp2pp2/step0/rank0",
    "megatron_tp2pp2/step0/rank3",
    "resnet_statistics/step0/rank",
    "sendrecv4_statistics/step0/rank1",
    "vit_statistics/step0/rank",
]


def overflow_of(npu: Path, folder: Path, bench: Path | None = None) -> sqlite3.Connection:
    options = BuildOptions(overflow_check=True)
    result = build(BuildConfig(npu, bench, options=options), folder / "out", name="o.vis.db")
    return sqlite3.connect(result.path)


def levels(connection: sqlite3.Connection, side: str = "npu") -> dict[str, str]:
    rows = connection.execute(
        "SELECT name, overflow FROM node_view WHERE side = ? AND overflow IS NOT NULL", (side,)
    )
    return dict(rows)


def level(folder: Path, record: Record, name: str = "Torch.op.0.forward") -> str | None:
    dump = write_dump(folder / "dump", {name: record})
    connection = overflow_of(dump, folder)
    try:
        return levels(connection).get(name)
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (forward([OK], [OK]), None),
        (forward([BAD], [OK]), "medium"),
        (forward([BAD], [BAD]), "high"),
        (forward([OK], [BAD]), "critical"),
        (forward([], [BAD]), "critical"),
        (forward([tensor(high=INF)], [OK]), "medium"),
        (forward([OK], [tensor(low=-INF)]), "critical"),
        # Every leaf counts: keywords, lists, nested objects, plain floats, parameters.
        (forward([OK], [OK], mask=BAD), "medium"),
        (forward([OK], [[[BAD]]]), "critical"),
        (forward([OK], [{"last": {"hidden": [BAD]}}]), "critical"),
        (forward([[OK, {"x": BAD}]], [OK]), "medium"),
        (forward([OK, number(NAN)], [OK]), "medium"),
        (forward([OK], [number(NAN)]), "critical"),
        (forward([OK], [number(INF)]), "critical"),
        (forward([OK, number("NaN")], [OK]), None),
        ({**forward([OK], [BAD]), "parameters": {"weight": BAD}}, "high"),
        # A NaN that the device's max does not show still is one; an infinite sum is none.
        (forward([OK], [tensor(mean=NAN)]), "critical"),
        (forward([OK], [tensor(INF, mean=-INF)]), None),
        # Growth of the norm.
        (forward([tensor(1.0)], [tensor(101.0)]), "high"),
        (forward([tensor(1.0)], [tensor(100.0)]), None),
        (forward([tensor(1.0)], [tensor(100.00001)]), "high"),
        (forward([tensor(1.0)], [tensor(99.0)]), None),
        (forward([tensor(0.0)], [tensor(101.0)]), "high"),
        (forward([tensor(0.0)], [tensor(99.0)]), None),
        (forward([tensor(1.0), tensor(2.0)], [tensor(101.0)]), None),
        (forward([tensor(INF)], [tensor(1e30)]), None),
        (forward([], [tensor(1e30)]), None),
        # A sum's gradient, spread over many elements, grows in norm but not in size.
        (forward([tensor(1.0, shape=())], [tensor(1000.0, shape=(1000, 1000))]), None),
        # Nine times as many elements: three times the norm.
        (forward([tensor(1.0, shape=(4,))], [tensor(299.0, shape=(36,))]), None),
        (forward([tensor(1.0, shape=(4,))], [tensor(301.0, shape=(36,))]), "high"),
        (forward([tensor(1.0, shape=(36,))], [tensor(101.0, shape=(4,))]), "high"),
        # A factor of 3: three times the norm; a factor below 1 changes nothing.
        (forward([tensor(1.0), number(-3.0)], [tensor(299.0)]), None),
        (forward([tensor(1.0), number(-3.0)], [tensor(301.0)]), "high"),
        (forward([tensor(1.0), number(0.1)], [tensor(99.0)]), None),
        (forward([tensor(1.0), number(65536.0)], [tensor(65536.0)]), None),
        (forward([tensor(1.0, dtype="torch.int64")], [tensor(1e9, dtype="torch.int64")]), None),
        # As MindSpore writes it.
        (forward([tensor(dtype="Float8E4M3FN")], [tensor(101.0, dtype="Float8E4M3FN")]), "high"),
    ],
)
def test_the_users_definition(tmp_path: Path, record: Record, expected: str | None) -> None:
    assert level(tmp_path, record) == expected


@pytest.mark.parametrize(
    ("name", "record", "expected"),
    [
        # Masks: -inf in, -inf out is no overflow; a NaN made from a mask is one.
        ("Functional.softmax.0.forward", forward([MASK], [OK]), None),
        ("Functional.softmax.0.forward", forward([MASK], [BAD]), "critical"),
        ("Tensor.__add__.0.forward", forward([OK, MASK], [MASK]), None),
        ("Tensor.__add__.0.forward", forward([LOWEST, LOWEST], [MASK]), None),
        ("Torch.where.0.forward", forward([OK, number(0.0), number(-INF)], [MASK]), None),
        ("Tensor.masked_fill.0.forward", forward([OK, OK, number(-INF)], [MASK]), None),
        ("Tensor.masked_fill.0.forward", forward([OK, OK], [tensor(1e9)], value=-1e5), None),
        ("Torch.full.0.forward", forward([number(-INF)], [MASK]), None),
        ("Torch.full.0.forward", forward([number(INF)], [tensor(high=INF, low=INF)]), None),
        ("Torch.norm.0.forward", forward([OK, number(INF)], [OK]), None),
        ("Torch.log.0.forward", forward([OK], [MASK]), "critical"),
        ("Torch.log.0.backward", {"input": [MASK], "output": [MASK]}, "high"),
        ("Module.a.Linear.forward.0", {**forward([OK], [OK]), "parameters": {"w": MASK}}, "medium"),
        # Memory without data.
        ("Torch.empty.0.forward", forward([], [BAD]), None),
        ("Tensor.new_empty.0.forward", forward([OK], [BAD]), None),
        ("Torch.baddbmm.0.forward", forward([BAD, OK, OK], [OK], beta=number(0.0)), None),
        ("Torch.baddbmm.0.forward", forward([BAD, OK, OK], [OK], beta=number(1.0)), "medium"),
        ("Tensor.copy_.0.forward", forward([BAD, OK], [OK]), None),
        ("Tensor.copy_.0.forward", forward([BAD, BAD], [BAD]), "high"),
        ("Torch.matmul.0.forward", forward([OK, OK], [OK], out=BAD), None),
        ("Torch.matmul.0.forward", forward([OK, OK], [BAD], out=BAD), "critical"),
        # A NaN that was filled over.
        ("Tensor.masked_fill_.0.forward", forward([BAD, OK], [OK]), None),
        ("Tensor.masked_fill_.0.forward", forward([OK, OK], [BAD]), "critical"),
        # Reciprocals of small numbers are large.
        ("Torch.rsqrt.0.forward", forward([tensor(1e-3)], [tensor(300.0)]), None),
    ],
)
def test_what_looks_like_an_overflow(
    tmp_path: Path, name: str, record: Record, expected: str | None
) -> None:
    assert level(tmp_path, record, name) == expected


ONE = number(1)
IRECV = {"class_type": "torch.distributed.P2POp", "tensor": BAD, "op": "irecv", "peer": 1}
ISEND = {"class_type": "torch.distributed.P2POp", "tensor": BAD, "op": "isend", "peer": 1}


@pytest.mark.parametrize(
    ("function", "record", "expected"),
    [
        ("recv", communicate(BAD, ONE, after=[OK, ONE]), None),
        ("recv", communicate(OK, ONE, after=[BAD, ONE]), "critical"),
        ("recv", communicate(tensor=BAD, src=ONE, after=[OK, ONE]), None),
        ("recv", communicate(tensor(0.0), ONE, after=[tensor(500.0), ONE]), None),
        ("irecv", communicate(BAD, ONE, after=[BAD, ONE]), None),
        ("irecv", communicate(OK, ONE, after=[BAD, ONE]), "critical"),
        ("send", communicate(BAD, ONE), "high"),
        ("all_gather", communicate([BAD, BAD], OK, after=[[OK, OK], OK]), None),
        ("all_gather", communicate([BAD, BAD], OK, after=[[OK, BAD], OK]), "critical"),
        ("all_gather_into_tensor", communicate(BAD, OK, after=[OK, OK]), None),
        ("_all_gather_base", communicate(BAD, OK, after=[OK, OK]), None),
        ("reduce_scatter", communicate(BAD, [OK, OK], after=[OK, [OK, OK]]), None),
        ("reduce_scatter_tensor", communicate(BAD, OK, after=[BAD, OK]), "critical"),
        ("_reduce_scatter_base", communicate(output=BAD, input=OK, after=[OK, OK]), None),
        ("all_to_all_single", communicate(BAD, OK, after=[OK, OK]), None),
        ("scatter", communicate(BAD, None, ONE, after=[OK, None, ONE]), None),
        ("gather", communicate(OK, [BAD, BAD], number(0), after=[OK, [OK, OK]]), None),
        ("broadcast", communicate(BAD, ONE, after=[OK, ONE]), None),
        ("broadcast", communicate(BAD, src=number(0)), "high"),
        ("reduce", communicate(OK, ONE, after=[BAD, ONE]), None),
        ("reduce", communicate(OK, number(0), after=[BAD, ONE]), "critical"),
        ("all_reduce", communicate(BAD, after=[BAD]), "high"),
        ("batch_isend_irecv", communicate([IRECV]), None),
        ("batch_isend_irecv", communicate([ISEND]), "high"),
    ],
)
def test_receive_buffers(
    tmp_path: Path, function: str, record: Record, expected: str | None
) -> None:
    """On rank 0: what lies in a buffer before the data have come means nothing."""
    assert level(tmp_path, record, f"Distributed.{function}.0.forward") == expected


def test_gradients_are_judged_by_the_calls_they_come_from(tmp_path: Path) -> None:
    calls = {
        "Module.a.Linear.forward.0": forward([OK], [OK]),
        "Module.a.Linear.backward.0": {"input": [OK], "output": [OK]},
        "Module.a.Linear.parameters_grad": {"weight": [BAD]},
        "Module.b.Linear.forward.0": forward([BAD], [BAD]),
        "Module.b.Linear.backward.0": {"input": [OK], "output": [OK]},
        "Module.b.Linear.parameters_grad": {"weight": [BAD], "bias": [OK]},
    }
    construct: dict[str, Any] = {name: None for name in calls if "parameters_grad" not in name}
    found = levels(overflow_of(write_dump(tmp_path / "dump", calls, construct), tmp_path))
    assert found["Module.a.Linear.parameters_grad"] == "critical"
    assert found["Module.b.Linear.parameters_grad"] == "high"


def test_a_module_that_returns_the_mask_it_makes_is_clean(tmp_path: Path) -> None:
    module = "Module.mask.Mask.forward.0"
    calls = {"Torch.full.0.forward": forward([number(-INF)], [MASK]), module: forward([OK], [MASK])}
    dump = write_dump(tmp_path / "dump", calls, {"Torch.full.0.forward": module, module: None})
    assert levels(overflow_of(dump, tmp_path)) == {}


@pytest.mark.parametrize("place", CLEAN)
def test_a_clean_model_is_clean(dumps: Path, tmp_path: Path, place: str) -> None:
    connection = overflow_of(dumps / place, tmp_path)
    assert levels(connection) == {}
    assert connection.execute("SELECT count(*) FROM overflow_parameter").fetchone() == (0,)
    query = "SELECT value FROM meta WHERE key = 'overflow_checked'"
    assert connection.execute(query).fetchone() == ("1",)


def test_without_the_option_nothing_is_checked(dumps: Path, tmp_path: Path) -> None:
    place = dumps / "llama_statistics_nan_weight" / "step0" / "rank"
    result = build(BuildConfig(place), tmp_path, name="o.vis.db")
    connection = sqlite3.connect(result.path)
    assert levels(connection) == {}
    query = "SELECT value FROM meta WHERE key = 'overflow_checked'"
    assert connection.execute(query).fetchone() == ("0",)


def first_with_nan(directory: Path) -> str:
    """The first call with a NaN in its record; calls are recorded as they finish."""
    data: dict[str, Any] = json.loads((directory / "dump.json").read_text())["data"]
    calls = (item for item in data.items() if not item[0].endswith(".parameters_grad"))
    return next(name for name, record in calls if "NaN" in json.dumps(record))


def test_the_nan_weight_is_found_where_it_is_used_first(dumps: Path, tmp_path: Path) -> None:
    place = dumps / "llama_statistics_nan_weight" / "step0" / "rank"
    connection = overflow_of(place, tmp_path)
    [subject] = connection.execute("SELECT subject FROM diagnostic WHERE code = 'overflow'")
    origin = first_with_nan(place)
    assert subject == (origin,) == ("Functional.linear.13.forward",)
    blamed = connection.execute(
        "SELECT text.value FROM overflow_parameter JOIN tensor USING (node_id, ordinal)"
        " JOIN node_name USING (node_id) JOIN text ON text_id = tensor.name_id WHERE name = ?"
        " ORDER BY ordinal",
        subject,
    )
    assert [name for (name,) in blamed] == ["input.1", "output.0"]
    # Everything that was critical contains it: nothing else made a NaN by itself.
    stray = connection.execute(
        "SELECT count(*) FROM node_view JOIN node USING (node_id) WHERE node_view.overflow ="
        " 'critical' AND node.micro_step = 0 AND NOT EXISTS"
        " (SELECT 1 FROM node_name AS origin WHERE origin.name = ? AND"
        " origin.node_id BETWEEN node.node_id AND node.subtree_end)",
        subject,
    )
    assert stray.fetchone() == (0,)


def test_differences_from_the_reference_follow_from_the_rules(dumps: Path, tmp_path: Path) -> None:
    """Each rule stands under "Overflow" in docs/design/differences.md."""
    connection = overflow_of(
        dumps / "llama_statistics_nan_weight" / "step0" / "rank",
        tmp_path,
        dumps / "llama_statistics" / "step0" / "rank",
    )
    ours = {
        (side, name): found
        for side in ("npu", "bench")
        for name, found in levels(connection, side).items()
    }
    file = Path(__file__).parents[2] / "data" / "reference" / "compare_nan_weight_overflow.csv.xz"
    differing = []
    with lzma.open(file, "rt", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            found = ours.get((row["side"].lower(), row["node"]))
            if (found or "") != row["overflow"]:
                differing.append((row["node"], row["overflow"], found))
    masked = ("Torch.where", "Tensor.__add__", "Functional.softmax", "self_attn.LlamaAttention")
    for name, theirs, found in differing:
        if found is None:
            reciprocal = name.startswith("Torch.rsqrt")
            assert reciprocal or any(part in name for part in (*masked, "LlamaDecoderLayer")), name
        elif theirs == "":
            assert ".parameters_grad" in name or "LlamaModel" in name, name
        else:
            parameters = "down_proj" in name and (theirs, found) == ("critical", "high")
            mask_in = "LlamaDecoderLayer" in name and (theirs, found) == ("high", "critical")
            assert parameters or mask_in, name
    assert len(differing) == 89


leaves = st.sampled_from([OK, BAD, tensor(high=INF), tensor(2.0), number(1.5), number(NAN), None])
nested = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    ),
    max_leaves=6,
)


def is_abnormal(value: Any) -> bool:
    """By the definition, on the record itself."""
    if isinstance(value, list):
        return any(map(is_abnormal, value))
    if isinstance(value, dict):
        return any(map(is_abnormal, value.values()))
    return isinstance(value, float) and not math.isfinite(value)


@given(
    calls=st.lists(
        st.tuples(st.lists(nested, max_size=3), st.lists(nested, max_size=3)),
        min_size=1,
        max_size=8,
    )
)
def test_levels_follow_from_the_leaves(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[list[Any], list[Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("overflow")
    data = {f"Torch.op.{i}.forward": forward(a, b) for i, (a, b) in enumerate(calls)}
    connection = overflow_of(write_dump(folder / "dump", data), folder)
    expected = {}
    for i, (inputs, outputs) in enumerate(calls):
        found = (is_abnormal(inputs), is_abnormal(outputs))
        word = {(True, False): "medium", (True, True): "high", (False, True): "critical"}
        if found in word:
            expected[f"Torch.op.{i}.forward"] = word[found]
    assert levels(connection) == expected
    connection.close()
