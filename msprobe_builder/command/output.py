"""Printing of a command whose work is done: whoever reads along may go without spoiling it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from msprobe_builder.base.printable import visible


def print_lines(lines: Iterable[str]) -> bool:
    """Print to stdout; whether all of it could be printed, to its end."""
    try:
        for line in lines:
            if sys.stdout is not None:
                sys.stdout.write(visible(line) + "\n")
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _silence(sys.stdout)
        return False
    except KeyboardInterrupt:
        print_error("Stopped printing; the result is written.")
        return False
    return True


def print_error(message: object) -> None:
    """Print one line to stderr, if there is anybody to read it."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(f"msprobe-build: {visible(str(message))}\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    """Let nothing fail that Python itself flushes when it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
