"""Verdicts and suspects of all steps and ranks, with what other ranks have to say of them."""

from __future__ import annotations

import sqlite3

from msprobe_builder.base.codes import CallRole, Direction, Kind, Role, Strength
from msprobe_builder.database.read.cells import (
    MAX_NODE,
    integer,
    number,
    optional_integer,
    optional_text,
    text,
)
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import decode
from msprobe_builder.verdict.findings import OF_OPTIMIZERS
from msprobe_builder.verdict.ruling.all_ranks import (
    Accused,
    AllRanks,
    PlaceRuling,
    Repeated,
    Witness,
)

_SUSPECTS = """
SELECT suspect_id, suspect.node_id, step, rank, side, strength, cause, place, evidence,
       node.kind, node.direction, node.call, own.value, source,
       above.kind, above.direction, outer.value, node.node_id - first_node, node.graph_id,
       suspect.error, suspect.expected
FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id)
JOIN text AS own ON own.text_id = node.stem_id
LEFT JOIN node AS above ON above.node_id = node.parent_id
LEFT JOIN text AS outer ON outer.text_id = above.stem_id
ORDER BY step, rank, place
"""
# From the end of each graph, which is near.
_LAST_GRADIENTS = """
SELECT graph_id, (
    SELECT node_id FROM node WHERE direction = ?
    AND node_id BETWEEN first_node AND first_node + node_count - 1 ORDER BY node_id DESC LIMIT 1
) AS last FROM graph WHERE last IS NOT NULL
"""
# Of all suspects at once, as the question goes through all nodes.
_NAMESAKES = """
WITH wanted AS MATERIALIZED (
    SELECT suspect_id, step, rank, stem_id, direction, call
    FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id)
    WHERE strength > 0 AND side = 0
)
SELECT wanted.suspect_id, graph.rank, role.role, role.given, node.node_id,
    role.suspect_id IS NOT NULL
FROM node CROSS JOIN wanted ON node.stem_id = wanted.stem_id
    AND node.direction = wanted.direction AND node.call IS wanted.call
JOIN graph ON graph.graph_id = node.graph_id AND graph.step = wanted.step AND graph.side = 0
    AND graph.rank != wanted.rank
LEFT JOIN role ON role.node_id = node.node_id
"""
_PUT_OUT = (
    "SELECT max, min, mean, norm FROM tensor WHERE node_id = ? AND section = ? ORDER BY ordinal"
)
_TALKS_BEFORE = """
SELECT 1 FROM node JOIN text ON text_id = stem_id
WHERE parent_id = (SELECT parent_id FROM node WHERE node_id = :node)
AND node_id BETWEEN :node - :near AND :node - 1 AND value LIKE 'Distributed.%'
"""
_NEAR = 3  # calls between communication and what encloses it: it is recorded when it has returned
_PARTNERS = """
SELECT rank, role.role, role.suspect_id IS NOT NULL, (
    SELECT max(norm_relative_err) FROM comparison
    JOIN tensor ON tensor.node_id = npu_node AND tensor.ordinal = npu_ordinal
    WHERE npu_node = partner_id AND section = :input
), communication.role = :both AND EXISTS (
    SELECT 1 FROM suspect WHERE suspect.node_id = partner_id AND cause = :cause
) FROM communication
JOIN node ON node.node_id = partner_id JOIN graph USING (graph_id)
LEFT JOIN role ON role.node_id = partner_id WHERE communication.node_id = :node
"""
# Who sent what arrived unchanged in both runs, by the same call of both; roles of clean calls have
# no row.
_SENT_ALIKE = """
SELECT rank FROM communication AS npu
JOIN match AS got ON got.npu_node = npu.node_id
JOIN match AS sent ON sent.npu_node = npu.partner_id
JOIN communication AS bench
    ON bench.node_id = got.bench_node AND bench.partner_id = sent.bench_node
JOIN node ON node.node_id = npu.partner_id JOIN graph USING (graph_id)
LEFT JOIN role ON role.node_id = npu.partner_id
WHERE npu.node_id = ? AND npu.role = ? AND npu.data_equal AND bench.data_equal
    AND role.node_id IS NULL
"""
# A call in place, such as that of an optimizer, put the tensor out in a step before.
_TRAINED = """
WITH wanted AS MATERIALIZED (
    SELECT suspect_id, node_id, ordinal, step, rank, shape_id, max, min, mean, norm
    FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id) JOIN tensor USING (node_id)
    WHERE strength > 0 AND side = 0 AND max != min
    AND (cause = 'weight' AND section = :weight OR cause = 'external' AND section = :input)
)
SELECT DISTINCT wanted.suspect_id, wanted.ordinal, graph.step
FROM graph JOIN node USING (graph_id) JOIN text ON text_id = stem_id
JOIN tensor USING (node_id) LEFT JOIN role USING (node_id)
JOIN wanted ON wanted.shape_id = tensor.shape_id AND wanted.norm = tensor.norm
    AND wanted.max = tensor.max AND wanted.min = tensor.min AND wanted.mean = tensor.mean
    AND wanted.rank = graph.rank AND wanted.step > graph.step
LEFT JOIN comparison AS was ON was.npu_node = tensor.node_id AND was.npu_ordinal = tensor.ordinal
LEFT JOIN comparison AS now ON now.npu_node = wanted.node_id AND now.npu_ordinal = wanted.ordinal
WHERE graph.side = 0 AND section = :output AND coalesce(role.role, :clean) IN (:clean, :carrier)
    AND substr(value, -1) = '_' AND substr(value, -2) != '__'
    -- What is far off now, and was not then, has become so in between.
    AND coalesce(max(was.max_relative_err, was.min_relative_err, was.norm_relative_err)
        >= :share * max(now.max_relative_err, now.min_relative_err, now.norm_relative_err), 1)
"""
# The input that is off most: where it agrees, what put it out says nothing of the others.
_WORST_INPUT = """
SELECT npu_ordinal FROM comparison
JOIN tensor ON tensor.node_id = npu_node AND tensor.ordinal = npu_ordinal
WHERE npu_node = ? AND section = ?
ORDER BY max(coalesce(max_relative_err, 0), coalesce(min_relative_err, 0),
    coalesce(mean_relative_err, 0), coalesce(norm_relative_err, 0)) DESC LIMIT 1
"""
_OTHERWISE = "probability.otherwise"  # told until all steps are heard
_OF_OPTIMIZERS = tuple(one.word for one in OF_OPTIMIZERS)
_AS_FAR_OFF = 0.1  # of what is off behind an update, what the update is off by at least
_WEIGHTS = "SELECT count(*) FROM tensor WHERE node_id = ? AND section = ? AND max != min"


