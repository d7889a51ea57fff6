"""The command ``msprobe-run``: start a training as it is, and sum up what was recorded of it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO

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
    with tempfile.TemporaryDirectory(prefix="msprobe_run_") as name:
        folder = Path(name)
        path = request.settings.write(folder, request.config)
        status = _run(request.command, environment(path, request.settings), said)
        notes = list(read_notes(folder))
    for sentence in told(notes, request):
        print(f"{PROGRAM}: {sentence}", file=said or sys.stderr)
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


def told(notes: Sequence[Note], request: Request) -> Iterator[str]:
    """What became of the recording, in sentences."""
    training = [note for note in notes if note.trains]
    yield from dict.fromkeys(note.problem for note in notes if note.problem)
    if not notes:
        yield (
            f"{shlex.join(request.command)[:200]} imported no torch that could be seen, nothing was"
            " recorded. A Python that is started with -I, -E or -S, or given a PYTHONPATH of its"
            " own, cannot be followed."
        )
    elif request.settings.as_msprobe:
        return
    elif request.settings.compare_compiled:
        yield from _compared(notes)
        return
    elif not training:
        yield (
            f"Nothing was recorded: {len(notes)} processes imported torch, and none called a module"
            " in training mode with gradients."
        )
    recording = [note for note in training if note.recorded]
    if training and not recording and not request.settings.trace:
        yield "Nothing was recorded: no process reached a step that --steps and --ranks select."
    elif request.settings.trace:
        yield f"Steps of {len(training)} ranks: {request.config['dump_path']}"
    elif recording and request.settings.estimate:
        yield _estimated(recording, len(request.config["step"]))
    elif recording:
        steps = max(note.recorded for note in recording)
        ranks = len({note.rank for note in recording})
        where = ", ".join(dict.fromkeys(note.dump for note in recording))
        yield f"{steps} {_plural('step', steps)} of {ranks} {_plural('rank', ranks)}: {where}"
    if recording and not any(note.optimizers for note in recording):
        yield "No optimizer of torch has stepped, so all of it is one step."
    if "watch" in request.config:
        yield from _watched(notes, request)
    elif any(note.stopped for note in notes):
        last = request.settings.last_step
        yield f"The training was ended behind step {last}, as --stop-after says."


def _estimated(notes: Sequence[Note], steps: int) -> str:
    """What the processes of this machine would write."""
    records, tensors = (in_units(sum(n.estimated[kind] for n in notes)) for kind in (0, 1))
    ranks = f"{len(notes)} {_plural('rank', len(notes))} on this machine"
    rest = f", for each of {steps} steps" if steps > 1 else ""
    return f"{ranks}: about {records} of records{rest}; with task tensor {tensors} more."


def _compared(notes: Sequence[Note]) -> Iterator[str]:
    """What came of ``--compare-compiled``; ranks that say the same speak once."""
    yield from dict.fromkeys(sentence for note in notes for sentence in note.departing)
    regions = sum(note.regions for note in notes)
    departing = sum(len(note.departing) for note in notes)
    if regions:
        what = f"{regions} compiled {_plural('region', regions)}"
        does = "departs" if departing < 2 else "depart"
        yield f"{departing or 'None'} of {what} {does} from eager."
    else:
        yield "Nothing was compiled by torch.compile, so nothing was compared."


def _watched(notes: Sequence[Note], request: Request) -> Iterator[str]:
    """What came of ``--watch``; where nothing differs, how much was compared."""
    yield from dict.fromkeys(sentence for note in notes for sentence in note.watched)
    compared, missing = (sum(getattr(n, key) for n in notes) for key in ("compared", "missing"))
    unknown = f", {missing:,} others are not in it" if missing else ""
    dump = request.config["watch"]
    if any(note.watched for note in notes):
        folder = Path(request.config["dump_path"])
        yield f"The calls that differ are saved: {folder.with_name(f'{folder.name}_differs')}"
    elif compared:
        calls = f"{compared:,} {_plural('call', compared)}"
        yield f"None of {calls} differs from {dump} by more than rounding{unknown}."
    else:
        yield f"Cannot tell whether anything differs: no call was compared with {dump}{unknown}."


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _fail(text: str, status: int) -> int:
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    return status
