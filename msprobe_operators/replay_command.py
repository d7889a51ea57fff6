"""``msprobe-operators replay``: a saved call, again or as a script; and what all commands share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.command.output import print_lines
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell

if TYPE_CHECKING:
    from msprobe_operators.call.apart import Bounds
    from msprobe_operators.call.saved import SavedCall
    from msprobe_operators.judge.compare import Judgement

T = TypeVar("T")

EXIT_CANNOT_RUN = 1
EXIT_FAILED = 4  # an operator is wrong


def add_replay(commands: Any) -> None:
    """Describe it; ``commands`` are the subparsers of the program."""
    replay = commands.add_parser("replay", help="run a saved call again", allow_abbrev=False)
    replay.add_argument("file", type=Path, help="a file that dump_error_data wrote")
    replay.add_argument("--device", default="cpu")
    replay.add_argument("--reference", choices=("cpu", "float64", "decomposition"))
    replay.add_argument("--atol", type=float)
    replay.add_argument("--rtol", type=float)
    replay.add_argument(
        "--script",
        type=Path,
        metavar="FILE.py",
        help="write a script that needs nothing but torch instead",
    )
    replay.set_defaults(run=_replay)


def _replay(options: argparse.Namespace) -> int:
    from msprobe_operators.judge.compare import Status
    from msprobe_operators.live.compare_with_cpu import limits
    from msprobe_operators.report.table import status_fact

    device = device_of(options.device)
    try:
        limits(options.atol, options.rtol)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if options.script is not None:
        text = _ran(_scripted, options, device)
        with written(options.script) as stream:
            stream.write(text.encode())
        print_lines([tell(fact("operator.run_script", file=str(options.script)))])
        return 0
    name, judgement = _ran(_replayed, options, device)
    if judgement.status is Status.PASSED:
        but = None if judgement.reason is None else fact("operator.but", what=judgement.reason)
        said = {"times": judgement.times, "count": judgement.compared, "but": but}
        print_lines([tell(fact("operator.right_by", call=name, **said))])
        return 0
    status = status_fact(judgement.status.value)
    print_lines([tell(fact("operator.judged", call=name, status=status, reason=judgement.reason))])
    return EXIT_FAILED if judgement.status is Status.FAILED else EXIT_CANNOT_RUN


def _ran(work: Callable[[argparse.Namespace, str], T], options: argparse.Namespace, on: str) -> T:
    """What ``work`` gives in a process of its own; BuildError when that ends before."""
    from msprobe_operators.call.apart import run_apart

    found = run_apart(work, options, on, bounds_of(options))
    if isinstance(found, Fact):
        raise BuildError(f"{options.file} does not run on {on}: {tell(found)}.")
    return found


def _replayed(options: argparse.Namespace, device: str) -> tuple[str, Judgement]:
    """The name of the operator in a saved call, and what is judged of it."""
    from msprobe_operators.call.operator import operator_name
    from msprobe_operators.live.compare_with_cpu import limits
    from msprobe_operators.live.replay import run

    call = _saved(options.file)
    try:
        limit = limits(options.atol, options.rtol)
        *_, check = run(call, device, options.reference, limit)
    except Exception as error:  # a saved call may not run here
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise BuildError(f"{options.file} does not run on {device}: {text}") from None
    return operator_name(call.operator), check.judgement


def _scripted(options: argparse.Namespace, device: str) -> str:
    """The source of a script of a saved call."""
    from msprobe_operators.report.script import script

    return script(_saved(options.file), os.fspath(options.file), device)


def _saved(file: Path) -> SavedCall:
    from msprobe_operators.call.saved import SavedCallError, load_call

    try:
        return load_call(file)
    except SavedCallError as error:
        raise BuildError(str(error)) from None


def bounds_of(options: argparse.Namespace) -> Bounds:
    from msprobe_operators.call.apart import Bounds

    return Bounds(options.seconds, options.total_seconds, threads=options.threads)


def device_of(name: str) -> str:
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        text = " ".join(str(error).split())[:120]
        raise UsageError(f"--device {name!r} cannot be used here: {text}") from error
    return name
