"""The program ``msprobe-build``: which command was asked for."""

from __future__ import annotations

import atexit
import difflib
import gc
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module

from msprobe_builder.base.errors import UsageError
from msprobe_builder.command.documented import translated
from msprobe_builder.command.frame import EXIT_USAGE, Command, fault, run_command
from msprobe_builder.command.output import print_error

# Module by the word the user types; without one it is the build.
COMMANDS = {
    "report": "report",
    "export": "export",
    "table": "table",
    "trend": "trend",
    "upgrade": "upgrade",
    "import": "import_database",
    "verify": "verify",
    "verdict": "verdict",
    "alias": "alias",
}
BUILD = "build"
# Entry points of the packages above this one: the name is the word, the value the module.
OTHERS = "msprobe_build.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    if arguments is None:  # the process ends with it: nobody needs to look for what is left over
        atexit.register(gc.freeze)
    with ExitStack() as stack:
        try:
            given = translated(sys.argv[1:] if arguments is None else arguments, stack)
            word = given[0] if given and not given[0].startswith("-") else None
            command = find_command(word)
        except UsageError as error:
            print_error(error)
            return EXIT_USAGE
        except Exception as error:  # of another package's command
            return fault(error)
        return run_command(command, word or "", given[word is not None :])


def find_command(word: str | None) -> Command:
    """The command that a word stands for, the build for none; UsageError for an unknown one."""
    if word is None or word in COMMANDS:
        name = BUILD if word is None else COMMANDS[word]
        return import_module(f"{__package__}.{name}")  # type: ignore[return-value]
    from importlib.metadata import entry_points

    # Looks through all that is installed, which what is known above need not wait for.
    others = {entry.name: entry for entry in entry_points(group=OTHERS)}
    if word in others:
        return others[word].load()  # type: ignore[no-any-return]
    near = difflib.get_close_matches(word, [*COMMANDS, *others], n=1)
    hint = f"did you mean '{near[0]}'?" if near else "to build, give -i compare.json -o out."
    raise UsageError(f"'{word}' is no command; {hint}")


if __name__ == "__main__":
    raise SystemExit(main())
