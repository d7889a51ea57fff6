"""Groups: one call against many, found by what flows in and out; nothing else is grouped."""

from __future__ import annotations

import csv
import html
import re
import sqlite3
from collections import defaultdict
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from msprobe_builder.align.settled import align_rest
from msprobe_builder.base.options import DEFAULT_OPTIONS
from msprobe_builder.base.texts import Texts
from msprobe_builder.command.main import main
from msprobe_builder.dump.source import Source
from msprobe_builder.export.table import export_table
from msprobe_builder.match.choose import match_nodes
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.respell import (
    Change,
    Recording,
    chained,
    other_attributes,
    other_classes,
    recording,
    scaled_behind,
    without_calls,
    without_statistics,
)
from tests.alignment.test_real_pairs import PAIRS, rank
from tests.conftest import BuildDatabase
from tests.worded import worded

Members = tuple[frozenset[str], frozenset[str]]
ATTENTION = "Functional.scaled_dot_product_attention.0.forward"
# Controls: nothing in these pairs is written as one call on one side and as many on the other.
CONTROLS = ("ddp", "fsdp2", "ckpt_true", "autocast_bf16", "adapter")


def same(before: Recording) -> Recording:
    return before


def groups(npu: Source, bench: Source) -> dict[Members, str]:
    """Names of the members of each group, and what it does."""
    texts = Texts()
    (left, _), (right, _) = map(partial(read_rank, texts=texts), (npu, bench))
    matching, _ = match_nodes(left, right, DEFAULT_OPTIONS, texts, align=align_rest)
    for group in matching.groups:
        assert all(matching.npu[node] < 0 for node in group.npu)
        assert all(matching.bench[node] < 0 for node in group.bench)
    npu_members = [node for group in matching.groups for node in group.npu]
    assert len(npu_members) == len(set(npu_members))
    return {
        (
            frozenset(left.tree.names[node] for node in group.npu),
            frozenset(right.tree.names[node] for node in group.bench),
        ): group.operation
        for group in matching.groups
    }


def of_pair(pairs: Path, name: str, change: Change = same) -> dict[Members, str]:
    npu, bench = (recording(rank(pairs / name / side)) for side in ("npu", "bench"))
    return groups(change(npu).source(), change(bench).source())


@pytest.fixture
def sdpa(pairs: Path, build_database: BuildDatabase) -> Path:
    """One attention against its parts, as a database of its own."""
    return build_database(*(rank(pairs / "sdpa" / side) for side in ("npu", "bench")))