_CALLS_OF_MODULES = """
SELECT step, rank, value, sum(side = 0) AS npu, sum(side = 1) AS bench
FROM node JOIN graph USING (graph_id) JOIN text ON text_id = stem_id
WHERE kind = ? AND direction = ? GROUP BY step, rank, stem_id
HAVING npu != bench AND npu > 0 AND bench > 0 ORDER BY step, rank, min(node_id)
"""


def read_places(connection: sqlite3.Connection) -> list[PlaceRuling]:
    """The verdicts on single steps and ranks."""
    return [
        PlaceRuling(
            integer(step),
            integer(rank),
            text(word),
            decode(text(said)),
            integer(compared),
            number(noise),
        )
        for step, rank, word, said, compared, noise in connection.execute(
            "SELECT step, rank, conclusion, sentence, compared, noise FROM verdict"
            " WHERE step IS NOT NULL ORDER BY step, rank"
        )
    ]


def read_all_ranks(connection: sqlite3.Connection) -> AllRanks:
    """Everything that the verdict on the whole file follows from."""
    rows = connection.execute(_SUSPECTS).fetchall()
    all_ranks = AllRanks(read_places(connection), [_accused(row) for row in rows])
    if len(all_ranks.places) > 1:
        gradients = connection.execute(_LAST_GRADIENTS, (int(Direction.BACKWARD),))
        last = {graph: integer(node) for graph, node in gradients}
        for one, row in zip(all_ranks.accused, rows, strict=True):
            one.is_update = one.node_id > last.get(row[18], one.node_id)
    if len({place.step for place in all_ranks.places}) > 1:
        _look_for_updates(connection, all_ranks.accused)
        if any(one.strength and one.cause in _OF_OPTIMIZERS for one in all_ranks.accused):
            all_ranks.repeated.extend(_repeated(connection))
    if len({place.rank for place in all_ranks.places}) < 2:
        return all_ranks
    own = {one.suspect_id: one for one in all_ranks.accused}
    for one in all_ranks.accused:
        one.talks = _talks(connection, one)
        all_ranks.partners[one.suspect_id] = [
            Witness(
                integer(rank),
                _role(role),
                inherits=bool(inherits),
                gives=number(off) or 0.0,
                is_accused_alike=bool(is_alike),
            )
            for rank, role, inherits, off, is_alike in connection.execute(
                _PARTNERS,
                {
                    "node": one.node_id,
                    "cause": one.cause,
                    "input": int(Section.INPUT),
                    "both": int(Role.SEND_RECEIVE),
                },
            )
        ]
        sent = connection.execute(_SENT_ALIKE, (one.node_id, int(Role.RECEIVE))).fetchone()
        if sent is not None:
            all_ranks.senders[one.suspect_id] = integer(sent[0])
    for suspect, rank, role, given, node, inherits in connection.execute(_NAMESAKES).fetchall():
        is_same = _same_output(connection, own[suspect].node_id, integer(node, 0, MAX_NODE))
        witness = Witness(integer(rank), _role(role), number(given), is_same, bool(inherits))
        all_ranks.namesakes.setdefault(suspect, []).append(witness)
    return all_ranks


