"""What can only be told of all steps and ranks together: who sends to whom, who is to blame."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from msprobe_builder.base.codes import Strength
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.read.all_ranks import read_all_ranks
from msprobe_builder.database.read.graphs import has_reference, read_graphs
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.database.read.not_finite import StoredBeginning
from msprobe_builder.database.read.surroundings import Known, read_surroundings
from msprobe_builder.database.write.verdict import write_ruling
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import has_code
from msprobe_builder.facts.words import HIDDEN
from msprobe_builder.pipeline.updates import find_updates
from msprobe_builder.verdict.findings import OF_OPTIMIZERS, Cause
from msprobe_builder.verdict.ruling.across import Ruling, apart, judge_across
from msprobe_builder.verdict.ruling.all_ranks import AllRanks
from msprobe_builder.verdict.ruling.conclusion import UNDECIDED, lacks_numbers
from msprobe_builder.verdict.ruling.next_dump import (
    SHOWN,
    all_tensors,
    earlier_dump,
    next_dump,
    steps_before,
)
from msprobe_builder.verdict.ruling.unusual import is_unusual

_OF_OPTIMIZERS = tuple(one.word for one in OF_OPTIMIZERS)
_OUTSIDE = Cause.UNRECORDED.word  # what is wrong is not in the module that shows it


def link_communication(connection: sqlite3.Connection) -> list[Diagnostic]:
    """Link the calls of every step and side that has more than one rank.

    Structure dumps hold no arguments, so who talks to whom is not known there.
    """
    if read_task(connection) is Task.STRUCTURE:
        return []
    findings: list[Diagnostic] = []
    places: dict[tuple[int, int], list[int]] = {}
    for graph in read_graphs(connection):
        places.setdefault((graph.side, graph.step), []).append(graph.rank)
    several = {place: ranks for place, ranks in sorted(places.items()) if len(ranks) > 1}
    if not several:
        return []
    from msprobe_builder.database.read.calls import read_communication_calls
    from msprobe_builder.database.write.communication import write_communication
    from msprobe_builder.link.calls import communication_calls
    from msprobe_builder.link.communication import link_ranks

    for (side, step), ranks in several.items():
        calls = communication_calls(read_communication_calls(connection, side, step))
        linked = link_ranks(calls, ranks, side, step)
        write_communication(connection, linked.rows)
        findings += linked.diagnostics
    return findings


def settle_verdict(connection: sqlite3.Connection, origins: Sequence[StoredBeginning]) -> None:
    """Bring the verdicts on single steps and ranks together; nothing where there is none.

    ``origins`` are where NaN and infinity began.
    """
    if not has_reference(connection):
        from msprobe_builder.pipeline.one_run import settle_run

        settle_run(connection, origins)
        return
    agreeing = find_updates(connection)
    all_ranks = replace(read_all_ranks(connection), agreeing=agreeing)
    if not all_ranks.places:
        return
    ruling = judge_across(all_ranks)
    write_ruling(connection, all_ranks, ruling, _proposal(connection, all_ranks, ruling))


def _proposal(connection: sqlite3.Connection, all_ranks: AllRanks, ruling: Ruling) -> str | None:
    """JSON of what to record next."""
    known: Known = {}
    if not ruling.standing or is_unusual(ruling.standing[0]):
        if ruling.conclusion != UNDECIDED:
            return None
        hidden = [one.step for one in all_ranks.places if has_code(one.said, HIDDEN)]
        if not hidden and not lacks_numbers(ruling.said):
            return None
        first = next(one for one in read_graphs(connection) if one.step in hidden or not hidden)
        whole = read_surroundings(connection, first.last, known, is_outside=True)
        if whole is None or not hidden:
            return None if whole is None else earlier_dump(whole, [first.step], ())
        return None if read_task(connection) is Task.TENSOR else all_tensors(whole)
    best = ruling.standing[0]
    if best.cause in _OF_OPTIMIZERS:
        found = steps_before(best.step, [place.step for place in all_ranks.places])
        whole = read_surroundings(connection, best.node_id, known, is_outside=True)
        return None if found is None or whole is None else earlier_dump(whole, *found)
    if best.cause == _OUTSIDE:
        whole = read_surroundings(connection, best.node_id, known, is_outside=True)
        if whole is not None and whole.level != "L0":  # a filter left the calls out, all of them
            return earlier_dump(replace(whole, calls=0), [best.step], ())
    chosen = apart(ruling.standing)
    if best.strength == Strength.STRONG:  # what is weak, or comes later, may follow from that
        chosen = [one for one in chosen if (one.strength, one.step) == (best.strength, best.step)]
    nearest = [
        read_surroundings(connection, one.node_id, known, is_outside=one.cause == _OUTSIDE)
        for one in chosen[:SHOWN]
        if one.cause not in _OF_OPTIMIZERS
    ]
    return next_dump([one for one in nearest if one])
