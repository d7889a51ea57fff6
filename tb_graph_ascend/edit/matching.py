"""Changes of matches inside a transaction, by the functions of the builder."""

from __future__ import annotations

import sqlite3

from msprobe_builder.base.codes import Grade, Source
from msprobe_builder.database.read.edits import read_edit_state
from msprobe_builder.database.read.groups import members_with
from msprobe_builder.database.read.names import read_names
from msprobe_builder.database.read.nodes import NodeState, read_node_states
from msprobe_builder.facts.fact import encode
from msprobe_builder.match.match_file import parse_match_file
from msprobe_builder.rematch.edits import (
    CONFIRM,
    MATCH,
    REJECT,
    UNMATCH,
    Change,
    Edits,
    redo,
    undo,
)
from msprobe_builder.rematch.everywhere import elsewhere
from msprobe_builder.rematch.graphs import GraphPair, nodes_in, pair_of, read_pairs
from msprobe_builder.rematch.imports import import_pairs
from msprobe_builder.rematch.operations import Conflict, Operation, Outcome, carry_out
from msprobe_builder.rematch.refresh import refresh
from tb_graph_ascend.encode.edits import encode_edit_state
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.limits import MAX_OPERATIONS
from tb_graph_ascend.problems import bad_request, conflict, not_found

ACTIONS = {
    pb.MATCH_ACTION_MATCH: MATCH,
    pb.MATCH_ACTION_UNMATCH: UNMATCH,
    pb.MATCH_ACTION_CONFIRM: CONFIRM,
    pb.MATCH_ACTION_REJECT: REJECT,
}
CODES = {action: code for code, action in ACTIONS.items()}
_PREVIEWED = 100  # steps and ranks; the Match tab shows as many changes


def match(connection: sqlite3.Connection, body: pb.MatchRequest, report: pb.MatchReport) -> None:
    """Carry out what a person asks for."""
    pairs = read_pairs(connection)
    pair = next((one for one in pairs if (one.step, one.rank) == (body.step, body.rank)), None)
    if pair is None:
        raise not_found(
            "unknown_graph",
            f"The file holds no comparison of step {body.step}, rank {body.rank}.",
            "Choose a step and rank that the catalog lists with both sides.",
        )
    if not 0 < len(body.operations) <= MAX_OPERATIONS:
        raise bad_request(
            "bad_body",
            f"The request has {len(body.operations)} operations.",
            f"Give 1 to {MAX_OPERATIONS}.",
        )
    operations = [_operation(pair, one) for one in body.operations]
    edits = Edits(connection, body.author or None, body.reason or None)
    outcome = carry_out(edits, pair, operations)
    _add_outcome(connection, pair, outcome, report)
    if outcome.conflicts and not body.dry_run:
        raise _conflict_problem(connection, outcome.conflicts[0])
    for operation, asked in zip(operations, body.operations, strict=True):
        if asked.everywhere:
            for place, same in elsewhere(connection, pairs, operation):
                report.left_out += bool(carry_out(edits, place, [same]).conflicts)
    _finish(edits, pairs, report)


def undo_last(
    connection: sqlite3.Connection, _body: pb.UndoRequest, report: pb.MatchReport
) -> None:
    """Take back what was done last."""
    edits = Edits(connection)
    if not undo(edits):
        raise conflict("nothing_to_undo", "Nothing is left to undo.", "Load the file again.")
    _finish(edits, read_pairs(connection), report)


def redo_next(
    connection: sqlite3.Connection, _body: pb.UndoRequest, report: pb.MatchReport
) -> None:
    """Do again what was undone last."""
    edits = Edits(connection)
    if not redo(edits):
        message = "Nothing that still fits the matches is left to redo."
        raise conflict("nothing_to_redo", message, "Load the file again.")
    _finish(edits, read_pairs(connection), report)


def import_file(
    connection: sqlite3.Connection, body: pb.ImportRequest, report: pb.MatchReport
) -> None:
    """Match the pairs of a match file."""
    chosen = parse_match_file(body.content, "The match file")
    pairs = read_pairs(connection)
    edits = Edits(connection, body.author or None, body.reason or None, Source.FILE)
    for one in import_pairs(edits, pairs, chosen, replace=body.replace):
        report.imported.add(
            npu=one.pair.npu,
            bench=one.pair.bench,
            step=one.pair.step,
            rank=one.pair.rank,
            matched=one.matched,
            present=one.present,
            swapped=one.swapped,
            problem="" if one.problem is None else encode(one.problem),
        )
    _finish(edits, pairs, report)


def _operation(pair: GraphPair, asked: pb.MatchOperation) -> Operation:
    for index, graph, side in ((asked.npu, pair.npu, "npu"), (asked.bench, pair.bench, "bench")):
        if index >= graph.count:
            raise not_found(
                "unknown_node",
                f"There is no node {index}: the graph on the {side} side has {graph.count} nodes.",
                "Load the graph again; its nodes are numbered from 0.",
            )
    if (asked.npu == 0) != (asked.bench == 0):
        raise bad_request(
            "only_roots", "The root matches nothing but the root.", "Choose two other nodes."
        )
    if asked.action not in ACTIONS:
        raise bad_request(
            "bad_body",
            f"There is no action {asked.action}.",
            f"Give one of: {', '.join(map(pb.MatchAction.Name, ACTIONS))}.",
        )
    return Operation(
        ACTIONS[asked.action],
        pair.npu.first + asked.npu,
        pair.bench.first + asked.bench,
        asked.descendants,
        asked.replace,
        asked.twin,
    )


