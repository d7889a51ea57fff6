"""The nodes, or the pairs of tensors, of a database as rows of a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Literal

from msprobe_builder.base.codes import METRICS, SIDES, STATISTICS, Evidence, Grade, words
from msprobe_builder.base.errors import UsageError
from msprobe_builder.database.read.groups import STANDING
from msprobe_builder.facts.fact import decode, is_encoded
from msprobe_builder.facts.wording import tell

Value = str | float | int | None
Table = Literal["nodes", "tensors"]

_SECTION = "CASE {} WHEN 0 THEN 'input' WHEN 1 THEN 'output' WHEN 2 THEN 'parameters'"
_SECTION += " ELSE 'parameters_grad' END"

# Of which ranks a merged value is and how it was made; one without a recipe is a rank's record.
_MERGED = (
    "coalesce((SELECT recipe FROM recipe_view"
    " WHERE recipe_view.node_id = {0}.node_id AND recipe_view.ordinal = {0}.ordinal),"
    " (SELECT CASE count(*) WHEN 0 THEN NULL WHEN 1 THEN 'as recorded on rank '"
    " ELSE 'as recorded on one of ranks ' END || group_concat(rank, ', ') FROM"
    " (SELECT rank FROM origin WHERE origin.node_id = {0}.node_id ORDER BY rank)))"
)
_NODES = f"""
SELECT {{columns}}
FROM node_view JOIN node USING (node_id)
LEFT JOIN unmatched USING (node_id)
LEFT JOIN node_name AS nearest ON nearest.node_id = unmatched.candidate_id
LEFT JOIN match ON match.npu_node = node.node_id OR match.bench_node = node.node_id
LEFT JOIN group_member ON group_member.node_id = node.node_id AND {STANDING}
LEFT JOIN call_group USING (call_group_id)
LEFT JOIN grade AS group_grade ON group_grade.grade = call_group.grade
WHERE node.node_id BETWEEN ? AND ? {{condition}} ORDER BY node.node_id
"""
_EVIDENCE = (
    "CASE match.evidence "
    + " ".join(f"WHEN {int(kind)} THEN '{kind.name.lower()}'" for kind in Evidence)
    + " END"
)
_NODE_COLUMNS = {
    **{name: f"node_view.{name}" for name in ("step", "rank", "side", "seq", "name", "parent")},
    "kind": "node_view.kind",
    "micro_step": "node_view.micro_step",
    "recompute": "node.is_recompute",
    "descendants": "node.subtree_end - node.node_id",
    "matched": "node_view.matched",
    "match_source": "CASE match.source WHEN 0 THEN 'exact' WHEN 1 THEN 'fuzzy'"
    " WHEN 2 THEN 'mapping' WHEN 3 THEN 'manual' WHEN 4 THEN 'file'"
    " WHEN 5 THEN 'automatic' END",
    "unmatched_reason": "node_view.unmatched_reason",
    "unmatched_detail": "unmatched.detail",
    "nearest": "nearest.name",
    "error": "node_view.error",
    "grade": "node_view.grade",
    "overflow": "node_view.overflow",
    "match_evidence": _EVIDENCE,
    "match_certainty": "match.certainty",
    "call_group": "group_member.call_group_id",
    "group_operation": "call_group.operation",
    "group_error": "call_group.error",
    "group_grade": "group_grade.name",
}

# A row per tensor of the npu side, and per tensor of the bench side that is in no pair.
_TENSORS = """
SELECT {columns}
FROM tensor AS own JOIN node_view ON node_view.node_id = own.node_id
LEFT JOIN comparison ON comparison.npu_node = own.node_id AND npu_ordinal = own.ordinal
LEFT JOIN match ON match.npu_node = own.node_id
LEFT JOIN tensor AS other ON other.node_id = match.bench_node AND other.ordinal = bench_ordinal
LEFT JOIN text AS note ON note.text_id = note_id
WHERE own.node_id BETWEEN ? AND ? {condition} ORDER BY own.node_id, own.ordinal
"""
_UNMATCHED_TENSORS = """
SELECT {columns}
FROM tensor AS other JOIN node_view ON node_view.node_id = other.node_id
LEFT JOIN match ON match.bench_node = other.node_id
WHERE other.node_id BETWEEN ? AND ? {condition} AND NOT EXISTS (
    SELECT 1 FROM comparison
    WHERE comparison.npu_node = match.npu_node AND bench_ordinal = other.ordinal
) ORDER BY other.node_id, other.ordinal
"""


@dataclass(frozen=True)
class Selection:
    """Which rows: an empty tuple allows all."""

    sides: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    grades: tuple[str, ...] = ()
    name: str = ""  # a part of it, whatever the case of its letters


def columns_of(table: Table) -> list[str]:
    """What stands in the first line."""
    return list(_NODE_COLUMNS if table == "nodes" else _pair_columns())


def read_rows(
    connection: sqlite3.Connection, table: Table, selection: Selection
) -> Generator[tuple[Value, ...], None, None]:
    """Rows by step, rank and side, in the order of execution."""
    graphs = connection.execute(
        "SELECT step, rank, side, first_node, node_count FROM graph ORDER BY step, rank, side"
    ).fetchall()
    _check(selection, graphs)
    condition, bound = _condition(selection)
    for step, rank, side, first, count in graphs:
        if not all(
            (
                not selection.sides or SIDES[side] in selection.sides,
                not selection.steps or step in selection.steps,
                not selection.ranks or rank in selection.ranks,
            )
        ):
            continue
        query = _query(table, side).replace("{condition}", condition)
        rows = connection.execute(query, (first, first + count - 1, *bound))
        yield from map(_worded, rows)


def _worded(row: tuple[Value, ...]) -> tuple[Value, ...]:
    """The same with sentences in the place of facts."""
    return tuple(
        tell(decode(cell)) if isinstance(cell, str) and is_encoded(cell) else cell for cell in row
    )


def _check(selection: Selection, graphs: Sequence[tuple[int, ...]]) -> None:
    """Steps, ranks and sides that are not there are a mistake, not an empty table."""
    known_grades = words(Grade)
    for grade in selection.grades:
        if grade not in known_grades:
            listed = ", ".join(known_grades)
            raise UsageError(f"There is no grade {grade!r}; choose of {listed}.")
    there: dict[str, set[int | str]] = {
        "step": {graph[0] for graph in graphs},
        "rank": {graph[1] for graph in graphs},
        "side": {SIDES[graph[2]] for graph in graphs},
    }
    wanted: dict[str, tuple[int | str, ...]] = {
        "step": selection.steps,
        "rank": selection.ranks,
        "side": selection.sides,
    }
    for what, values in wanted.items():
        known = there[what]
        for value in values:
            if value not in known:
                listed = ", ".join(map(str, sorted(known, key=str)))
                raise UsageError(f"The file has no {what} {value}; it has {listed}.")


def _condition(selection: Selection) -> tuple[str, tuple[str, ...]]:
    conditions, bound = "", list(selection.grades)
    if selection.grades:
        conditions += f" AND node_view.grade IN ({', '.join('?' for _ in selection.grades)})"
    if selection.name:
        conditions += " AND instr(lower(node_view.name), lower(?))"
        bound.append(selection.name)
    return conditions, tuple(bound)


def _query(table: Table, side: int) -> str:
    if table == "nodes":
        query, columns = _NODES, _NODE_COLUMNS
    elif side == 0:
        query, columns = _TENSORS, _pair_columns()
    else:
        query, columns = _UNMATCHED_TENSORS, _unmatched_columns()
    listed = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    return query.replace("{columns}", listed)


def _pair_columns() -> dict[str, str]:
    """Columns of the table of tensors for rows of the npu side."""
    return {
        "step": "node_view.step",
        "rank": "node_view.rank",
        "npu_node": "node_view.name",
        "bench_node": "node_view.matched",
        "node_grade": "node_view.grade",
        "section": _SECTION.format("own.section"),
        **_side_columns("npu", "own"),
        **_side_columns("bench", "other"),
        **{
            name: f"iif(comparison.nan_flags >> {bit} & 1, 'NaN', comparison.{name})"
            for bit, name in enumerate(METRICS)
        },
        "md5_equal": "comparison.md5_equal",
        "requires_grad_equal": "comparison.requires_grad_equal",
        "error": "comparison.error",
        "note": "note.value",
        "npu_merged": _MERGED.format("own"),
        "bench_merged": _MERGED.format("other"),
    }


def _unmatched_columns() -> dict[str, str]:
    """The same columns for tensors that only the bench side has."""
    return {
        **dict.fromkeys(_pair_columns(), "NULL"),
        "step": "node_view.step",
        "rank": "node_view.rank",
        "npu_node": "node_view.matched",
        "bench_node": "node_view.name",
        "node_grade": "node_view.grade",
        "section": _SECTION.format("other.section"),
        **_side_columns("bench", "other"),
        "bench_merged": _MERGED.format("other"),
    }


def _side_columns(side: str, tensor: str) -> dict[str, str]:
    texts = {
        f"{side}_{name}": f"(SELECT value FROM text WHERE text_id = {tensor}.{name}_id)"
        for name in ("name", "dtype", "shape")
    }
    statistics = {
        f"{side}_{name}": f"iif({tensor}.nan_flags >> {bit} & 1, 'NaN', {tensor}.{name})"
        for bit, name in enumerate(STATISTICS)
    }
    return {
        **texts,
        f"{side}_requires_grad": f"{tensor}.requires_grad",
        **statistics,
        f"{side}_md5": f"{tensor}.md5",
    }