def members_of(database: Path) -> list[tuple[list[str], list[str]]]:
    """Names of both sides of each group, as SQL tells them."""
    found: dict[int, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    with closing(sqlite3.connect(database)) as connection:
        for group, side, name in connection.execute(
            "SELECT call_group_id, side, name FROM group_member JOIN node_view USING (node_id)"
            " ORDER BY node_id"
        ):
            found[group][side != "npu"].append(name)
    return list(found.values())


def table(database: Path, *options: str) -> list[dict[str, str]]:
    folder = database.with_name(f"table{len(options)}")
    arguments = ["table", str(database), "-o", str(folder), "--format", "csv", "--quiet"]
    assert main([*arguments, *options]) == 0
    [path] = folder.glob("compare_result_*.csv")
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def report(database: Path, *options: str) -> str:
    output = database.with_name("report.html")
    assert main(["report", str(database), "-o", str(output), *options]) == 0
    return output.read_text(encoding="utf-8")


def linear(stem: str, *calls: int) -> set[str]:
    return {f"{stem}.linear.{call}.forward" for call in calls}


def test_one_attention_against_its_parts(pairs: Path) -> None:
    found = of_pair(pairs, "sdpa")
    assert list(found.values()) == ["attention"] * 8
    [(mine, theirs)] = [members for members in found if ATTENTION in members[0]]
    assert mine == {ATTENTION}
    operators = {name.split(".")[1] for name in theirs}
    assert operators == {
        *("expand", "reshape", "transpose", "matmul", "__mul__", "__add__"),
        *("softmax", "to", "dropout"),
    }
    assert sum(name.split(".")[1] == "matmul" for name in theirs) == 2


@pytest.mark.parametrize(
    "change",
    [same, without_statistics, without_calls, chained(without_calls, without_statistics)],
    ids=["all", "structure", "L0", "L0 structure"],
)
@pytest.mark.parametrize("layer", [0, 1])
def test_fused_projections(pairs: Path, change: Change, layer: int) -> None:
    """q, k and v against one linear, gate and up against one; their weights add up."""
    found = of_pair(pairs, "own_llama", change)
    modules = {
        tuple(frozenset(name for name in side if name.startswith("Module.")) for side in members)
        for members, operation in found.items()
        if operation == "linear"
    }
    mine, theirs = f"Module.model.layers.{layer}", f"Module.stack.blocks.{layer}"
    for parts, whole in (
        (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "mix.wqkv"),
        (("mlp.gate_proj", "mlp.up_proj"), "ff.w13"),
    ):
        for call in ("forward.0", "forward.1", "backward.0", "backward.1", "parameters_grad"):
            npu = frozenset(f"{mine}.{part}.Linear.{call}" for part in parts)
            assert (npu, frozenset({f"{theirs}.{whole}.Linear.{call}"})) in modules


def test_rotary_and_gelu_written_otherwise(pairs: Path) -> None:
    found = of_pair(pairs, "own_llama")
    assert list(found.values()).count("rotary") == 8
    found = of_pair(pairs, "gpt2")
    written_out = [members for members, operation in found.items() if operation == "gelu"]
    assert {frozenset({f"Functional.gelu.{call}.forward"}) for call in range(4)} <= {
        theirs for _, theirs in written_out
    }
    assert {len(mine) for mine, _ in written_out} == {8}


@pytest.mark.parametrize("change", [same, without_statistics], ids=["all", "structure"])
@pytest.mark.parametrize("name", CONTROLS)
def test_nothing_is_grouped_where_nothing_is_fused(pairs: Path, name: str, change: Change) -> None:
    assert of_pair(pairs, name, change) == {}
    assert name in PAIRS


def test_respelled_dumps_have_no_groups(dumps: Path) -> None:
    bench = recording(min((dumps / "llama_statistics" / "step0").glob("rank*")))
    npu = chained(other_classes, other_attributes)(bench)
    assert groups(npu.source(), bench.source()) == {}


def test_behind_a_fault_groups_are_found_by_what_takes_their_outputs(pairs: Path) -> None:
    """Every statistic of one side is another one; within a side tensors are equal to the bit."""
    npu, bench = (recording(rank(pairs / "sdpa" / side)) for side in ("npu", "bench"))
    found = groups(scaled_behind("Functional.embedding.0.forward", 1.7)(npu).source(),
                   bench.source())  # fmt: skip
    assert [theirs for mine, theirs in found if mine == {ATTENTION}]
    assert set(found.values()) == {"attention"}


def test_groups_are_compared_and_graded(pairs: Path, build_database: BuildDatabase) -> None:
    path = build_database(*(rank(pairs / "sdpa" / side) for side in ("npu", "bench")))
    with closing(sqlite3.connect(path)) as connection:
        graded = connection.execute(
            "SELECT operation, grade.name, error < 1e-4 FROM call_group JOIN grade USING (grade)"
        ).fetchall()
        assert graded == [("attention", "ok", 1)] * 8
        rows = connection.execute(
            "SELECT own.name, mine.section, theirs.section, mine.norm, theirs.norm, norm_diff"
            " FROM group_comparison AS pair JOIN node_name AS own ON own.node_id = npu_node"
            " JOIN tensor AS mine ON mine.node_id = npu_node AND mine.ordinal = npu_ordinal"
            " JOIN tensor AS theirs ON theirs.node_id = bench_node"
            " AND theirs.ordinal = bench_ordinal"
        ).fetchall()
        forward = [row for row in rows if row[0] == ATTENTION]
        assert [row[1] for row in forward] == [0, 0, 0, 1]  # query, key, value; what comes out
        for _, mine, theirs, norm, other, difference in rows:
            assert mine == theirs
            assert difference == pytest.approx(norm - other, abs=1e-12)
            assert norm == pytest.approx(other, rel=1e-4)
        reasons = connection.execute(
            "SELECT DISTINCT unmatched_reason FROM node_view JOIN group_member USING (node_id)"
        ).fetchall()
        assert reasons == [("grouped",)]
        query = "SELECT value FROM meta WHERE key = 'alignment'"
        [[sentence]] = worded(connection.execute(query))
        assert sentence.startswith("97.3 % matched, 213 by what they compute, not by name, 8 more")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "ddp",
            "the debug names have `module.` in front; 99.3 % matched, 679 by what they compute",
        ),
        ("fsdp2", "1 class has other names; "),
        ("gpt2", "attributes have other names, 5 classes have other names; "),
    ],
)
def test_one_sentence_says_what_was_done(
    pairs: Path, build_database: BuildDatabase, name: str, said: str
) -> None:
    path = build_database(*(rank(pairs / name / side) for side in ("npu", "bench")))
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT value FROM meta WHERE key = 'alignment'"
        [[sentence]] = worded(connection.execute(query))
    assert said in sentence