def _look_for_updates(connection: sqlite3.Connection, accused: list[Accused]) -> None:
    """Find whose weights are what an update of a step before put out, which agrees."""
    if not any(one.strength and one.cause in ("weight", "external") for one in accused):
        return
    codes = {"weight": int(Section.PARAMETERS), "input": int(Section.INPUT)}
    codes |= {"output": int(Section.OUTPUT)}
    codes |= {"clean": int(CallRole.CLEAN), "carrier": int(CallRole.CARRIER)}
    found: dict[int, dict[int, int]] = {}
    parameters = {**codes, "share": _AS_FAR_OFF}
    for suspect, ordinal, step in connection.execute(_TRAINED, parameters):
        found.setdefault(integer(suspect), {})[integer(ordinal)] = integer(step)
    for one in accused:
        steps = found.get(one.suspect_id)
        if not steps:
            continue
        if one.cause == "weight":
            (weights,) = connection.execute(_WEIGHTS, (one.node_id, codes["weight"])).fetchone()
            is_trained = len(steps) == integer(weights)
        else:
            worst = connection.execute(_WORST_INPUT, (one.node_id, codes["input"])).fetchone()
            is_trained = worst is None or integer(worst[0]) in steps
        if is_trained:
            one.trained_in = max(steps.values())


def _repeated(connection: sqlite3.Connection) -> list[Repeated]:
    found: dict[tuple[int, int], Repeated] = {}
    codes = int(Kind.MODULE), int(Direction.FORWARD)
    for step, rank, module, npu, bench in connection.execute(_CALLS_OF_MODULES, codes):
        one = Repeated(integer(step), integer(rank), text(module), integer(npu), integer(bench))
        found.setdefault((one.step, one.rank), one)
    return list(found.values())


def _talks(connection: sqlite3.Connection, one: Accused) -> bool:
    """Whether a call talks to other ranks, or encloses one that does."""
    if one.stem.startswith("Distributed."):
        return True
    near = {"node": one.node_id, "near": _NEAR}
    return connection.execute(_TALKS_BEFORE, near).fetchone() is not None


def _same_output(connection: sqlite3.Connection, node: int, other: int) -> bool:
    """Whether two calls have put out the same, to the last digit."""
    first, second = (
        connection.execute(_PUT_OUT, (one, int(Section.OUTPUT))).fetchall() for one in (node, other)
    )
    return bool(first) and first == second and any(row[0] != row[1] for row in first)


def _accused(row: tuple[object, ...]) -> Accused:
    told = decode(text(row[8]))
    otherwise = [one.arguments.get("percent") for one in told if one.code == _OTHERWISE]
    return Accused(
        suspect_id=integer(row[0]),
        node_id=integer(row[1], 0, MAX_NODE),
        step=integer(row[2]),
        rank=integer(row[3]),
        side=integer(row[4], 0, 1),
        seq=integer(row[17], 0, MAX_NODE),
        strength=integer(row[5], 0, len(Strength) - 1),
        cause=text(row[6]),
        place=integer(row[7]),
        evidence=tuple(one for one in told if one.code != _OTHERWISE),
        kind=integer(row[9], 0, len(Kind) - 1),
        direction=integer(row[10], 0, len(Direction) - 1),
        call=optional_integer(row[11]),
        stem=text(row[12]),
        source=optional_text(row[13]),
        error=number(row[19]),
        expected=number(row[20]),
        otherwise=integer(otherwise[0], 0, 100) if otherwise else None,
        # The stem of a module ends in its class.
        module=text(row[16]).rpartition(".")[0] if row[14] == Kind.MODULE and row[15] else "",
    )


def _role(role: object) -> int | None:
    return optional_integer(role, 0, len(CallRole) - 1)