def _add_outcome(
    connection: sqlite3.Connection, pair: GraphPair, outcome: Outcome, report: pb.MatchReport
) -> None:
    first = (pair.npu.first, pair.bench.first)
    nodes = {one.node for one in outcome.conflicts}
    nodes |= {one.partner for one in outcome.conflicts if one.partner is not None}
    nodes |= {node for one in outcome.offers for node in (one.npu, one.bench)}
    names = read_names(connection, nodes)
    for met in outcome.conflicts:
        other = first[1 - met.side]
        report.conflicts.add(
            operation=met.operation,
            side=pb.Side.Name(met.side),
            index=met.node - first[met.side],
            name=names[met.node],
            partner=None if met.partner is None else met.partner - other,
            partner_name="" if met.partner is None else names[met.partner],
        )
    for offer in outcome.offers:
        report.offers.add(
            operation=offer.operation,
            kind="twin",
            npu=offer.npu - first[0],
            bench=offer.bench - first[1],
            npu_name=names[offer.npu],
            bench_name=names[offer.bench],
        )


def _conflict_problem(connection: sqlite3.Connection, met: Conflict) -> Exception:
    nodes = {met.node} if met.partner is None else {met.node, met.partner}
    names = read_names(connection, nodes)
    if not met.is_automatic:
        message = f"{names[met.node]} has no automatic match with this node."
        return conflict("not_automatic", message, "Load the graph again.")
    if met.partner is None:
        message = f"{names[met.node]} is not matched with this node."
        return conflict("not_matched", message, "Load the graph again.")
    return conflict(
        "already_matched",
        f"{names[met.node]} is matched with {names[met.partner]}.",
        "Ask for it to be replaced, or choose another node.",
    )


def _finish(edits: Edits, pairs: list[GraphPair], report: pb.MatchReport) -> None:
    """Bring up to date what follows from the changes, and report them."""
    connection = edits.connection
    measured = _first_changed(pairs, edits.changes) if report.dry_run else pairs
    ids = sorted(change.npu for change in edits.changes)
    inside = {node for pair in measured for node in nodes_in(pair.npu, ids)}
    changes = [change for change in edits.changes if change.npu in inside]
    # Who answers for a match has no part in how it is measured.
    moved = [change for change in changes if change.action != CONFIRM]
    npu = {change.npu for change in moved}
    bench = {change.bench for change in moved}
    changed = refresh(connection, measured, npu, bench) if moved else set()
    changed |= {node for change in changes for node in (change.npu, change.bench)}
    changed |= members_with(connection, changed)
    states = read_node_states(connection, changed)
    _add_changes(connection, pairs, edits.changes, states, report)
    ordered = sorted(changed)
    for pair in measured:
        for_npu, for_bench = nodes_in(pair.npu, ordered), nodes_in(pair.bench, ordered)
        if for_npu or for_bench:
            first = pair.npu.first, pair.bench.first
            report.updates.add(
                step=pair.step,
                rank=pair.rank,
                npu=[_state(node - first[0], states[node], first[1]) for node in for_npu],
                bench=[_state(node - first[1], states[node], first[0]) for node in for_bench],
            )
    report.edits.CopyFrom(encode_edit_state(read_edit_state(connection)))


def _first_changed(pairs: list[GraphPair], changes: list[Change]) -> list[GraphPair]:
    """The first of the steps and ranks that change: a preview shows the grades of no more."""
    found: list[GraphPair] = []
    for change in changes:
        if found and change.npu in found[-1].npu:
            continue
        pair = pair_of(pairs, change.npu)
        if pair not in found:
            found.append(pair)
        if len(found) == _PREVIEWED:
            break
    return found


def _add_changes(
    connection: sqlite3.Connection,
    pairs: list[GraphPair],
    changes: list[Change],
    states: dict[int, NodeState],
    report: pb.MatchReport,
) -> None:
    names = read_names(connection, {node for one in changes for node in (one.npu, one.bench)})
    pair = None
    for change in changes:
        if pair is None or change.npu not in pair.npu:
            pair = pair_of(pairs, change.npu)
        state = states.get(change.npu)
        report.changes.add(
            action=pb.MatchAction.Name(CODES[change.action]),
            step=pair.step,
            rank=pair.rank,
            npu=change.npu - pair.npu.first,
            bench=change.bench - pair.bench.first,
            npu_name=names[change.npu],
            bench_name=names[change.bench],
            cause=change.cause,
            grade=pb.Grade.Name(Grade.UNGRADED if state is None else state.grade),
            error=None if state is None else state.error,
        )


def _state(index: int, state: NodeState, other_first: int) -> pb.NodeState:
    return pb.NodeState(
        index=index,
        partner=None if state.partner is None else state.partner - other_first,
        grade=pb.Grade.Name(state.grade),
        error=state.error,
        unmatched_reason=state.unmatched_reason,
        match_source=pb.MatchSource.Name(state.source),
        match_certainty=state.certainty,
    )
