"""How far the outputs of each node are off, measured by the size of the tensors.

A relative error says little where a value is nearly zero. Here each statistic is measured against
the elements of the reference's tensor:

    max, min   |n - b| / largest |element|
    mean       |n - b| / (norm / √elements)
    norm       |n - b| / norm

A mask value, an extreme a thousand times the other one such as the -3.4e38 of a mask, does not
count as the largest element. Where the tensors themselves were compared it is ‖n - b‖ / ‖b‖, or the
largest error of an element over the largest element; where their sketches were, the ‖n - b‖ / ‖b‖
that these tell counts, too. NaN on one side only is the worst there is.
"""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.read.cells import text
from msprobe_builder.database.read.graphs import Graph
from msprobe_builder.graph.floating import rounding_units

Float = NDArray[np.float64]

WORST = 1e3
_NODES = 20_000  # at once
_COLLECTION = 2
_FLOAT32 = 2.0**-23
# What is summed in float32 is rounded at every step, half precision once at the end.
_SUMS = 8.0
_SHAPE = re.compile(r"\[\d*(, ?\d+)*\]")

# Squares, for not every SQLite has a square root. A division by zero gives NULL there.
_QUERY = f"""
WITH size (id, count) AS MATERIALIZED (SELECT value ->> 0, value ->> 1 FROM json_each(:sizes)),
unit (id, epsilon) AS MATERIALIZED (SELECT value ->> 0, value ->> 1 FROM json_each(:units)),
pair AS (
    SELECT npu_node AS node, comparison.nan_flags & 15 AS broken,
           max_diff, min_diff, mean_diff, norm_diff, euclidean_distance, max_abs_err,
           relative_difference, abs(bench.max) AS high, abs(bench.min) AS low, bench.norm AS norm,
           coalesce(size.count, 1) AS count,
           coalesce(one.epsilon, {_FLOAT32}) AS npu_unit,
           coalesce(other.epsilon, {_FLOAT32}) AS bench_unit
    FROM comparison
    JOIN tensor AS npu ON npu.node_id = npu_node AND npu.ordinal = npu_ordinal
    JOIN match USING (npu_node)
    JOIN tensor AS bench ON bench.node_id = bench_node AND bench.ordinal = bench_ordinal
    LEFT JOIN size ON size.id = bench.shape_id
    LEFT JOIN unit AS one ON one.id = npu.dtype_id
    LEFT JOIN unit AS other ON other.id = bench.dtype_id
    WHERE npu_node BETWEEN :first AND :last AND npu.section IN (1, 3)
),
largest AS (
    SELECT *, CASE WHEN high > 1000 * low AND high >= 1000 THEN low
                   WHEN low > 1000 * high AND low >= 1000 THEN high
                   ELSE max(high, low) END AS extreme,
           max(npu_unit, bench_unit, {_SUMS} * min(npu_unit, bench_unit, {_FLOAT32})) AS rounding
    FROM pair
),
part (node, rounding, broken, square) AS (
    SELECT node, rounding, broken, CASE max_diff WHEN 0 THEN 0 ELSE
        coalesce(max_diff * max_diff / max(high * high, extreme * extreme), {WORST**2}) END
    FROM largest WHERE max_diff IS NOT NULL AND euclidean_distance IS NULL
    UNION ALL SELECT node, rounding, broken, CASE min_diff WHEN 0 THEN 0 ELSE
        coalesce(min_diff * min_diff / max(low * low, extreme * extreme), {WORST**2}) END
    FROM largest WHERE min_diff IS NOT NULL AND euclidean_distance IS NULL
    UNION ALL SELECT node, rounding, broken, CASE mean_diff WHEN 0 THEN 0 ELSE
        coalesce(mean_diff * mean_diff * count / (norm * norm), {WORST**2}) END
    FROM largest WHERE mean_diff IS NOT NULL AND euclidean_distance IS NULL AND norm IS NOT NULL
    UNION ALL SELECT node, rounding, broken, CASE norm_diff WHEN 0 THEN 0 ELSE
        coalesce(norm_diff * norm_diff / (norm * norm), {WORST**2}) END
    FROM largest WHERE norm_diff IS NOT NULL AND euclidean_distance IS NULL
    UNION ALL SELECT node, rounding, broken, CASE euclidean_distance WHEN 0 THEN 0 ELSE
        coalesce(euclidean_distance * euclidean_distance / (norm * norm), {WORST**2}) END
    FROM largest WHERE euclidean_distance IS NOT NULL AND norm IS NOT NULL
    UNION ALL SELECT node, rounding, broken, CASE max_abs_err WHEN 0 THEN 0 ELSE
        coalesce(max_abs_err * max_abs_err / (extreme * extreme), {WORST**2}) END
    FROM largest WHERE euclidean_distance IS NOT NULL
    UNION ALL SELECT node, rounding, broken, relative_difference * relative_difference
    FROM largest WHERE relative_difference IS NOT NULL
    UNION ALL SELECT node, rounding, broken, {WORST**2} FROM largest WHERE broken
)
SELECT node, max(square), max(square / (rounding * rounding)) FROM part GROUP BY node
"""


