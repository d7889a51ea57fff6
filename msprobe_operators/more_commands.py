"""Commands that run no call themselves: a script of one call, and two tables beside each other."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.command.output import print_lines
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell

_SHOWN = 20


def add_commands(commands: Any) -> None:
    """Describe them; ``commands`` are the subparsers of the program."""
    script = commands.add_parser(
        "script", help="write one call of a dump as a script of its own", allow_abbrev=False
    )
    script.add_argument("dump", type=Path, help="dump.json or the directory of one rank")
    script.add_argument("--call", required=True, metavar="NAME", help="such as Torch.matmul.3")
    script.add_argument("--device", default="cpu", help="where it runs unless told otherwise")
    script.add_argument(
        "-o", "--output-path", type=Path, metavar="FILE.py", help="default: NAME.py here"
    )
    script.set_defaults(run=_script)
    join = commands.add_parser(
        "join", help="hold the tables of one check on two devices beside each other"
    )
    join.add_argument("first", type=Path, help="operator_check.csv of one device")
    join.add_argument("second", type=Path, help="that of the other one")
    join.add_argument("-o", "--output-path", type=Path, help="write the table there as well")
    join.set_defaults(run=_join)


def _script(options: argparse.Namespace) -> int:
    from msprobe_operators.dump.calls import recorded_calls
    from msprobe_operators.dump.run import chosen_calls, find_dump, source_of
    from msprobe_operators.dump.script import dump_script

    if not re.fullmatch(r"[a-z_]+(:\d{1,4})?", options.device):
        raise UsageError(f"--device {options.device!r} is no device such as cuda:0.")
    dump = find_dump(options.dump)
    calls = chosen_calls(list(recorded_calls(dump)), (options.call,), dump)
    if len(calls) > 1:
        names = ", ".join(call.name for call in calls[:5])
        raise UsageError(f"--call {options.call} is of {len(calls)} calls; choose one of {names}.")
    text = dump_script(calls[0], source_of(dump), options.device)
    if not isinstance(text, str):
        raise BuildError(f"{calls[0].name} has no script: {tell(text)}.")
    path = options.output_path or Path(f"{calls[0].name}.py")
    with written(path) as stream:
        stream.write(text.encode())
    print_lines([tell(fact("operator.run_script", file=str(path)))])
    return 0


def _join(options: argparse.Namespace) -> int:
    from msprobe_operators.report.join import RIGHT, JoinedRow, join_tables, left_out
    from msprobe_operators.report.table import write_rows

    rows = join_tables(options.first, options.second)
    for row in [one for one in rows if one.status != RIGHT][:_SHOWN]:
        print_lines([row.sentence])
    if options.output_path is not None:
        write_rows(rows, JoinedRow, options.output_path / "operator_join")
    counts = Counter(row.status for row in rows)
    told = {
        "wrong": fact("operator.join_wrong", count=counts["wrong"]),
        "falls behind": fact("operator.join_behind", count=counts["falls behind"]),
        "not tested": fact("operator.join_untested", count=counts["not tested"]),
        RIGHT: fact("operator.join_right", count=counts[RIGHT]),
    }
    alone = left_out(options.first, options.second)
    clauses = [one for status, one in told.items() if counts[status]]
    if any(alone):
        clauses.append(fact("operator.join_alone", first=alone[0], second=alone[1]))
    print_lines([tell(fact("alignment.several", clauses=clauses))])
    return 0
