"""Joining the shards of all steps and ranks into the database, alone or behind what is there."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path

from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.options import DEFAULT_OPTIONS
from msprobe_builder.base.side_names import names_of_folders, side_name
from msprobe_builder.base.version import __version__
from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.database.read.counts import Counts, read_counts, read_diagnostics
from msprobe_builder.database.read.not_finite import read_beginnings
from msprobe_builder.database.write.across import forget_across, keeping_first_words
from msprobe_builder.database.write.configuration import write_configuration
from msprobe_builder.database.write.gather import Gatherer, finishing, task_of_shard
from msprobe_builder.database.write.pair import write_diagnostics, write_meta
from msprobe_builder.dump.source import Dumps
from msprobe_builder.export.alignment import told_of_alignment
from msprobe_builder.facts.fact import encode
from msprobe_builder.pipeline.across import link_communication, settle_verdict
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.pipeline.early import Joined
from msprobe_builder.pipeline.executors.attempt import Outcome


def of_one_task(outcomes: list[Outcome], task: str | None = None) -> list[Outcome]:
    """A database has one grading profile: ranks of another task than the first are left out.

    ``task`` is that of the database they are added to.
    """
    result = []
    for outcome in outcomes:
        if outcome.problem is None:
            own = task_of_shard(outcome.shard)
            task = task or own
            if own != task:
                problem = (
                    f"{outcome.job.npu} is a dump of task {own}, the first one is of task {task}; "
                    "build them apart."
                )
                outcome = replace(outcome, problem=problem)
        result.append(outcome)
    return result


def gather(
    temporary: Path,
    outcomes: list[Outcome],
    config: BuildConfig,
    found: list[Diagnostic],
    configuration: Configuration | None = None,
    *,
    keep_shards: bool,
    joined: Joined | None = None,
) -> tuple[list[Diagnostic], Counts]:
    """Join all shards at ``temporary``, behind the rows that are there already.

    ``configuration`` replaces what the file says of configurations. Without ``keep_shards``
    they are used up, so that the disk never holds everything twice. Those that are ``joined``
    already need not be joined again.
    """
    shards = [outcome.shard for outcome in outcomes if outcome.problem is None]
    is_new = not temporary.exists()
    count = joined.hand_over(temporary, shards) if joined is not None and is_new else 0
    for shard in () if keep_shards else shards[:count]:
        shard.unlink()
    del shards[:count]
    if is_new and not count:
        first = shards.pop(0)
        if keep_shards:
            shutil.copyfile(first, temporary)
        else:
            first.rename(temporary)
    with finishing(temporary) as connection:
        if not is_new:
            forget_across(connection)
        gatherer = Gatherer(connection)
        for shard in shards:
            gatherer.append(shard)
            if not keep_shards:
                shard.unlink()
        gatherer.begin()
        if config.npu_layout is None:  # merged models hold the calls of many ranks
            found = found + link_communication(connection)
        origins = read_beginnings(connection)
        if origins:  # hardly ever
            from msprobe_builder.pipeline.origins import heard, told

            origins = heard(connection, origins)
            if config.options.overflow_check:
                found = [*found, *told(connection, origins)]
        with keeping_first_words(connection):
            settle_verdict(connection, origins)
        if configuration is not None:
            write_configuration(connection, configuration)
        write_diagnostics(connection, found)
        write_meta(connection, _facts(connection, config))
        return read_diagnostics(connection), read_counts(connection)


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
    codes = {one.code for one in read_diagnostics(connection)}
    aligned = told_of_alignment(connection)
    return {
        "kind": "build" if config.bench_path is None else "compare",
        "npu_path": named(config.npu_path),
        "bench_path": None if config.bench_path is None else named(config.bench_path),
        **{
            f"{side}_name": one or None
            for side, one in zip(SIDES, names_of_sides(config), strict=True)
        },
        "noise_path": None if config.noise_path is None else named(config.noise_path),
        "builder_version": __version__,
        "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "overflow_checked": str(int(config.options.overflow_check)),
        "options": shown_options(config),
        "complete": str(int(not codes & {"rank_failed", "missing_rank"})),
        "alignment": None if aligned is None else encode(aligned),
    }


def names_of_sides(config: BuildConfig) -> tuple[str, str]:
    """What the sides are called; empty where that is to be said by default words."""
    paths = [
        os.path.abspath(one) if isinstance(one, Path) else ""  # noqa: PTH100, links are names
        for one in (config.npu_path, config.bench_path)
    ]
    names = [*map(side_name, config.names), "", ""] if config.names else names_of_folders(*paths)
    return names[0], names[1]


def named(dumps: Dumps) -> str:
    """What meta says of where the dumps came from."""
    return "in_memory" if isinstance(dumps, Mapping) else str(dumps)
