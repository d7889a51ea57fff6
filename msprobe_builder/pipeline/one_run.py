"""The verdict on a run without a reference: what must hold by arithmetic, within it and between
its ranks."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence

from msprobe_builder.database.read.all_ranks import read_all_ranks
from msprobe_builder.database.read.calls import read_communication_calls
from msprobe_builder.database.read.evidence import read_runs
from msprobe_builder.database.read.not_finite import StoredBeginning
from msprobe_builder.database.read.stacks import read_source
from msprobe_builder.database.write.evidence import write_evidence
from msprobe_builder.database.write.one_run import add_suspects, write_place
from msprobe_builder.database.write.verdict import write_ruling
from msprobe_builder.facts.fact import Facts, within
from msprobe_builder.graph.part import Part
from msprobe_builder.invariants.additions import check_additions
from msprobe_builder.invariants.check import check_run
from msprobe_builder.invariants.conclusion import TOLD, likeliest, rule, told
from msprobe_builder.invariants.evidence import evidence_of
from msprobe_builder.invariants.violation import Check
from msprobe_builder.link.calls import communication_calls
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.pipeline.origins import received_at, violations
from msprobe_builder.verdict.ruling.evidence import source_line


def store_evidence(connection: sqlite3.Connection, result: PairResult) -> None:
    """Store what one rank is checked by, and what does not hold within it.

    Before the texts of the rank are stored.
    """
    graph = result.npu
    part = Part(graph.tree, graph.table)
    write_evidence(connection, graph.table, evidence_of(part), result.texts)
    if part.table.sketched is None:
        write_place(connection, result.step, result.rank, (), 0)
        return
    found = check_additions(part, result.texts)
    checked = sum(found.checked.values())
    write_place(connection, result.step, result.rank, told(found.checked, found.unchecked), checked)
    names, stacks = graph.tree.names, graph.dump.stacks
    chosen = likeliest(found.violations, dict.fromkeys(range(len(names)), result.rank))
    told_of = [(one, source_line(stacks, names[one.node], [])) for one in chosen]
    add_suspects(connection, told_of, first_node=1)


def settle_run(connection: sqlite3.Connection, origins: Sequence[StoredBeginning]) -> None:
    """Check the ranks of each step against each other and write the verdict on all.

    ``origins`` are where NaN and infinity began.
    """
    if not read_all_ranks(connection).places:
        return  # of merged ranks, or without numbers
    checked: Counter[Check] = Counter()
    unchecked: Counter[Check] = Counter()
    for run, children in read_runs(connection):
        calls = communication_calls(read_communication_calls(connection, 0, run.step))
        found = check_run(run, calls if len(run.ranks) > 1 else [], children)
        checked += found.checked
        unchecked += found.unchecked
        chosen = likeliest(found.violations, run.rank_of)
        add_suspects(connection, [(one, read_source(connection, one.node)) for one in chosen])
    add_suspects(
        connection, [(one, read_source(connection, one.node)) for one in violations(origins)]
    )
    all_ranks = read_all_ranks(connection)
    for place in all_ranks.places:
        _add(checked, unchecked, place.said)
    if not (checked or unchecked or all_ranks.accused):
        return
    ruling = rule(all_ranks, checked, unchecked, received_at(origins))
    write_ruling(connection, all_ranks, ruling, None, compared=sum(checked.values()))


def _add(checked: Counter[Check], unchecked: Counter[Check], said: Facts) -> None:
    """Count what a rank was checked by alone."""
    for one in said:
        counter = checked if one.code == TOLD else unchecked
        for each in within(one):
            check = Check.of(each.code)
            if check is not None:
                counter[check] += int(str(each["count"]))
