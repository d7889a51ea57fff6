"""The order of candidates, and the worst errors of a node in each step and rank."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from math import isnan
from pathlib import Path

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.conftest import BuildDatabase
from tests.plugin.conftest import EXAMPLE, Ask, client_of

# As docs/http-api.md lists them: each counts more than all that follow together.
REASONS = (
    "same_name",
    "same_path",
    "same_neighbours",
    "same_operator",
    "same_parent",
    "same_shapes",
    "same_parameters",
    "same_order",
)
ERRORS = ("max_relative_err", "min_relative_err", "mean_relative_err", "norm_relative_err")


@pytest.fixture(scope="module")
def renamed(dumps: Path, build_database: BuildDatabase) -> Path:
    """A model against the same under other class names: much is without a partner."""
    return build_database(
        dumps / "llama_statistics" / "step0" / "rank",
        dumps / "llama_statistics_renamed_classes" / "step0" / "rank",
        "--exact",
    )


def test_more_and_weightier_reasons_come_first(renamed: Path) -> None:
    ask = client_of(renamed.parent)
    with closing(sqlite3.connect(renamed)) as connection:
        nodes = connection.execute(
            "SELECT seq FROM node_view WHERE side = 'npu' AND matched IS NULL ORDER BY seq"
        ).fetchall()
    assert len(nodes) > 20
    seen: set[str] = set()
    ties = 0
    for (index,) in nodes[:: len(nodes) // 20]:
        place = {"file": renamed.name, "step": 0, "rank": 0, "side": "npu", "index": index}
        answer = pb.Candidates.FromString(ask("candidates", **place).data).candidates
        order = []
        for one in answer:
            assert list(one.reasons) == sorted(one.reasons, key=one_of)
            weights = tuple(reason not in one.reasons for reason in REASONS)
            order.append((weights, one.HasField("matched_index")))  # the free ones before others
            seen.update(one.reasons)
        assert order == sorted(order)
        ties += len(order) - len({weights for weights, _ in order})
    assert seen >= {"same_path", "same_operator", "same_parent", "same_shapes", "same_parameters"}
    assert ties


def one_of(reason: str) -> int:
    """The order in which reasons are named."""
    named = ("same_name", "same_path", "same_neighbours", "same_parent", "same_operator")
    return (*named, "same_shapes", "same_parameters", "same_order").index(reason)


def test_the_worst_of_all_outputs_counts_and_none_of_the_inputs(ask: Ask, logdir: Path) -> None:
    """Node 14 has inputs 0 and 1, output 3; it is given outputs 4 and 5."""
    query = {"file": EXAMPLE, "name": "Functional.linear.3.forward", "side": "npu"}
    with closing(sqlite3.connect(logdir / EXAMPLE)) as connection, connection:
        connection.execute("DELETE FROM comparison")
        for ordinal in (4, 5):
            connection.execute(
                "INSERT INTO tensor SELECT node_id, ?, section, name_id, type_id, dtype_id,"
                " shape_id, requires_grad, max, min, mean, norm, nan_flags, md5, file"
                " FROM tensor WHERE node_id = 14 AND ordinal = 3",
                (ordinal,),
            )
        columns = f"npu_node, npu_ordinal, bench_ordinal, {', '.join(ERRORS)}, nan_flags"
        connection.executemany(
            f"INSERT INTO comparison ({columns}) VALUES (14, ?, ?, ?, ?, ?, ?, ?)",
            [
                (0, 0, 9.0, 9.0, 9.0, 9.0, 0),
                (3, 2, 0.25, 0.5, 0.125, None, 1 << 7),
                (4, 3, 0.75, 0.25, None, 0.5, 0),
                (5, 4, 0.5, 0.375, None, 0.25, 1 << 3),
            ],
        )
    for side in ("npu", "bench"):
        answer = pb.NodeAcross.FromString(ask("across", **{**query, "side": side}).data)
        assert list(answer.max_relative_err) == [0.75]
        assert list(answer.min_relative_err) == [0.5]
        assert list(answer.mean_relative_err) == [0.125]
        assert all(map(isnan, answer.norm_relative_err))  # bit 3 is norm_diff, bit 7 this one
