"""The program ``msprobe-build``: which command was asked for."""

from __future__ import annotations

import atexit
import difflib
import gc
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.program import begin_program
from msprobe_builder.command.documented import translated
from msprobe_builder.command.frame import EXIT_USAGE, Command, fault, run_command
from msprobe_builder.command.output import print_error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

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
    "query": "query",
    "schema": "schema",
    "alias": "alias",
    "join-chunks": "join_chunks",
}
BUILD = "build"
# Entry points of the packages above this one: the name is the word, the value the module.
OTHERS = "msprobe_build.commands"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit status."""
    if arguments is None:  # the process ends with it: nobody needs to look for what is left over
        atexit.register(gc.freeze)
        begin_program()
    with ExitStack() as stack:
        try:
            given = translated(sys.argv[1:] if arguments is None else arguments, stack)
            word = command_word(given)
            command = find_command(word)
        except UsageError as error:
            print_error(error)
            return EXIT_USAGE
        except Exception as error:  # of another package's command
            return fault(error)
        return run_command(command, word or "", given[word is not None :])


def command_word(given: Sequence[str]) -> str | None:
    """The word of a command; None for the build, by options alone or by folders of dumps."""
    if not given or given[0].startswith("-"):
        return None
    word = given[0]
    if word in COMMANDS or (word == Path(word).name and word in _others()):
        return word
    with suppress(OSError):  # such as a name that is too long
        if Path(word).exists():
            return None
    return word


def find_command(word: str | None) -> Command:
    """The command that a word stands for, the build for none; UsageError for an unknown one."""
    if word is None or word in COMMANDS:
        name = BUILD if word is None else COMMANDS[word]
        return import_module(f"{__package__}.{name}")  # type: ignore[return-value]
    others = _others()
    if word in others:
        return others[word].load()  # type: ignore[no-any-return]
    known = [*COMMANDS, *others]
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"did you mean '{near[0]}'? Commands" if near else "commands"
    raise UsageError(
        f"'{word}' is no command, and there is no folder of that name; {hint} are "
        f"{', '.join(sorted(known))}, and 'msprobe-build A B -o out' compares two folders."
    )


@cache
def _others() -> dict[str, EntryPoint]:
    """Commands of other packages: looks through all that is installed."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=OTHERS)}


if __name__ == "__main__":
    raise SystemExit(main())
