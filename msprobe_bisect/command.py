"""The command ``msprobe-bisect``: two commands, one proven call."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.printable import visible
from msprobe_builder.base.version import __version__
from msprobe_builder.command.fault import EXIT_FAULT as EXIT_OF_OURS
from msprobe_builder.command.fault import fault_sentence
from msprobe_builder.command.frame import add_language, language_spoken, remove_left_overs_beside
from msprobe_builder.facts.fact import fact, plain
from msprobe_builder.facts.wording import ENGLISH, speaking, tell

if TYPE_CHECKING:
    from msprobe_bisect.journal import Journal

PROGRAM = "msprobe-bisect"
EXIT_OK = 0
EXIT_CANNOT = 1
EXIT_USAGE = 2
EXIT_UNDECIDED = 3
EXIT_FAULT = 4
EXIT_SPENT = 5
EXIT_PLANNED = 6
_STEPS = 4

_EPILOG = f"""\
exit status:
  {EXIT_OK}  no fault was found
  {EXIT_CANNOT}  it cannot be done
  {EXIT_USAGE}  wrong usage
  {EXIT_UNDECIDED}  something differs, nothing is proven
  {EXIT_FAULT}  a fault was found
  {EXIT_PLANNED}  --plan: what to run where is printed
  {EXIT_SPENT}  --runs, --minutes or --bytes are spent; the same command goes on from there
  {EXIT_OF_OURS} a fault of ours; the last line says where the report lies
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = parser().parse_args(arguments)
    remove_left_overs_beside(options)
    try:
        with speaking(language_spoken(options)):
            return _search(options)
    except UsageError as error:
        return _fail(str(error), EXIT_USAGE)
    except BuildError as error:
        from msprobe_bisect.runs import SpentError

        return _fail(str(error), EXIT_SPENT if isinstance(error, SpentError) else EXIT_CANNOT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"Cannot read or write {where}{error.strerror or error}.", EXIT_CANNOT)
    except KeyboardInterrupt:
        return _fail("Stopped; the same command goes on from here.", EXIT_CANNOT)
    except Exception as error:
        return _fail(fault_sentence(error), EXIT_OF_OURS)


def parser() -> argparse.ArgumentParser:
    """Of the options."""
    found = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Find the call in which two trainings part first, and prove it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    found.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    add = found.add_argument
    add("--npu", metavar="COMMAND", help="what runs the training under debug")
    add("--bench", metavar="COMMAND", help="what runs the reference")
    add("-o", "--output", metavar="DIR", type=Path, help="folder of the search")
    add("--steps", type=_positive, default=_STEPS, metavar="N", help="steps to look at (default 4)")
    add("--seed", type=_seed, metavar="N", help="seed both runs alike")
    add("--runs", type=_positive, metavar="N", help="runs that may be spent by this call")
    add("--minutes", type=_minutes, metavar="N", help="minutes that may be spent by this call")
    add("--bytes", type=_bytes, metavar="N", help="size of dumps that may be spent: 500MB, 2GB")
    add("--plan", action="store_true", help="run nothing, say what to run where")
    add("--continue", dest="going_on", metavar="DIR", type=Path, help="go on with a planned search")
    add("--npu-dump", metavar="DIR", type=Path, help="what the plan has recorded there")
    add("--bench-dump", metavar="DIR", type=Path, help="the same of the reference")
    add_language(found)
    return found


def _journal(options: argparse.Namespace) -> Journal:
    """The journal of the search that the options ask for; UsageError with one sentence."""
    from msprobe_bisect.journal import open_journal

    given = {"npu": options.npu, "bench": options.bench}
    if options.going_on is not None:
        if options.output is not None or any(one is not None for one in given.values()):
            raise UsageError("--continue knows the search; leave --npu, --bench and -o out.")
        journal = open_journal(options.going_on, None)
        for side, dump in (("npu", options.npu_dump), ("bench", options.bench_dump)):
            if dump is None or not dump.is_dir():
                raise UsageError(f"--{side}-dump is {dump}; give the folder that was recorded.")
            if not journal.pending:
                raise UsageError(f"{journal.folder} waits for no run; begin it with --plan.")
            journal.note(journal.pending, side, dump.absolute())
        return journal
    if options.npu_dump is not None or options.bench_dump is not None:
        raise UsageError("--npu-dump and --bench-dump go with --continue DIR.")
    for name, command in given.items():
        try:
            if not shlex.split(command or ""):
                raise UsageError(f"--{name} is empty; give the command that trains.")
        except ValueError as error:
            raise UsageError(f"--{name} cannot be read: {error}: {command}") from error
    if options.output is None:
        raise UsageError("-o is missing; give a folder for the search.")
    return open_journal(options.output, given)


def _search(options: argparse.Namespace) -> int:
    from msprobe_bisect.reproduce import reproduce
    from msprobe_bisect.runs import Budget, PlannedError, Runner
    from msprobe_bisect.stages import search
    from msprobe_builder.base.publish import written
    from msprobe_builder.export.report import write_report
    from msprobe_operators.dump.operands import CannotRebuildError

    journal = _journal(options)
    folder = journal.folder
    plans = options.plan or options.going_on is not None
    seconds = None if options.minutes is None else 60 * options.minutes
    budget = Budget(options.runs, seconds, options.bytes, time.monotonic())
    runner = Runner(journal, budget, _say, options.seed, plans)
    try:
        found = search(runner, options.steps, _say)
    except PlannedError as planned:
        _print(str(planned))
        return EXIT_PLANNED
    result = {
        "conclusion": found.conclusion,
        "sentence": tell(found.told, ENGLISH),
        "facts": plain(found.told),
        "step": found.step,
        "culprit": found.culprit,
        "cause": found.cause,
        "proof": None if found.proven is None else found.proven.proof.value,
        "database": None if found.database is None else found.database.name,
        "remarks": [tell(one, ENGLISH) for one in found.remarks],
    }
    with written(folder / "result.json") as stream:
        stream.write(json.dumps(result, indent=1).encode())
    if found.database is not None:
        write_report(found.database, folder / "report.html", 20)
    if found.conclusion == "fault":
        path = folder / "reproduce.py"
        try:
            reproduce(found, journal, path)
            _say(tell(fact("bisect.reproduced", path=str(path))))
        except CannotRebuildError as error:
            _say(tell(fact("bisect.no_reproduction", why=error.reason)))
    for remark in found.remarks:
        _print(tell(remark))
    _print(f"{found.conclusion}: {found.sentence}")
    return {"clean": EXIT_OK, "fault": EXIT_FAULT}.get(found.conclusion, EXIT_UNDECIDED)


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2**32 - 1")
    return int(text)


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 10**6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes")
    return value


def _print(text: str, file: TextIO | None = None) -> None:
    """Lines in which names and commands may hold any character."""
    print(*map(visible, text.splitlines()), sep="\n", file=file, flush=True)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([kMGT]?)B?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write such as 500MB or 2GB")
    times: int = 1000 ** " kMGT".index(found[2] or " ")
    return round(float(found[1]) * times)


def _say(text: str) -> None:
    _print(f"{PROGRAM}: {text}", sys.stderr)


def _fail(text: str, status: int) -> int:
    _say(text)
    return status
