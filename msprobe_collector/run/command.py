"""The command ``msprobe-run``: start a training as it is, and sum up what was recorded of it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

from msprobe_builder.base.publish import scratch_folder
from msprobe_builder.command.frame import language_spoken
from msprobe_builder.facts.fact import Fact, fact, from_plain, text_fact
from msprobe_builder.facts.wording import speaking, tell
from msprobe_collector.errors import CollectorError
from msprobe_collector.report import in_units
from msprobe_collector.run.notes import Note, read_notes
from msprobe_collector.run.options import (
    EXIT_CANNOT_RUN,
    EXIT_DEPARTS,
    EXIT_NOT_FOUND,
    EXIT_USAGE,
    PROGRAM,
    Request,
    parser,
    request_of,
)
from msprobe_collector.run.settings import EXIT_STOPPED, SETTINGS, Settings

_START = Path(__file__).parent / "start"  # the folder of sitecustomize.py
_NAMES = Path(__file__).parents[1] / "as_msprobe"  # the folder of a package msprobe
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status, or a status of our own."""
    options = parser().parse_args(arguments)
    try:
        request = request_of(options)
    except CollectorError as error:
        return _fail(str(error), EXIT_USAGE)
    try:
        with speaking(language_spoken(options)):
            return run_recorded(request)
    except FileNotFoundError:
        return _fail(f"{request.command[0]} was not found.", EXIT_NOT_FOUND)
    except PermissionError:
        return _fail(f"{request.command[0]} may not be run.", EXIT_NOT_FOUND)
    except OSError as error:
        return _fail(f"It cannot be run: {error.strerror or error}.", EXIT_CANNOT_RUN)


def run_recorded(request: Request, said: IO[str] | None = None) -> int:
    """Run the command of a request and say what was recorded; its exit status.

    ``said`` takes what it prints and what is said of it. OSError if it cannot be started.
    """
    return run_noted(request, said)[0]


def run_noted(request: Request, said: IO[str] | None = None) -> tuple[int, list[Note]]:
    """As :func:`run_recorded`, with what each process has noted."""
    with scratch_folder("msprobe_run") as folder:
        path = request.settings.write(folder, request.config)
        status = _run(request.command, environment(path, request.settings), said)
        notes = list(read_notes(folder))
    for one in told(notes, request):
        print(f"{PROGRAM}: {tell(one)}", file=said or sys.stderr)
    return _status(status, notes), notes


def _status(status: int, notes: Sequence[Note]) -> int:
    if status and not any(note.stopped and note.watched for note in notes):
        return status
    if any(note.departing for note in notes):
        return EXIT_DEPARTS
    return EXIT_STOPPED if any(note.stopped for note in notes) else 0


