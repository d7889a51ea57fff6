"""What all commands share: arguments, words for errors, exit status, a clean end."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Protocol

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import remove_left_overs
from msprobe_builder.command.fault import EXIT_FAULT, fault_sentence
from msprobe_builder.command.output import print_error
from msprobe_builder.facts.wording import ENGLISH, LANGUAGES, speaking

PROGRAM = "msprobe-build"
EXIT_OK = 0
EXIT_CANNOT_BUILD = 1
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
_INSIDE = ("rank*", "step*", "step*/rank*", "monitor/rank*")
_MOST_FOLDERS = 1000  # that are looked through for what was left
_LONGEST = 300  # characters of a path in a sentence


class Command(Protocol):
    """A module of this package: one command.

    ``run`` returns the exit status; it raises UsageError for what the user should have typed
    otherwise and BuildError for what cannot be done, each with one sentence. What costs time to
    import is imported inside ``run``, so that help and mistakes are answered at once.
    """

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        """Describe the command and its arguments."""

    @staticmethod
    def run(options: argparse.Namespace) -> int:
        """Do it."""


def run_command(command: Command, name: str, arguments: Sequence[str]) -> int:
    """Run one command on its arguments; returns the exit status."""
    parser = parser_of(command, name)
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names may hold any character
    remove_left_overs_beside(options)
    try:
        with stoppable(), speaking(language_spoken(options)):
            return command.run(options)
    except UsageError as error:
        return _fail(str(error), EXIT_USAGE)
    except BuildError as error:
        return _fail(str(error), EXIT_CANNOT_BUILD)
    except OSError as error:  # of a path that nobody foresaw, or a disk that fails
        where = f" {os.fsdecode(error.filename)[:_LONGEST]}" if error.filename else ""
        return _fail(f"Cannot read or write{where}: {error.strerror or error}.", EXIT_CANNOT_BUILD)
    except MemoryError:
        return _fail("There is not enough memory for this.", EXIT_CANNOT_BUILD)
    except KeyboardInterrupt as stopped:
        return _fail(str(stopped) or "Stopped; nothing was written.", EXIT_CANNOT_BUILD)
    except Exception as error:
        return fault(error)


def remove_left_overs_beside(options: argparse.Namespace) -> None:
    """Remove what killed commands left in the folders that the arguments of this one name."""
    for given in vars(options).values():
        for path in given if isinstance(given, list | tuple) else [given]:
            if isinstance(path, Path):
                with suppress(OSError, ValueError):  # of a name that can be none
                    for folder in _folders_of(path):
                        remove_left_overs(folder)


def _folders_of(path: Path) -> Iterator[Path]:
    """The folder that a path is or lies in, and those of the steps and ranks of a recording."""
    if not path.is_dir():
        yield path.parent
        return
    yield path
    inside = (folder for pattern in _INSIDE for folder in path.glob(pattern) if folder.is_dir())
    yield from islice(inside, _MOST_FOLDERS)


def fault(error: Exception) -> int:
    """Tell an error that nobody foresaw; returns the exit status."""
    return _fail(fault_sentence(error), EXIT_FAULT)


def parser_of(command: Command, name: str) -> argparse.ArgumentParser:
    """The arguments of a command; ``name`` is empty for the build itself."""
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}".rstrip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    add_language(parser)
    return parser


def add_language(parser: argparse.ArgumentParser, *, again: bool = False) -> None:
    """The option that says which language is spoken; ``again`` behind the word of a part."""
    parser.add_argument(
        "--language",
        choices=LANGUAGES,
        default=argparse.SUPPRESS if again else None,
        help="of what is printed and of reports; by default as LC_ALL, LC_MESSAGES or LANG say",
    )


def language_spoken(options: argparse.Namespace) -> str:
    """The language that was asked for, else that of the locale, if there are wordings in it."""
    if options.language:
        return str(options.language)
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    locale = next(filter(None, names), "")
    return next((one for one in LANGUAGES if locale.lower().startswith(one)), ENGLISH)


def whole_number(low: int, high: int | None = None) -> _WholeNumber:
    """The type of an argument that is a whole number within bounds."""
    return _WholeNumber(low, high)


class _WholeNumber:
    def __init__(self, low: int, high: int | None) -> None:
        self._low, self._high = low, high

    def __call__(self, text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
        if value is None or value < self._low or (self._high is not None and value > self._high):
            bounds = (
                f"{self._low} or more" if self._high is None else f"{self._low} to {self._high}"
            )
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, {bounds}")
        return value


@contextmanager
def stoppable() -> Iterator[None]:
    """Let a termination end the work as Ctrl-C does: cleanly, and only once."""

    def stop(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP"):
        numbers.append(signal.SIGHUP)
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _fail(sentence: str, status: int) -> int:
    print_error(sentence)
    return status
