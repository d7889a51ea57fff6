"""The same operation wherever two nodes of the same names are: steps, ranks and micro-steps."""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Iterator

from msprobe_builder.base.codes import Kind
from msprobe_builder.database.read.namesakes import calls_of_name, kind_and_call
from msprobe_builder.rematch.graphs import GraphPair, pair_of
from msprobe_builder.rematch.operations import Operation


def elsewhere(
    connection: sqlite3.Connection, pairs: list[GraphPair], operation: Operation
) -> Iterator[tuple[GraphPair, Operation]]:
    """An operation as it is in all other places, in order.

    Nodes of the same names belong together in another step or rank. Other calls of a module are
    those of other micro-steps where both nodes have the same call number and both sides call it
    equally often; otherwise a recomputed call could stand against the next micro-step's.
    """
    at = pair_of(pairs, operation.npu)
    own, own_call = kind_and_call(connection, operation.npu)
    _, other_call = kind_and_call(connection, operation.bench)
    follows_calls = own == Kind.MODULE and own_call == other_call
    for pair in pairs:
        npu = calls_of_name(connection, operation.npu, pair.npu)
        bench = calls_of_name(connection, operation.bench, pair.bench)
        asked = {own_call: other_call}
        if follows_calls and npu.keys() == bench.keys():
            asked = {call: call for call in sorted(npu, key=lambda one: one or 0)}
        for call, partner_call in asked.items():
            one, other = npu.get(call), bench.get(partner_call)
            is_asked = pair == at and call == own_call
            if one is not None and other is not None and not is_asked:
                yield pair, dataclasses.replace(operation, npu=one, bench=other)
