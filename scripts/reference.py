"""Write docs/design/reference.md of the source: commands, their options, and what Python gives.

The keys of the viewer stand in docs/design/keys.md, which the front end's own test writes.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

from msprobe_builder.command.frame import parser_of
from msprobe_builder.command.main import COMMANDS, OTHERS, find_command

PAGE = Path(__file__).resolve().parent.parent / "docs" / "design" / "reference.md"
PROGRAMS = {
    "msprobe-run": "msprobe_collector.run.command",
    "msprobe-operators": "msprobe_operators.command",
    "msprobe-bisect": "msprobe_bisect.command",
}
PACKAGES = ("msprobe_builder", "msprobe_collector", "msprobe_checks", "msprobe_operators")
_HEAD = """# Reference: commands and Python

Made of the source by `scripts/reference.py`. Elsewhere: the [keys of the viewer](keys.md), the
[keys of compare.json](../building.md), the [database](database.md), the [HTTP API](http-api.md).

"""


_UNTOLD = (argparse._HelpAction, argparse._VersionAction, argparse._SubParsersAction)


class _SeenError(Exception):
    """Ends a program as soon as it is about to read its arguments."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


def _stop(parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
    raise _SeenError(parser)


def parser_in(main: Callable[[Sequence[str]], int]) -> argparse.ArgumentParser:
    """The parser that a program reads its arguments with."""
    with patch.object(argparse.ArgumentParser, "parse_known_args", _stop):
        try:
            main([])
        except _SeenError as seen:
            return seen.parser
    raise RuntimeError(f"{main.__module__} reads no arguments")


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command and its parser, by the words that are typed."""
    yield "msprobe-build", parser_of(find_command(None), "")
    for word in (*COMMANDS, *sorted(entry_points(group=OTHERS).names)):
        yield f"msprobe-build {word}", parser_of(find_command(word), word)
    for program, module in PROGRAMS.items():
        parser = parser_in(import_module(module).main)
        yield program, parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, command in action.choices.items():
                    yield f"{program} {word}", command


def command_part(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """What a command does, and a table of its arguments."""
    yield f"### `{name}`\n"
    if parser.description:
        yield f"{_plain(parser.description)}\n"
    rows = [
        (_called(action), _plain(_told(action)))
        for action in parser._actions
        if action.help != argparse.SUPPRESS and not isinstance(action, _UNTOLD)
    ]
    if rows:
        yield "| argument | meaning |\n|---|---|"
        yield from (f"| {called} | {told} |" for called, told in rows)
        yield ""


def _called(action: argparse.Action) -> str:
    value = action.metavar or ("" if action.nargs == 0 else action.dest.upper())
    if action.choices is not None and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    shown = " ".join(value) if isinstance(value, tuple) else value
    names = [name for name in action.option_strings if "_" not in name] or [shown]
    words = f"{', '.join(names)} {shown if action.option_strings and action.nargs != 0 else ''}"
    return f"`{words.strip()}`"


def _told(action: argparse.Action) -> str:
    told = action.help or ""
    return told % {**vars(action), "prog": "msprobe-build"} if "%" in told else told


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def python_part(package: str) -> Iterator[str]:
    """Each public name with its signature and what is said of it."""
    module = import_module(package)
    yield f"### `{package}`\n"
    yield "| name | meaning |\n|---|---|"
    for name in sorted(module.__all__):
        if name.startswith("__"):
            continue
        thing = getattr(module, name)
        told = (inspect.getdoc(thing) or "").partition("\n\n")[0]
        yield f"| `{name}{_arguments(thing)}` | {_plain(told)} |"
    yield ""


def _arguments(thing: object) -> str:
    """The names of the arguments: their types stand in the source."""
    if not callable(thing) or (inspect.isclass(thing) and issubclass(thing, Exception)):
        return ""
    parameters = inspect.signature(thing).parameters.values()
    names = [
        {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(one.kind.name, "") + one.name
        for one in parameters
    ]
    return f"({', '.join(names)})"


def page() -> str:
    """The document."""
    lines = [_HEAD.rstrip() + "\n", "## Commands\n"]
    for name, parser in parsers():
        lines += command_part(name, parser)
    lines.append("## Python\n")
    for package in PACKAGES:
        lines += python_part(package)
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
