"""What can be wrong with a file: decided by type and by SQLite's own code, never by its words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from msprobe_builder.base.printable import printable
from msprobe_builder.files.problems import FileError

REBUILD = "Build it again with msprobe-build."
SAVE_AND_REBUILD = (
    "Save matches made by hand with msprobe-build verify FILE --save-matches OUT.json, then build"
    " it again with --match-file OUT.json."
)

# SQLite's primary result codes, https://sqlite.org/rescode.html
_ERROR, _PERMISSION, _BUSY, _LOCKED, _NO_MEMORY, _READ_ONLY, _INTERRUPT = 1, 3, 5, 6, 7, 8, 9
_INPUT_OUTPUT, _CORRUPT, _FULL, _CANNOT_OPEN, _TOO_BIG, _CONSTRAINT = 10, 11, 13, 14, 18, 19
_MISMATCH, _NOT_A_DATABASE = 20, 26
# The content of a file can cause these; the statements are ours, and tests run all of them.
_OF_CONTENT = frozenset({_ERROR, _CORRUPT, _CONSTRAINT, _MISMATCH, _NOT_A_DATABASE})

# Python 3.10 does not pass on the codes; these are the texts that SQLite's library has for them.
_CODES_BEFORE_PYTHON_3_11 = {
    "database is locked": _BUSY,
    "database table is locked": _LOCKED,
    "out of memory": _NO_MEMORY,
    "attempt to write a readonly database": _READ_ONLY,
    "interrupted": _INTERRUPT,
    "disk I/O error": _INPUT_OUTPUT,
    "database or disk is full": _FULL,
    "unable to open database file": _CANNOT_OPEN,
    "string or blob too big": _TOO_BIG,
    "file is not a database": _NOT_A_DATABASE,
}


class DamagedError(Exception):
    """A row, or its absence, contradicts the schema."""


def error_code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code, None of an error of the Python module itself."""
    extended = getattr(error, "sqlite_errorcode", None)
    if extended is None:
        return _CODES_BEFORE_PYTHON_3_11.get(str(error))
    return int(extended) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another program writes to the file just now."""
    return error_code(error) in (_BUSY, _LOCKED)


@contextmanager
def in_words(name: str) -> Iterator[None]:
    """What SQLite or the content of a file raises meanwhile, as a FileError that names it."""
    try:
        yield
    # A message of SQLite that quotes the file may be no text.
    except (sqlite3.Error, DamagedError, UnicodeDecodeError) as error:
        raise file_error(name, error) from error


def file_error(
    name: str, error: sqlite3.Error | DamagedError | OSError | UnicodeDecodeError
) -> FileError:
    """What an error that a file has caused means; raises ``error`` again if it is our own."""
    if isinstance(error, DamagedError):
        return damaged(name, str(error))
    if isinstance(error, UnicodeDecodeError):
        return damaged(name, "its description of itself is no text")
    if isinstance(error, FileNotFoundError):
        message = f"{name} is not there any more."
        return FileError("gone", message, "Look for it again.", may_pass=True)
    code = _CANNOT_OPEN if isinstance(error, OSError) else error_code(error)
    if code in (_READ_ONLY, _PERMISSION):
        return read_only(name)
    for codes, word, message, remedy, may_pass in _FAULTS:
        if code in codes:
            return FileError(word, message.format(name), remedy, may_pass=may_pass)
    if isinstance(error, OSError):
        raise error
    if code in _OF_CONTENT or _is_of_content(error):
        return damaged(name, str(error))
    raise error


# Codes, the word for them, the sentence, the remedy, whether it may pass.
_FAULTS = (
    (
        (_BUSY, _LOCKED),
        "locked",
        "{} is being written by another program.",
        "Try again in a moment.",
        True,
    ),
    (
        (_INTERRUPT,),
        "too_slow",
        "Reading {} took too long.",
        "Try again, or copy the file to a faster disk.",
        True,
    ),
    (
        (_INPUT_OUTPUT,),
        "disk_error",
        "Reading or writing {} failed on its disk.",
        "Try again, or copy the file to another disk.",
        True,
    ),
    (
        (_FULL,),
        "disk_full",
        "The disk of {} is full; nothing was changed.",
        "Make room on it, then try again.",
        False,
    ),
    (
        (_CANNOT_OPEN,),
        "cannot_open",
        "{} cannot be opened.",
        "Check that it may be read, and that its whole path is shorter than 512 bytes.",
        False,
    ),
    ((_TOO_BIG,), "too_big", "{} holds a value that is too large.", "Build it again.", False),
    ((_NO_MEMORY,), "no_memory", "There is too little memory for {}.", "Try again later.", True),
)


def read_only(name: str) -> FileError:
    """A file, or the directory that its journal needs, that may not be written."""
    return FileError(
        "read_only",
        f"{name} or its directory may not be written by the user who runs this program.",
        "Allow it with chmod u+w on both, or copy the file to a directory of your own.",
    )


def damaged(name: str, what: str) -> FileError:
    """A file whose content is not what its schema says."""
    remedy = REBUILD if name.endswith(".trend.db") else SAVE_AND_REBUILD  # no matches in it
    # SQLite's messages quote the file, which may hold anything.
    return FileError("damaged", f"{name} is damaged: {printable(what)}.", remedy)


def _is_of_content(error: sqlite3.Error) -> bool:
    """Of Python 3.10, and of values that Python itself cannot take over from SQLite."""
    own = (sqlite3.ProgrammingError, sqlite3.InterfaceError)
    return error_code(error) is None and not isinstance(error, own)
