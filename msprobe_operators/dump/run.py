"""Checking all calls of a dump: in several processes and devices, going on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.facts.fact import Fact, from_plain, plain
from msprobe_builder.files.regular import read_bytes
from msprobe_operators.call.apart import BOUNDS, TIME_IS_UP, Bounds, each_apart
from msprobe_operators.dump.calls import RecordedCall, recorded_calls
from msprobe_operators.dump.check import CheckOptions, CheckRow, check_recorded, untested
from msprobe_operators.dump.operands import Source


def find_dump(path: Path) -> Path:
    """dump.json of a rank's directory or the file itself; UsageError when there is none."""
    found = path / "dump.json" if path.is_dir() else path
    if not found.is_file():
        raise UsageError(f"{path} holds no dump.json; give the directory of one rank.")
    return found


def source_of(dump: Path) -> Source:
    """Where the tensors of a dump lie."""
    data = dump.parent / "dump_tensor_data"
    return Source(data if data.is_dir() else None)


def check_dump(
    dump: Path,
    options: CheckOptions,
    *,
    devices: list[str],
    workers: int = 1,
    journal: Path | None = None,
    report: Callable[[int], None] = lambda _: None,
    only: Sequence[str] = (),
    bounds: Bounds = BOUNDS,
) -> list[CheckRow]:
    """Rows for all calls of a dump, in their order; ``only`` restricts them by their names.

    ``Functional.linear`` names all calls of it, ``Functional.linear.3`` (with or without direction)
    one; UsageError for a name that no call has.
    With ``journal`` finished calls are written there as they come, and what stands there already
    for the same dump and options is not run again.
    """
    key = _fingerprint(dump, options, devices)
    known = {} if journal is None else _read(journal, key)
    calls = chosen_calls(list(recorded_calls(dump)), only, dump)
    left = [call for call in calls if call.name not in known]
    stream = None
    if journal is not None:
        journal.parent.mkdir(parents=True, exist_ok=True)
        stream = journal.open("a" if known else "w", encoding="utf-8")
        if not known:
            stream.write(json.dumps({"key": key}) + "\n")
    try:
        for name, rows in _results(left, options, devices, workers, bounds):
            known[name] = rows
            if any(row.reason is not None and row.reason.code == TIME_IS_UP for row in rows):
                continue  # it may be run another time
            if stream is not None:
                stream.write(json.dumps({name: list(map(_written, rows))}) + "\n")
                stream.flush()
            report(len(known))
    finally:
        if stream is not None:
            stream.close()
    return [row for call in calls for row in known.get(call.name, [])]


def chosen_calls(calls: list[RecordedCall], only: Sequence[str], dump: Path) -> list[RecordedCall]:
    """Calls whose names begin with one of ``only``, all of them without; UsageError for no call."""
    chosen: set[str] = set()
    for given in only:
        wanted = given.removesuffix(".forward").removesuffix(".backward")
        found = {call.name for call in calls if f"{call.name}.".startswith(f"{wanted}.")}
        if not found:
            raise UsageError(
                f"{dump} has no call {given}; give a name such as Functional.linear.3."
            )
        chosen |= found
    return [call for call in calls if call.name in chosen] if only else calls


def _results(
    calls: list[RecordedCall],
    options: CheckOptions,
    devices: list[str],
    workers: int,
    bounds: Bounds,
) -> Iterator[tuple[str, list[CheckRow]]]:
    processes = max(workers, len(devices))
    each = [devices[number % len(devices)] for number in range(processes)]
    work = partial(_checked, options=options)
    for call, rows in each_apart(work, calls, each, bounds):
        yield call.name, untested(call, rows, each[0]) if isinstance(rows, Fact) else rows


def _checked(call: RecordedCall, device: str, options: CheckOptions) -> list[CheckRow]:
    return check_recorded(call, replace(options, device=device))


def _fingerprint(dump: Path, options: CheckOptions, devices: list[str]) -> str:
    facts = dump.stat()
    text = f"{dump.resolve()} {facts.st_size} {facts.st_mtime_ns} {options.reference} {devices}"
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _written(row: CheckRow) -> dict[str, Any]:
    """A row for the journal."""
    return vars(row) | {"reason": plain(() if row.reason is None else (row.reason,))}


def _row(written: dict[str, Any]) -> CheckRow:
    """What :func:`_written` was given; ValueError or TypeError for anything else."""
    return CheckRow(**written | {"reason": next(iter(from_plain(written["reason"])), None)})


def _read(journal: Path, key: str) -> dict[str, list[CheckRow]]:
    """Finished calls of the same dump and options; a half-written last line is left out."""
    if not journal.is_file():
        return {}
    found: dict[str, list[CheckRow]] = {}
    try:
        lines = read_bytes(journal, LARGEST_JSON).decode("utf-8").splitlines()
        if not lines or json.loads(lines[0]) != {"key": key}:
            return {}
        for line in lines[1:]:
            try:
                [(name, rows)] = json.loads(line).items()
                found[name] = list(map(_row, rows))
            except (ValueError, TypeError, LookupError):
                continue
    except (OSError, ValueError) as error:
        raise BuildError(f"Cannot read {journal}: {error}; remove it to begin again.") from error
    return found
