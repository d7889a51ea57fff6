"""The command ``msprobe-operators``: check, perturb, overflow, replay."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import CALL_SECONDS, CHECK_SECONDS
from msprobe_builder.base.printable import visible
from msprobe_builder.base.version import __version__
from msprobe_builder.command.fault import EXIT_FAULT, fault_sentence
from msprobe_builder.command.frame import (
    add_language,
    language_spoken,
    remove_left_overs_beside,
    stoppable,
)
from msprobe_builder.command.output import print_lines
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import speaking, tell
from msprobe_operators.more_commands import add_commands
from msprobe_operators.replay_command import (
    EXIT_CANNOT_RUN,
    EXIT_FAILED,
    add_replay,
    bounds_of,
    device_of,
)

if TYPE_CHECKING:  # importing them imports torch
    from msprobe_operators.dump.calls import RecordedCall
    from msprobe_operators.dump.operands import Source
    from msprobe_operators.dump.overflow import OverflowRow
    from msprobe_operators.dump.perturb import PerturbRow

PROGRAM = "msprobe-operators"
EXIT_OK = 0
EXIT_USAGE = 2

# Why a call was not tested that another run may test.
_CUT_SHORT = ("operator.unreadable", "operator.time_is_up")

_EPILOG = """\
exit status:
  0  done; nothing is wrong
  1  it cannot be done
  2  wrong usage
  4  an operator is wrong (check, replay) or overflows on its device alone (overflow)
  70 a fault of ours; the last line says where the report lies
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    options = _parser().parse_args(arguments)
    # Where others run in this process, a child lacks the threads that torch believes to have.
    options.threads = None if arguments is None and getattr(options, "workers", 1) == 1 else 1
    remove_left_overs_beside(options)
    try:
        with stoppable(), speaking(language_spoken(options)):
            return int(options.run(options))
    except UsageError as error:
        return _fail(str(error), EXIT_USAGE)
    except BuildError as error:
        return _fail(str(error), EXIT_CANNOT_RUN)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return _fail(fault_sentence(error), EXIT_FAULT)
        return _fail("This needs PyTorch; install msprobe-graph[torch].", EXIT_CANNOT_RUN)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"Cannot read or write {where}{error.strerror or error}.", EXIT_CANNOT_RUN)
    except KeyboardInterrupt:
        return _fail("Stopped; what was finished stays in the journal.", EXIT_CANNOT_RUN)
    except Exception as error:
        return _fail(fault_sentence(error), EXIT_FAULT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Run single operators again and judge the difference by expected rounding.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    # Commands written for msprobe say which framework; this one knows PyTorch alone.
    parser.add_argument("-f", choices=("pytorch",), dest="framework", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="run every call of a dump again", allow_abbrev=False)
    check.add_argument("dump", type=Path, help="dump.json or the directory of one rank")
    check.add_argument(
        "-o",
        "--output-path",
        type=Path,
        default=Path("operator_check"),
        help="directory of the tables and the journal (default: operator_check)",
    )
    check.add_argument(
        "--device",
        default="cpu",
        metavar="DEVICE[,DEVICE…]",
        help="where calls run, such as cuda:0,cuda:1 (default: cpu)",
    )
    check.add_argument(
        "--reference",
        choices=("cpu", "float64"),
        default="float64",
        help="what they are judged by, both on the CPU (default: float64)",
    )
    check.add_argument("--workers", type=_positive, default=1, metavar="N", help="processes")
    check.add_argument(
        "--database",
        type=Path,
        metavar="FILE.vis.db",
        help="write the findings beside the nodes of this file as well",
    )
    check.add_argument(
        "--call",
        action="append",
        default=[],
        metavar="NAME",
        help="only calls whose names begin with NAME, such as Functional.linear.3; may be repeated",
    )
    check.add_argument("--step", type=int, default=0, help="the step of the dump in --database")
    check.add_argument("--rank", type=int, default=0, help="the rank of the dump in --database")
    check.set_defaults(run=_check)
    perturb = commands.add_parser(
        "perturb", help="find calls that blow rounding up, without a reference", allow_abbrev=False
    )
    perturb.add_argument("dump", type=Path, help="dump.json or the directory of one rank")
    perturb.add_argument(
        "--by",
        choices=("noise", "order"),
        default="noise",
        help="move operands in their last bit, or add sums up backwards (default: noise)",
    )
    perturb.add_argument(
        "--amplification",
        type=float,
        default=1000.0,
        metavar="TIMES",
        help="how much further results may move than operands (default: 1000)",
    )
    perturb.add_argument(
        "--call",
        action="append",
        default=[],
        metavar="NAME",
        help="only calls whose names begin with NAME; may be repeated",
    )
    perturb.add_argument("-o", "--output-path", type=Path, help="write the table there as well")
    perturb.set_defaults(run=_perturb)
    overflow = commands.add_parser(
        "overflow", help="tell expected overflow from that of a device", allow_abbrev=False
    )
    overflow.add_argument("dump", type=Path, help="dump.json or the directory of one rank")
    # The same under the names that msprobe documents.
    documented = commands.add_parser("run_overflow_check", allow_abbrev=False)
    documented.add_argument("-api_info", "--api_info", type=Path, dest="dump", required=True)
    for one in (overflow, documented):
        one.add_argument("-o", "--output-path", type=Path, help="write the table there as well")
        one.set_defaults(run=_overflow)
    add_replay(commands)
    add_commands(commands)
    for command in commands.choices.values():
        for name, what, default in (
            ("--seconds", "one call", CALL_SECONDS),
            ("--total-seconds", "all calls together", CHECK_SECONDS),
        ):
            command.add_argument(
                name,
                type=_positive,
                default=default,
                metavar="N",
                help=f"how long {what} may take (default: {default})",
            )
        add_language(command)
    return parser


def _check(options: argparse.Namespace) -> int:
    from msprobe_operators.dump.check import CheckOptions, CheckRow
    from msprobe_operators.dump.run import check_dump, find_dump, source_of
    from msprobe_operators.report.table import counted, untested_lines, write_rows

    dump = find_dump(options.dump)
    devices = [device_of(name) for name in options.device.split(",")]
    if options.database is not None:
        from msprobe_builder.database.write.checks import require_graph

        require_graph(options.database, options.step, options.rank)
    rows = check_dump(
        dump,
        CheckOptions(source_of(dump), reference=options.reference),
        devices=devices,
        workers=options.workers,
        journal=options.output_path / "journal.jsonl",
        only=tuple(options.call),
        bounds=bounds_of(options),
    )
    written = write_rows(rows, CheckRow, options.output_path / "operator_check")
    if options.database is not None:
        from msprobe_builder.database.write.checks import store_checks

        count = store_checks(options.database, rows, options.step, options.rank)
        print_lines([tell(fact("operator.stored", count=count, file=str(options.database)))])
    failed = [row for row in rows if row.status == "failed"]
    for row in failed:
        print_lines([row.sentence])
    untested = [row for row in rows if row.status == "not tested"]
    cut_short = _cut_short(rows)
    is_incomplete = bool(cut_short) or len(untested) == len(rows) > 0
    first = [(cut_short or untested)[0].sentence] if is_incomplete else []
    print_lines([*first, *untested_lines(rows)])
    counts = counted([row.status for row in rows]) or fact("operator.no_calls")
    print_lines([tell(fact("operator.counts_and_file", counts=counts, file=str(written[0])))])
    if failed:
        return EXIT_FAILED
    return EXIT_CANNOT_RUN if is_incomplete else EXIT_OK


def _cut_short(rows: Sequence[Any]) -> list[Any]:
    """Rows of calls that could have been tested."""
    return [row for row in rows if row.reason is not None and row.reason.code in _CUT_SHORT]


def _perturb(options: argparse.Namespace) -> int:
    from msprobe_operators.call.apart import each_apart
    from msprobe_operators.dump.calls import recorded_calls
    from msprobe_operators.dump.perturb import AMPLIFIES, UNTESTED, PerturbRow, untested
    from msprobe_operators.dump.run import chosen_calls, find_dump, source_of
    from msprobe_operators.report.table import counted, untested_lines, write_rows

    if not options.amplification > 0:
        raise UsageError(f"--amplification {options.amplification} must be above 0.")
    dump = find_dump(options.dump)
    source = source_of(dump)
    calls = chosen_calls(list(recorded_calls(dump)), tuple(options.call), dump)
    work = partial(_perturbed, source=source, way=options.by, most=options.amplification)
    found = each_apart(work, calls, ["cpu"], bounds_of(options))
    rows = [
        row
        for call, rows in found
        for row in (untested(call, rows) if isinstance(rows, Fact) else rows)
    ]
    for row in rows:
        if row.status == AMPLIFIES:
            print_lines([row.sentence])
    if options.output_path is not None:
        write_rows(rows, PerturbRow, options.output_path / "operator_perturb")
    print_lines(untested_lines(rows))
    counts = counted([row.status for row in rows]) or fact("operator.no_calls")
    print_lines([tell(fact("operator.counts", counts=counts))])
    is_untold = rows and all(row.status == UNTESTED for row in rows)
    return EXIT_CANNOT_RUN if is_untold or _cut_short(rows) else EXIT_OK


def _overflow(options: argparse.Namespace) -> int:
    from msprobe_operators.call.apart import each_apart
    from msprobe_operators.dump.calls import recorded_calls
    from msprobe_operators.dump.overflow import OverflowRow, has_numbers
    from msprobe_operators.dump.run import find_dump, source_of
    from msprobe_operators.report.table import write_rows

    dump = find_dump(options.dump)
    work = partial(_overflowing, source=source_of(dump))
    calls = list(recorded_calls(dump))
    found = each_apart(work, calls, ["cpu"], bounds_of(options))
    rows = [
        OverflowRow(f"{call.name}.forward", "not tested", "", row) if isinstance(row, Fact) else row
        for call, row in found
        if row is not None
    ]
    for row in rows:
        print_lines([row.sentence])
    if options.output_path is not None:
        write_rows(rows, OverflowRow, options.output_path / "operator_overflow")
    kinds = Counter(row.kind for row in rows)
    counts = {
        "device": fact("operator.device", count=kinds["device"]),
        "expected": fact("operator.expected", count=kinds["expected"]),
        "not tested": fact("operator.overflows_untested", count=kinds["not tested"]),
    }
    clauses = [counts[kind] for kind in counts if kinds[kind]]
    told = sum(map(has_numbers, calls))
    none = fact("operator.no_overflow", count=told, calls=len(calls))
    if not (clauses or told):
        none = fact("operator.no_numbers")
    print_lines([tell(fact("alignment.several", clauses=clauses) if clauses else none)])
    if kinds["device"]:
        return EXIT_FAILED
    return EXIT_CANNOT_RUN if _cut_short(rows) or not (clauses or told) else EXIT_OK


def _perturbed(
    call: RecordedCall, _: str, source: Source, way: str, most: float
) -> list[PerturbRow]:
    from msprobe_operators.dump.perturb import perturb_recorded

    return perturb_recorded(call, source, way, most)


def _overflowing(call: RecordedCall, _: str, source: Source) -> OverflowRow | None:
    from msprobe_operators.dump.overflow import check_overflow

    return check_overflow(call, source)


def _positive(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive whole number")
    return value


def _fail(sentence: str, status: int) -> int:
    print(f"{PROGRAM}: {visible(sentence)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
