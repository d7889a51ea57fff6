"""The reference tool's results on real dumps, reproduced; each difference follows a rule.

The rules are those of docs/design/differences.md. A node that no rule
names must have the same error.
"""

from __future__ import annotations

import csv
import lzma
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import pytest

from tests.conftest import BuildDatabase

REFERENCE = Path(__file__).parents[2] / "data" / "reference"
ROUNDING = 1e-6
FLOAT32 = 2.0**-23


@dataclass(frozen=True)
class Node:
    """One node as both tools see it; errors are 0 good, 1 bad."""

    name: str
    kind: str
    theirs: float | None
    ours: float | None

    @property
    def agrees(self) -> bool:
        """Whether the errors are equal, up to the reference's six decimals."""
        if self.theirs is None or self.ours is None:
            return self.theirs is self.ours
        return abs(self.theirs - self.ours) <= ROUNDING


@dataclass(frozen=True)
class Comparison:
    """A comparison built by both tools."""

    connection: sqlite3.Connection
    nodes: list[Node]

    def differing(self) -> list[Node]:
        """Nodes whose errors are not equal."""
        return [node for node in self.nodes if not node.agrees]


def _rank(dumps: Path, name: str, step: int = 0) -> Path:
    return dumps / name / f"step{step}" / "rank"


def _compare(name: str, database: Path, *, best: int = 0) -> Iterator[Comparison]:
    """Read both results; names, parents and matches must be equal on both sides."""
    with lzma.open(REFERENCE / f"{name}.csv.xz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with closing(sqlite3.connect(database)) as connection:
        columns = "side, name, parent, matched, kind, error"
        ours = {
            (side, node): rest
            for side, node, *rest in connection.execute(f"SELECT {columns} FROM node_view")
        }
        nodes = []
        assert len(rows) == len(ours)
        for row in rows:
            parent, matched, kind, error = ours[row["side"].lower(), row["node"]]
            assert parent == (row["parent"] or None)
            assert matched == (row["matched"] or None)
            if row["side"] == "NPU":
                index = row["precision_index"]
                theirs = abs(best - float(index)) if index else None
                nodes.append(Node(row["node"], kind, theirs, error))
        yield Comparison(connection, nodes)


@pytest.fixture(scope="module")
def statistics(dumps: Path, build_database: BuildDatabase) -> Iterator[Comparison]:
    """A correct run against one with a wrong attention scale: statistics."""
    npu = _rank(dumps, "llama_statistics")
    bench = _rank(dumps, "llama_statistics_wrong_attention_scale")
    yield from _compare("compare_attention_scale_statistics", build_database(npu, bench))


@pytest.fixture(scope="module")
def tensors(dumps: Path, build_database: BuildDatabase) -> Iterator[Comparison]:
    """The same pair with real data."""
    pytest.importorskip("torch")
    npu, bench = _rank(dumps, "llama_tensor"), _rank(dumps, "llama_tensor_wrong_attention_scale")
    yield from _compare("compare_attention_scale_tensor", build_database(npu, bench))


@pytest.fixture(scope="module")
def checksums(dumps: Path, build_database: BuildDatabase) -> Iterator[Comparison]:
    """The same pair with checksums; the reference writes 1 for equal, so its scale is turned."""
    npu, bench = _rank(dumps, "llama_md5"), _rank(dumps, "llama_md5_wrong_attention_scale")
    yield from _compare("compare_attention_scale_md5", build_database(npu, bench), best=1)


def is_gradient(node: Node) -> bool:
    """Parameter gradients: the reference counts them as inputs and never grades them."""
    return node.name.endswith(".parameters_grad")


def has_zero_mean(node: Node, connection: sqlite3.Connection) -> bool:
    """Whether some output's mean is zero within float32 on both sides, and was decisive."""
    rows = connection.execute(
        "SELECT own.shape, own.mean, own.norm, theirs.mean, theirs.norm, own.mean_relative_err"
        " FROM tensor_view AS own JOIN tensor_view AS theirs"
        " ON theirs.side = 'bench' AND theirs.node = own.node AND theirs.name = own.name"
        " WHERE own.side = 'npu' AND own.direction = 'output' AND own.node = ?",
        (node.name,),
    )
    for shape, mean, norm, other_mean, other_norm, error in rows:
        elements = 1
        for size in shape.strip("[]").split(","):
            elements *= int(size)
        noise = FLOAT32 / sqrt(elements)
        if abs(mean) <= noise * norm and abs(other_mean) <= noise * other_norm:
            assert node.theirs is not None
            return bool(abs(min(error, 1.0) - node.theirs) <= ROUNDING)
    return False


def test_statistics(statistics: Comparison) -> None:
    differing = statistics.differing()
    for node in differing:
        if is_gradient(node):
            assert node.theirs == 0
        else:
            assert has_zero_mean(node, statistics.connection), node
            assert node.ours is not None
            assert node.theirs is not None
            assert node.ours < node.theirs
    assert any(is_gradient(node) for node in differing)
    assert not all(is_gradient(node) for node in differing)


def test_tensor(tensors: Comparison) -> None:
    differing = tensors.differing()
    assert differing
    assert all(is_gradient(node) and node.theirs == 0 for node in differing)
    assert sum((node.theirs or 0) > 0.2 for node in tensors.nodes) > 10


def test_md5(checksums: Comparison) -> None:
    assert not checksums.differing()
    assert {node.ours for node in checksums.nodes} == {0.0, 1.0, None}


def test_structure(dumps: Path, build_database: BuildDatabase) -> None:
    npu, bench = _rank(dumps, "llama_structure"), _rank(dumps, "llama_structure", step=1)
    for comparison in _compare("compare_structure", build_database(npu, bench)):
        assert {node.ours for node in comparison.nodes} == {None}
        assert {node.kind for node in comparison.differing()} == {"collection"}


def test_modules_alone(dumps: Path, build_database: BuildDatabase) -> None:
    npu, bench = _rank(dumps, "llama_statistics_L0"), _rank(dumps, "llama_statistics_L0", step=1)
    for comparison in _compare("compare_L0_step0_step1", build_database(npu, bench)):
        differing = comparison.differing()
        assert differing
        assert all(is_gradient(node) and node.theirs == 0 for node in differing)


def test_nan_weight(dumps: Path, build_database: BuildDatabase) -> None:
    npu, bench = _rank(dumps, "llama_statistics_nan_weight"), _rank(dumps, "llama_statistics")
    for comparison in _compare("compare_nan_weight_overflow", build_database(npu, bench)):
        differing = comparison.differing()
        assert differing
        assert all(is_gradient(n) and (n.theirs, n.ours) == (0, 1) for n in differing)