def environment(path: Path, settings: Settings) -> dict[str, str]:
    """Of the processes: ours, with the file to follow and the folder that Python starts in."""
    found = dict(os.environ)
    folders = [_START, *([_NAMES] if settings.as_msprobe else [])]
    behind = found.get("PYTHONPATH", "")
    found["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *([behind] if behind else [])])
    found[SETTINGS] = str(path)
    if settings.seed is not None:
        found["PYTHONHASHSEED"] = str(settings.seed)
    return found


def _run(command: Sequence[str], environment: Mapping[str, str], said: IO[str] | None) -> int:
    process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
    with _passing_signals_on(process):
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                continue  # the terminal has told the command as well
    return 128 - status if status < 0 else status


@contextmanager
def _passing_signals_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, _frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def told(notes: Sequence[Note], request: Request) -> Iterator[Fact]:
    """What became of the recording."""
    training = [note for note in notes if note.trains]
    yield from dict.fromkeys(text_fact(note.problem) for note in notes if note.problem)
    if request.settings.as_msprobe:
        return  # it records itself, or compares, perhaps without torch
    if not notes:
        yield fact("run.no_torch", command=shlex.join(request.command)[:200])
    elif request.settings.compare_compiled:
        yield from _compared(notes)
        return
    elif not training:
        yield fact("run.nothing_trained", processes=len(notes))
    recording = [note for note in training if note.recorded]
    if training and not recording and not request.settings.trace:
        yield fact("run.no_step_reached")
    elif request.settings.trace:
        yield fact("run.traced", ranks=len(training), dump=request.config["dump_path"])
    elif recording and request.settings.estimate:
        yield _estimated(recording, len(request.config["step"]))
    elif recording:
        yield fact(
            "run.recorded",
            steps=max(note.recorded for note in recording),
            ranks=len({note.rank for note in recording}),
            dumps=list(dict.fromkeys(note.dump for note in recording)),
        )
    if recording and not any(note.optimizers for note in recording):
        yield fact("run.no_optimizer")
    if request.config.get("watch_ranks"):
        yield from _watched_ranks(notes, request)
    elif "watch" in request.config:
        yield from _watched(notes, request)
    elif any(note.stopped for note in notes):
        yield fact("run.ended", step=request.settings.last_step)


def _estimated(notes: Sequence[Note], steps: int) -> Fact:
    """What the processes of this machine would write."""
    records, tensors = (in_units(sum(n.estimated[kind] for n in notes)) for kind in (0, 1))
    each = fact("run.for_each_step", steps=steps) if steps > 1 else None
    return fact("run.estimated", ranks=len(notes), records=records, each=each, tensors=tensors)


def _compared(notes: Sequence[Note]) -> Iterator[Fact]:
    """What came of ``--compare-compiled``; ranks that say the same speak once."""
    yield from _once(note.departing for note in notes)
    regions = sum(note.regions for note in notes)
    departing = sum(len(note.departing) for note in notes)
    if not regions:
        yield fact("run.nothing_compiled")
    elif departing:
        yield fact("run.regions_depart", departing=departing, regions=regions)
    else:
        yield fact("run.no_region_departs", regions=regions)


def _watched(notes: Sequence[Note], request: Request) -> Iterator[Fact]:
    """What came of ``--watch``; where nothing differs, how much was compared."""
    yield from _once(note.watched for note in notes)
    calls = {str(one["call"]) for note in notes for one in from_plain(note.watched)}
    for one in _once(note.other_bits for note in notes):
        if str(one["call"]) not in calls:
            yield one
    compared, missing = (sum(getattr(n, key) for n in notes) for key in ("compared", "missing"))
    unknown = fact("run.not_in_it", calls=missing) if missing else None
    dump = request.config["watch"]
    if any(note.watched for note in notes):
        folder = Path(request.config["dump_path"])
        yield fact("run.saved", dump=str(folder.with_name(f"{folder.name}_differs")))
    elif compared:
        yield fact("run.none_differs", calls=compared, dump=dump, unknown=unknown)
    else:
        yield fact("run.none_compared", dump=dump, unknown=unknown)


def _watched_ranks(notes: Sequence[Note], request: Request) -> Iterator[Fact]:
    """What came of ``--watch-ranks``; the first rank is the odd one where all others agree."""
    found = list(_once(note.watched for note in notes))
    yield from found
    yield from odd_ones(found)
    compared = sum(note.compared for note in notes)
    if found:
        folder = Path(request.config["dump_path"])
        yield fact("run.saved", dump=str(folder.with_name(f"{folder.name}_differs")))
    elif compared:
        yield fact("run.replicas_alike", calls=compared)
    else:
        yield fact("run.no_replicas")


def odd_ones(found: Sequence[Fact]) -> Iterator[Fact]:
    """First ranks from which two or more others differ, all of them, by the same."""
    keys = ("rank", "replicas", "call", "tensor", "size")
    alike: dict[tuple[str, ...], int] = {}
    for one in found:
        step = str(one["place"]).partition("/")[0]
        key = (step, *(str(one[name]) for name in keys))
        alike[key] = alike.get(key, 0) + 1
    for (_, rank, replicas, *_), count in alike.items():
        if count > 1 and count == int(replicas) - 1:
            yield fact("run.odd_one", rank=int(rank))


def _once(noted: Iterable[Sequence[dict[str, Any]]]) -> Iterable[Fact]:
    """Facts of several processes, each once."""
    return dict.fromkeys(one for facts in noted for one in from_plain(facts))


def _fail(text: str, status: int) -> int:
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    return status
