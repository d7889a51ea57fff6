"""The order of candidates, and the worst errors of a node in each step and rank."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from math import isnan
from pathlib import Path

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.conftest import BuildDatabase
from tests.plugin.conftest import EXAMPLE, Ask, client_of, node

# As docs/design/http-api.md lists them: each counts more than all that follow together.
REASONS = (
    "same_values",
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
        expected = {index: expected_place(connection, index) for (index,) in nodes}
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
            # The free ones come before others, then those near to where the node belongs.
            away = abs(one.index - expected[index])
            order.append((weights, one.HasField("matched_index"), away))
            seen.update(one.reasons)
        assert order == sorted(order)
        ties += len(order) - len({weights for weights, *_ in order})
    assert seen >= {"same_path", "same_operator", "same_parent", "same_shapes", "same_parameters"}
    assert ties


def expected_place(connection: sqlite3.Connection, index: int) -> int:
    """As far behind the partner of the matched node before it, and before that of the next."""
    matched = connection.execute(
        "SELECT npu.node_id - npu_graph.first_node, bench.node_id - bench_graph.first_node"
        " FROM match JOIN node AS npu ON npu.node_id = npu_node"
        " JOIN node AS bench ON bench.node_id = bench_node"
        " JOIN graph AS npu_graph ON npu_graph.graph_id = npu.graph_id"
        " JOIN graph AS bench_graph ON bench_graph.graph_id = bench.graph_id"
    ).fetchall()
    [[end, nodes]] = connection.execute(
        "SELECT subtree_end - first_node, (SELECT node_count FROM graph WHERE side = 1)"
        " FROM node JOIN graph USING (graph_id) WHERE side = 0 AND node_id - first_node = ?",
        (index,),
    )
    before = max(pair for pair in matched if pair[0] < index)
    behind = min((pair for pair in matched if pair[0] > end), default=(0, 0))
    last = behind[1] - 1 if behind[1] > before[1] else nodes - 1
    return int(min(before[1] + index - before[0], last))


def one_of(reason: str) -> int:
    """The order in which reasons are named."""
    named = (
        "same_values",
        "same_name",
        "same_path",
        "same_neighbours",
        "same_parent",
        "same_operator",
    )
    return (*named, "same_shapes", "same_parameters", "same_order").index(reason)


def test_the_worst_of_all_outputs_counts_and_none_of_the_inputs(ask: Ask, logdir: Path) -> None:
    """Node 14 has inputs 0 and 1, output 3; it is given outputs 4 and 5."""
    query = {"file": EXAMPLE, "name": "Functional.linear.3.forward", "side": "npu"}
    with closing(sqlite3.connect(logdir / EXAMPLE)) as connection, connection:
        connection.execute("DELETE FROM comparison")
        for ordinal in (4, 5):
            connection.execute(
                "INSERT INTO tensor SELECT node_id, ?, section, name_id, type_id, dtype_id,"
                " shape_id, requires_grad, max, min, mean, norm, nan_flags, md5, file, sketch"
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


def test_the_former_partner_is_the_first_candidate(demo_database: Path) -> None:
    """Every matched node is the best candidate of its partner: names, parents and shapes agree."""
    ask = client_of(demo_database.parent)
    for index in range(1, 688, 23):
        detail = node(ask, file=demo_database.name, index=index)
        if not detail.HasField("bench"):
            continue
        place = {"file": demo_database.name, "step": 0, "rank": 0, "side": "npu", "index": index}
        answer = pb.Candidates.FromString(ask("candidates", **place).data)
        best = answer.candidates[0]
        assert (best.index, best.name) == (detail.bench.index, detail.bench.name)
        assert {"same_name", "same_operator", "same_shapes"} <= set(best.reasons)
        assert (best.matched_index, best.matched_name) == (index, detail.npu.name)
        assert len(answer.candidates) <= 20


RENAMED = "Module.model.layers.1.mlp.LlamaMLP"


@pytest.mark.parametrize(
    ("stem", "reason"),
    [
        ("Module.model.layers.1.mlp.FusedMLP", "same_path"),
        ("Module.model.layers.1.feed_forward.FusedMLP", "same_neighbours"),
    ],
)
def test_a_renamed_class_below_an_unmatched_parent_finds_its_former_partner(
    demo_database: Path, tmp_path: Path, stem: str, reason: str
) -> None:
    path = shutil.copy(demo_database, tmp_path / demo_database.name)
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        nodes = (
            "SELECT node_view.*, parent_id, subtree_end FROM node_view JOIN node USING (node_id)"
        )
        own, partner = database.execute(
            f"{nodes} WHERE node_view.name = ? ORDER BY node_view.side DESC",
            (f"{RENAMED}.forward.0",),
        )
        [text_id] = database.execute(
            "INSERT INTO text (value) VALUES (?) RETURNING text_id", (stem,)
        ).fetchone()
        database.execute("UPDATE node SET stem_id = ? WHERE node_id = ?", (text_id, own["node_id"]))
        for first, last in [(own["parent_id"],) * 2, (own["node_id"], own["subtree_end"])]:
            database.execute("DELETE FROM match WHERE npu_node BETWEEN ? AND ?", (first, last))
        database.commit()
    ask = client_of(tmp_path)
    for side, (one, other) in {"npu": (own, partner), "bench": (partner, own)}.items():
        place = {"file": demo_database.name, "step": 0, "rank": 0, "side": side}
        answer = ask("candidates", **place, index=one["seq"])
        best = pb.Candidates.FromString(answer.data).candidates[0]
        assert best.index == other["seq"]
        assert {reason, "same_neighbours", "same_shapes"} <= set(best.reasons)
        assert not best.HasField("matched_index")
        assert "same_operator" not in best.reasons


def test_the_root_has_the_root_as_candidate(demo_database: Path) -> None:
    ask = client_of(demo_database.parent)
    answer = ask("candidates", file=demo_database.name, step=0, rank=0, side="bench", index=0)
    [only] = pb.Candidates.FromString(answer.data).candidates
    assert (only.index, only.name) == (0, "DefaultModel")
