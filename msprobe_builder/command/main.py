"""The program ``msprobe-build``: which command was asked for."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from importlib import import_module

from msprobe_builder.base.errors import UsageError
from msprobe_builder.command.documented import translated
from msprobe_builder.command.frame import EXIT_USAGE, Command, run_command
from msprobe_builder.command.output import print_error

# Module by the word the user types, of this package where no other is named; without one it is
# the build.
COMMANDS = {
    "report": "report",
    "page": "page",
    "export": "export",
    "table": "table",
    "trend": "trend",
    "upgrade": "upgrade",
    "import": "import_database",
    "verify": "verify",
    "verdict": "verdict",
    "checkpoint": "msprobe_checks.command.checkpoint",
    "gradients": "msprobe_checks.command.gradients",
    "monitor": "msprobe_checks.command.monitor",
    "config": "msprobe_checks.command.config",
}
BUILD = "build"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    if arguments is None:  # the process ends with it: nobody needs to look for what is left over
        atexit.register(gc.freeze)
    try:
        given = translated(sys.argv[1:] if arguments is None else arguments, COMMANDS)
    except UsageError as error:
        print_error(error)
        return EXIT_USAGE
    if given and given[0] in COMMANDS:
        return run_command(command_module(COMMANDS[given[0]]), given[0], given[1:])
    return run_command(command_module(BUILD), "", given)


def command_module(name: str) -> Command:
    """A command by its entry in ``COMMANDS``."""
    whole = name if "." in name else f"{__package__}.{name}"
    return import_module(whole)  # type: ignore[return-value]


if __name__ == "__main__":
    raise SystemExit(main())
