"""Making a .trend.db of a monitor's record, of dumps of many steps, or of the reference's."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import file_name, published, reserve
from msprobe_builder.base.texts import Texts
from msprobe_builder.base.version import __version__
from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.open import connected, found
from msprobe_builder.database.trends.open import STATISTICS, SUFFIX
from msprobe_builder.database.trends.reference import STATISTICS as REFERENCE_STATISTICS
from msprobe_builder.database.trends.reference import (
    ReferenceRow,
    is_reference,
    read_reference,
)
from msprobe_builder.database.trends.write import Target, TrendWriter
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.names import Direction, Kind, format_name, parse_name, without_wrappers
from msprobe_builder.dump.parameter_columns import STATISTICS as DUMP_STATISTICS
from msprobe_builder.dump.read import Dump, read_dump
from msprobe_builder.trend.change import Sketched, changes, sketched
from msprobe_builder.trend.monitor import STATISTICS as MONITOR_STATISTICS
from msprobe_builder.trend.monitor import monitored_ranks, read_rank
from msprobe_builder.trend.places import module_of

_PARAMETERS_GRAD = "parameters_grad"
_CHANGE = STATISTICS.index("change")


@dataclass(frozen=True)
class TrendReport:
    """What was written."""

    path: Path
    source: str  # monitor, dump or reference
    targets: int
    ranks: int
    steps: int
    values: int
    skipped: tuple[str, ...]


def build_trend(source: Path, directory: Path, name: str | None = None) -> TrendReport:
    """Write ``directory/trend_{timestamp}.trend.db``, or one of another name.

    UsageError when the source holds nothing to show; BuildError when it cannot be read.
    """
    now = datetime.now(tz=timezone.utc)
    target = directory / file_name(
        f"trend_{now:%Y%m%d%H%M%S}" if name is None else name, suffix=SUFFIX
    )
    if target.exists():
        raise UsageError(f"{target} exists already; remove it or choose another --output-name.")
    if not source.exists():
        raise UsageError(f"{source} does not exist; give a directory of a monitor or of dumps.")
    is_new = not directory.exists()
    try:
        reserve(directory, target.name)
        with published(target) as temporary:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o666))
            with closing(connect_own(temporary)) as connection:
                writer = TrendWriter(connection)
                kind, skipped = _fill(source, writer)
                if not writer.rows:
                    raise UsageError(f"{source} holds no statistics to show.")
                meta = {
                    "source": str(source.absolute()),
                    "kind": kind,
                    "created_at": now.isoformat(timespec="seconds"),
                    "builder_version": __version__,
                }
                writer.finish(meta)
                counts = len(writer.targets), len(writer.ranks), len(writer.steps)
    except OSError as error:
        at = error.filename or target
        raise BuildError(f"Cannot read or write {at}: {error.strerror}.") from error
    except sqlite3.Error as error:
        raise BuildError(f"Cannot write {target}: {error}.") from error
    finally:
        if is_new and not target.exists():
            with suppress(OSError):  # something else is in it
                directory.rmdir()
    return TrendReport(target, kind, *counts, writer.count, tuple(skipped))


def _fill(source: Path, writer: TrendWriter) -> tuple[str, Sequence[str]]:
    if source.is_file():
        _fill_from_reference(source, writer)
        return "reference", ()
    ranks = monitored_ranks(source)
    if ranks:
        for rank, directory in ranks.items():
            _fill_from_monitor(rank, directory, writer)
        return "monitor", ()
    return "dump", list(_fill_from_dumps(source, writer))


def _fill_from_monitor(rank: int, directory: Path, writer: TrendWriter) -> None:
    record = read_rank(directory)
    ids = np.array(
        [writer.target(Target(*one, module_of(*one), None)) for one in record.targets],
        dtype=np.int64,
    )
    columns = _columns(record.values, MONITOR_STATISTICS)
    writer.values(rank, record.step, ids[record.target], *columns)


def _columns(
    found: NDArray[np.float64], names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """A column for each statistic, of those that have one each, and which were not recorded."""
    places = [STATISTICS.index(one.lower()) for one in names]
    values = np.full((len(found), len(STATISTICS)), np.nan)
    values[:, places] = found
    missing = np.ones(values.shape, dtype=bool)
    missing[:, places] = False
    return values, missing


def _fill_from_dumps(source: Path, writer: TrendWriter) -> Iterator[str]:
    """Says which steps and ranks could not be read."""
    texts = Texts()
    tree = discover(source, "the directory")
    # The steps of one rank after the other: of all others no sketches need to be at hand.
    by_rank = sorted(tree.directories.items(), key=lambda one: (one[0].rank, one[0].step))
    before: tuple[int, Sketched | None] = -1, None
    for (step, rank), directory in by_rank:
        try:
            dump = read_dump(directory, texts, flat=True)
        except BuildError as error:
            yield str(error)
            continue
        earlier = before[1] if before[0] == rank else None
        before = rank, _add_dump(step, rank, dump, texts, writer, earlier)


def _add_dump(
    step: int,
    rank: int,
    dump: Dump,
    texts: Texts,
    writer: TrendWriter,
    before: Sketched | None,
) -> Sketched | None:
    """What its sketches tell, for the next step of the rank; ``before`` is that of the last one."""
    parameters = dump.parameters
    statistics, missing = parameters.statistic_columns(), parameters.missing
    is_shown = parameters.is_tensor & (missing != (1 << len(DUMP_STATISTICS)) - 1)
    names = {number: name for name, number in dump.records.items()}  # some are left out
    rows = np.flatnonzero(is_shown & np.isin(parameters.record, list(names)))
    ids = [
        writer.target(_target(names[record], texts.values[name]))
        for record, name in zip(
            parameters.record[rows].tolist(), parameters.name_id[rows].tolist(), strict=True
        )
    ]
    targets = np.array(ids, dtype=np.int64)
    values, absent = _columns(statistics[:, rows].T, DUMP_STATISTICS)
    for place, statistic in enumerate(DUMP_STATISTICS):
        absent[:, STATISTICS.index(statistic.lower())] = (missing[rows] >> place) & 1 == 1
    now = sketched(dump, rows, targets)
    if now is not None and before is not None:
        values[:, _CHANGE], is_known = changes(now, before, texts)
        absent[:, _CHANGE] = ~is_known
    writer.values(rank, np.full(len(rows), step, dtype=np.int64), targets, values, absent)
    return now


def _target(record: str, parameter: str) -> Target:
    """``Module.layers.0.mlp.MLP.forward.0`` and ``output.0``: kind forward, the rest its name."""
    name = parse_name(record)
    if name.direction is Direction.NONE:
        kind = _PARAMETERS_GRAD if _PARAMETERS_GRAD in record else "other"
        owner = record.partition(f".{_PARAMETERS_GRAD}")[0]
        return Target(kind, f"{record}:{parameter}", _path(owner), record)
    kind = "forward" if name.direction is Direction.FORWARD else "backward"
    module = _path(name.stem) if name.kind is Kind.MODULE else None
    return Target(kind, f"{name.stem}.{name.call}:{parameter}", module, format_name(name))


def _path(stem: str) -> str:
    """The path in ``Module.path.Class``."""
    return without_wrappers(stem.partition(".")[2].rpartition(".")[0])


def _fill_from_reference(source: Path, writer: TrendWriter) -> None:
    with connected(found(source, SUFFIX)) as connection:
        if not is_reference(connection):
            raise UsageError(
                f"{source} is no .trend.db of the reference tool; give one, or a directory of "
                "a monitor or of dumps."
            )
        for batch in read_reference(connection):
            _add_reference(batch, writer)


def _add_reference(batch: Sequence[ReferenceRow], writer: TrendWriter) -> None:
    by_rank: dict[int, list[tuple[int, int, tuple[float, ...]]]] = {}
    for row in batch:
        target = writer.target(_reference_target(row))
        by_rank.setdefault(row.rank, []).append((row.step, target, row.values))
    for rank, rows in by_rank.items():
        steps, targets, found = zip(*rows, strict=True)
        values, absent = _columns(np.array(found, dtype=np.float64), REFERENCE_STATISTICS)
        columns = np.array(steps, dtype=np.int64), np.array(targets, dtype=np.int64)
        # NaN was stored as NULL, and so was what is missing: neither can be told from the other.
        writer.values(rank, *columns, values, np.isnan(values) | absent)


def _reference_target(row: ReferenceRow) -> Target:
    """Its names are those of dumps without direction and call: no node can be told from them."""
    marks = f"@vpp{row.stage}" * bool(row.stage) + f"@micro{row.micro_step}" * bool(row.micro_step)
    module: str | None = None
    if row.target.startswith(("Module.", "Cell.")):
        stem: str = row.target
        for word in (".input.", ".output.", ".parameters.", ".parameters_grad."):
            stem = stem.partition(word)[0]
        module = _path(stem)
    return Target(row.metric, row.target + marks, module, None)
