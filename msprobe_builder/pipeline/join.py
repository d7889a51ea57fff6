"""Joining the shards of all steps and ranks into the database, alone or behind what is there."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path

from msprobe_builder.base.codes import Grade
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.options import DEFAULT_OPTIONS
from msprobe_builder.base.version import __version__
from msprobe_builder.database.write.across import forget_across, judge_whole
from msprobe_builder.database.write.gather import Gatherer
from msprobe_builder.database.write.pair import write_diagnostics, write_meta
from msprobe_builder.dump.source import Dumps
from msprobe_builder.link.communication import link_communication
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.pipeline.executors.attempt import Outcome


def of_one_task(outcomes: list[Outcome], task: str | None = None) -> list[Outcome]:
    """A database has one grading profile: ranks of another task than the first are left out.

    ``task`` is that of the database they are added to.
    """
    result = []
    for outcome in outcomes:
        if outcome.problem is None:
            own = _task(outcome.shard)
            task = task or own
            if own != task:
                problem = (
                    f"{outcome.job.npu} is a dump of task {own}, the first one is of task {task}; "
                    "build them apart."
                )
                outcome = replace(outcome, problem=problem)
        result.append(outcome)
    return result


def _task(shard: Path) -> str:
    connection = sqlite3.connect(shard)
    try:
        [[task]] = connection.execute("SELECT value FROM meta WHERE key = 'task'")
    finally:
        connection.close()
    return str(task)


def gather(
    temporary: Path,
    outcomes: list[Outcome],
    config: BuildConfig,
    found: list[Diagnostic],
    *,
    keep_shards: bool,
) -> list[Diagnostic]:
    """Join all shards at ``temporary``, behind the rows that are there already; all findings.

    Without ``keep_shards`` they are used up, so that the disk never holds everything twice.
    """
    shards = [outcome.shard for outcome in outcomes if outcome.problem is None]
    if not temporary.exists():
        first = shards.pop(0)
        if keep_shards:
            shutil.copyfile(first, temporary)
        else:
            first.rename(temporary)
    with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        forget_across(connection)
        gatherer = Gatherer(connection)
        for shard in shards:
            gatherer.append(shard)
            if not keep_shards:
                shard.unlink()
        if not connection.in_transaction:
            connection.execute("BEGIN")
        if config.npu_layout is None:  # merged models hold the calls of many ranks
            found = found + link_communication(connection)
        judge_whole(connection)
        write_diagnostics(connection, found)
        write_meta(connection, _facts(connection, config))
        connection.execute("COMMIT")
        # A rollback journal: these files are copied around and lie on network file systems.
        connection.execute("PRAGMA journal_mode = DELETE")
        rows = connection.execute(
            "SELECT severity, code, message, subject, count, side, step, rank FROM diagnostic"
        )
        return [Diagnostic(*row) for row in rows]


def shown_options(config: BuildConfig) -> str:
    """How was compared, as far as it differs from the default, as JSON: meta.options."""
    default = asdict(DEFAULT_OPTIONS)
    chosen = {key: value for key, value in asdict(config.options).items() if value != default[key]}
    if config.noise_path is not None:
        chosen["noise"] = True
    for key in ("npu_layout", "bench_layout"):
        if getattr(config, key) is not None:
            layout = asdict(getattr(config, key))
            layout.pop("where", None)  # in which file it was asked for
            chosen[key] = layout
    return json.dumps(chosen, default=str, sort_keys=True)


def _facts(connection: sqlite3.Connection, config: BuildConfig) -> dict[str, str | None]:
    """What meta says of the build."""
    [[lacking]] = connection.execute(
        "SELECT count(*) FROM diagnostic WHERE code IN ('rank_failed', 'missing_rank')"
    )
    return {
        "kind": "build" if config.bench_path is None else "compare",
        "npu_path": named(config.npu_path),
        "bench_path": None if config.bench_path is None else named(config.bench_path),
        "noise_path": None if config.noise_path is None else named(config.noise_path),
        "builder_version": __version__,
        "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "overflow_checked": str(int(config.options.overflow_check)),
        "options": shown_options(config),
        "complete": str(int(not lacking)),
    }


def named(dumps: Dumps) -> str:
    """What meta says of where the dumps came from."""
    return "in_memory" if isinstance(dumps, Mapping) else str(dumps)


def counts(path: Path) -> dict[str, object]:
    """Nodes, matches and grades of a finished file, for the last words of a build."""
    connection = sqlite3.connect(path)
    try:
        nodes = dict(connection.execute("SELECT side, sum(node_count) FROM graph GROUP BY side"))
        grades = dict(
            connection.execute(
                "SELECT node.grade, count(*) FROM node JOIN graph USING (graph_id)"
                " WHERE side = 0 GROUP BY node.grade"
            )
        )
        [[matched, by_evidence]] = connection.execute("SELECT count(*), count(evidence) FROM match")
    finally:
        connection.close()
    return {
        "npu_nodes": nodes.get(0, 0),
        "bench_nodes": nodes.get(1, 0),
        "matched": matched,
        "by_evidence": by_evidence,
        "grades": {grade.name.lower(): grades.get(int(grade), 0) for grade in Grade},
    }
