"""What looks like an overflow and is none: memory without data, and deliberate infinities."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.memory import FIRST_OPERANDS, unread_operands
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.link.signatures import Binding, Pattern, function_of
from msprobe_builder.operators.questions import is_uninitialised
from msprobe_builder.operators.table import overwrites

Bool = NDArray[np.bool_]


def meaningless_rows(tree: Tree, table: ParameterTable, texts: Texts, rank: int) -> Bool:
    """Rows that show memory without data: fresh, about to be overwritten, or not yet received."""
    result = np.zeros(len(table), dtype=bool)
    is_input = table.section == Section.INPUT
    out = [position for position, text in enumerate(texts.values) if text == "input.out"]
    result |= is_input & np.isin(table.name_id, out)
    result |= (table.section == Section.OUTPUT) & tree.calls.are(is_uninitialised)[table.node]
    result |= unread_operands(tree, table, texts)
    calls = tree.calls
    concerned = calls.of_stems(lambda one: overwrites(one) or function_of(one) is not None)
    nodes = np.flatnonzero(calls.is_forward_call & (concerned > 0))
    first, last = np.searchsorted(table.node, [nodes, nodes + 1])
    for number, begin, end in zip(
        calls.stem[nodes].tolist(), first.tolist(), last.tolist(), strict=True
    ):
        stem, rows = calls.stems[number], range(begin, end)
        if overwrites(stem):
            result[[row for row in rows if _is_first_operand(table, row, texts)]] = True
        result[list(_without_data(stem, table, rows, texts, rank))] = True
    return result


def _is_first_operand(table: ParameterTable, row: int, texts: Texts) -> bool:
    return texts.values[table.name_id[row]] in FIRST_OPERANDS


def _without_data(
    stem: str, table: ParameterTable, rows: range, texts: Texts, rank: int
) -> Iterator[int]:
    """Rows of a communication that hold no data yet, or none that is defined."""
    communication = function_of(stem)
    if communication is None:
        return
    name, function = communication
    if function.pattern is Pattern.BATCH:
        yield from _receives_of_batch(table, rows, texts)
        return
    names = {row: texts.values[table.name_id[row]] for row in rows}
    is_input = {row: table.section[row] == Section.INPUT for row in rows}
    binding = Binding(function, [names[row] for row in rows if is_input[row]])
    values = {
        binding.input(names[row])[0]: texts.values[table.value_id[row]]
        for row in rows
        if is_input[row] and table.value_id[row] >= 0
    }
    is_root = function.peer is not None and values.get(function.peer) == str(rank)
    if name == "reduce" and not is_root:  # only the root's result is defined
        yield from (row for row in rows if not is_input[row])
    if function.received is None or (name == "broadcast" and is_root):
        return
    buffers = {}
    for row in rows:
        if is_input[row]:
            parameter = binding.input(names[row])
            if parameter[0] == function.received.parameter:
                buffers[parameter] = row
                yield row
    if name == "irecv" or values.get("async_op") == "True":
        for row in rows:
            buffer = buffers.get(binding.output(names[row]))
            if not is_input[row] and buffer is not None and _unchanged(table, buffer, row):
                yield row  # the data had not come when it was recorded


def _unchanged(table: ParameterTable, before: int, after: int) -> bool:
    statistics = table.statistics
    return np.array_equal(statistics[:, before], statistics[:, after], equal_nan=True)


def _receives_of_batch(table: ParameterTable, rows: range, texts: Texts) -> Iterator[int]:
    """Buffers of a batch; they are recorded before the data have come, so outputs too."""
    operation = {}
    for row in rows:
        path, _, key = texts.values[table.name_id[row]].rpartition(".")
        if key == "op" and table.value_id[row] >= 0:
            operation[path] = texts.values[table.value_id[row]]
    for row in rows:
        path, _, key = texts.values[table.name_id[row]].rpartition(".")
        if key == "tensor" and operation.get(path) in ("irecv", "recv"):
            yield row
