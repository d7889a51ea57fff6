"""The details of all nodes of a graph as blocks that compress well."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

import numpy as np

from msprobe_builder.base.codes import METRICS, STATISTICS
from msprobe_builder.database.read.graphs import Graph, other_side
from msprobe_builder.database.read.nodes import read_node
from msprobe_builder.metrics.statistics import statistic_errors
from tb_graph_ascend.encode.answers import encode_node
from tb_graph_ascend.generated import graph_pb2 as pb

BLOCK = 256  # nodes that the page decodes at once
_ERRORS = METRICS[: 2 * len(STATISTICS)]  # differences, then relative errors
_GOOD = (pb.GRADE_UNGRADED, pb.GRADE_OK)


class Stacks:
    """Call stacks of all nodes, each once."""

    def __init__(self) -> None:
        self._frames: dict[bytes, int] = {}
        self._stacks: dict[tuple[int, ...], int] = {}
        self.message = pb.PageStacks()

    def take(self, record: pb.NodeRecord) -> int:
        """Take the stack out of a record; its place plus 1, 0 when there is none."""
        if not record.stack:
            return 0
        places = tuple(map(self._place, record.stack))
        record.ClearField("stack")
        if places not in self._stacks:
            self._stacks[places] = len(self._stacks) + 1
            self.message.stacks.add(frames=places)
        return self._stacks[places]

    def _place(self, frame: pb.StackFrame) -> int:
        key = frame.SerializeToString(deterministic=True)
        if key not in self._frames:
            self._frames[key] = len(self._frames)
            self.message.frames.append(frame)
        return self._frames[key]


def details(
    connection: sqlite3.Connection, graph: Graph, indexes: Iterable[int], stacks: Stacks
) -> Iterator[pb.PageNode]:
    """Details of nodes of one side."""
    other = other_side(connection, graph)
    for index in indexes:
        # The page finds paths in the hierarchy.
        found = read_node(connection, graph, other, graph.first + index, with_path=False)
        node = pb.PageNode(index=index, detail=encode_node("", found))
        detail = node.detail
        for record, place in ((detail.npu, "npu_stack"), (detail.bench, "bench_stack")):
            setattr(node, place, stacks.take(record))
            for known in ("name", "path"):
                record.ClearField(known)
        for number, row in enumerate(detail.rows):
            if _drop_plain(row):
                node.plain_rows.append(number)
        yield node


def _drop_plain(row: pb.ParameterRow) -> bool:
    """Take out differences and relative errors if they are what the statistics give."""
    if not row.HasField("comparison"):
        return False
    npu, bench = (
        np.array([getattr(one, name) if one.HasField(name) else np.nan for name in STATISTICS])
        for one in (row.npu, row.bench)
    )
    there = [row.npu.HasField(name) and row.bench.HasField(name) for name in STATISTICS]
    expected = np.concatenate(statistic_errors(npu, bench))
    comparison = row.comparison
    for name, value, is_there in zip(_ERRORS, expected.tolist(), [*there, *there], strict=True):
        if comparison.HasField(name) != is_there:
            return False
        found = getattr(comparison, name)
        if is_there and not (found == value or (found != found and value != value)):
            return False
    for name in _ERRORS:
        comparison.ClearField(name)
    return True


def leave_out(node: pb.PageNode) -> bool:
    """Take the tensors of a node without error out; whether there were any."""
    detail = node.detail
    is_good = detail.npu.grade in _GOOD and detail.HasField("npu")
    is_judged = detail.verdict.role in (pb.CALL_ROLE_UNKNOWN, pb.CALL_ROLE_CLEAN)
    if not (is_good and is_judged and detail.rows):
        return False
    detail.ClearField("rows")
    detail.tensors_left_out = True
    node.ClearField("plain_rows")
    return True