@dataclass(frozen=True)
class Measures:
    """Of each npu node the largest error of an output, -1 where there is none.

    ``scaled`` is a fraction of the tensor's size, at most WORST; ``roundings`` the same in what
    rounding alone does to an element of its type.
    """

    scaled: Float
    roundings: Float


def read_measures(connection: sqlite3.Connection, graph: Graph) -> Measures:
    """Of every node of an npu graph; empty columns where nothing has a measure."""
    sizes, units = _texts_of_tensors(connection)
    texts = {"sizes": json.dumps(sizes), "units": json.dumps(units)}
    # SQLite sorts a block in memory; all rows at once would take ten times the room of the graph.
    blocks = [
        np.array(rows, np.float64)
        for first in range(graph.first, graph.last + 1, _NODES)
        if (
            rows := connection.execute(
                _QUERY,
                {**texts, "first": first, "last": min(first + _NODES - 1, graph.last)},
            ).fetchall()
        )
    ]
    if not blocks:
        return Measures(np.empty(0), np.empty(0))
    table = np.concatenate(blocks)
    index = table[:, 0].astype(np.int64) - graph.first
    measured = [np.full(graph.count, -1.0) for _ in range(2)]
    for column, squares in zip(measured, table[:, 1:].T, strict=True):
        column[index] = np.sqrt(squares)
        column[index] = np.where(np.isfinite(column[index]), column[index], WORST)
    scaled, roundings = measured
    np.minimum(scaled, WORST, out=scaled)
    for node, last in _collections(connection, graph.first, graph.last):
        inside = slice(node + 1, last + 1)
        for column in measured:
            column[node] = column[inside].max(initial=-1.0)
    return Measures(scaled, roundings)


def _texts_of_tensors(
    connection: sqlite3.Connection,
) -> tuple[list[tuple[int, int]], list[tuple[int, float]]]:
    """Numbers of elements of the shapes in table text, and rounding units of the dtypes."""
    sizes = [
        (number, prod(map(int, re.findall(r"\d+", shape))))
        for number, shape in connection.execute(
            "SELECT text_id, value FROM text WHERE value GLOB '[[]*]'"
        )
        if _SHAPE.fullmatch(text(shape))
    ]
    words = connection.execute(
        "SELECT text_id, value FROM text WHERE length(value) < 30 AND value GLOB '*[0-9e]*'"
    ).fetchall()
    units = rounding_units([text(word) for _, word in words])
    return sizes, [(words[place][0], unit) for place, unit in units.items()]


def _collections(connection: sqlite3.Connection, first: int, last: int) -> list[tuple[int, int]]:
    """Place of each collection of calls, and of the last call in it."""
    return [
        (int(node), int(end))
        for node, end in connection.execute(
            "SELECT node_id - :first, subtree_end - :first FROM node"
            " WHERE node_id BETWEEN :first AND :last AND kind = :kind",
            {"first": first, "last": last, "kind": _COLLECTION},
        )
    ]