def test_the_export_says_what_made_each_match_and_which_group_a_call_is_in(
    pairs: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    path = build_database(*(rank(pairs / "sdpa" / side) for side in ("npu", "bench")))
    table = tmp_path / "nodes.csv"
    export_table(path, table)
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    with closing(sqlite3.connect(path)) as connection:
        [[found]] = connection.execute("SELECT count(evidence) FROM match")
        [[members]] = connection.execute("SELECT count(*) FROM group_member")
    automatic = [row for row in rows if row["match_source"] == "automatic"]
    assert len(automatic) == 2 * found  # both sides
    for row in automatic:
        assert row["match_evidence"] in {"leaves", "inside", "backward", "gradient", "collection"}
        assert 0.5 <= float(row["match_certainty"]) <= 1
    grouped = [row for row in rows if row["call_group"]]
    assert len(grouped) == members
    assert {(row["group_operation"], row["group_grade"]) for row in grouped} == {
        ("attention", "ok")
    }
    assert {row["unmatched_reason"] for row in grouped} == {"grouped"}


def test_a_row_of_a_call_in_a_group_says_so(sdpa: Path) -> None:
    rows = table(sdpa, "--own")
    of_name = {
        (side, name): "attention: " + ", ".join(others)
        for mine, theirs in members_of(sdpa)
        for side, names, others in (("npu", mine, theirs), ("bench", theirs, mine))
        for name in names
    }
    seen = set()
    for row in rows:
        side, value = ("npu", row["NPU Name"])
        if value == "N/A":
            side, value = ("bench", row["Bench Name"])
        call = side, re.sub(r"\.(input|output|kwargs|parameters)\..*", "", value)
        assert row["Group"] == of_name.get(call, "N/A"), value
        if row["Group"] == "N/A":
            assert (row["Group Error"], row["Group Grade"]) == ("N/A", "N/A")
            continue
        assert 0 <= float(row["Group Error"]) < 1e-4
        assert row["Group Grade"] == "ok"
        assert "N/A" in (row["NPU Name"], row["Bench Name"])
        seen.add(call)
    assert seen == set(of_name)


def test_documented_columns_know_no_groups(sdpa: Path) -> None:
    own, documented = table(sdpa, "--own"), table(sdpa)
    assert not any("Group" in name for name in documented[0])
    assert [{name: row[name] for name in documented[0]} for row in own] == documented


def test_the_report_tells_groups_the_worst_first(sdpa: Path) -> None:
    with closing(sqlite3.connect(sdpa)) as connection:
        connection.execute("UPDATE call_group SET error = 0.75, grade = 4 WHERE call_group_id = 3")
        connection.commit()
        [[names]] = connection.execute(
            "SELECT group_concat(name, ', ') FROM (SELECT name FROM group_member"
            " JOIN node_view USING (node_id) WHERE call_group_id = 3 AND side = 'bench'"
            " ORDER BY node_id)"
        )
    text = report(sdpa, "--nodes", "2")
    begin, end = (text.index(f"<summary>{one}") for one in ("Groups of calls (8)", "Unmatched"))
    section = text[begin:end]
    first, second = re.findall("<tr><td>.*?</tr>", section)
    assert names in first
    assert ">0.75<" in first
    assert "serious" in first
    assert "serious" not in second
    assert "the 2 with the largest errors" in section
    assert "8 more are in groups of calls" in text


def test_the_report_says_nothing_of_groups_where_there_are_none(demo_database: Path) -> None:
    with closing(sqlite3.connect(demo_database)) as connection:
        assert connection.execute("SELECT count(*) FROM call_group").fetchone() == (0,)
    output = demo_database.with_name("without_groups.html")
    assert main(["report", str(demo_database), "-o", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    output.unlink()
    assert "Groups of calls" not in text
    assert "in groups" not in text


def test_hostile_groups_stay_text(sdpa: Path) -> None:
    hostile = "=<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"
    with closing(sqlite3.connect(sdpa)) as connection:
        connection.execute("UPDATE call_group SET operation = ?, error = 9e999", (hostile,))
        connection.execute("UPDATE text SET value = value || ?", (hostile,))
        connection.commit()
    text = report(sdpa)
    assert "<script" not in text
    assert "<img" not in text
    assert html.escape(hostile) in text[text.index("Groups of calls") :]
    assert all(row["Group"][0] in "N'" for row in table(sdpa, "--own"))
    assert main(["table", str(sdpa), "-o", str(sdpa.with_name("book")), "--own", "--quiet"]) == 0


def test_a_group_without_a_side_is_told_as_damage(
    sdpa: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(sdpa)) as connection:
        connection.execute(
            "DELETE FROM group_member WHERE node_id IN (SELECT node_id FROM node"
            " JOIN graph USING (graph_id) WHERE side = 1)"
        )
        connection.commit()
    folder = sdpa.with_name("damaged")
    for command, output in (("report", folder / "report.html"), ("table", folder)):
        assert main([command, str(sdpa), "-o", str(output)]) == 1
        assert "a group lacks the nodes of one side" in capsys.readouterr().err
    assert not folder.exists() or not list(folder.iterdir())
