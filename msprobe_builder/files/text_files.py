"""Small text files that users write: configurations, mappings, match files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.printable import printable
from msprobe_builder.files.regular import UnreadableFileError, read_text


def read_text_file(path: Path, remedy: str) -> str:
    """The text of a file; UsageError, with ``remedy`` where no such file is, when it has none."""
    try:
        return read_text(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist; {remedy}.") from error
    except UnreadableFileError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}; {remedy}.") from error
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text; save it as UTF-8.") from error


def parse_yaml(file: Path, text: str, remedy: str) -> Any:
    """The values of a YAML text of ``file``; UsageError with ``remedy`` when it is none.

    Its own constructors raise whatever Python's conversions raise for a date or number that is
    none.
    """
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise UsageError(f"{file} is not valid YAML{where}; {remedy}.") from error


def parse_appended(content: bytes, **options: Any) -> tuple[Any, bool]:
    """The JSON value at the beginning, and whether something follows; ValueError without one.

    A recorder that was killed while it wrote leaves its last words behind the end.
    """
    try:
        return json.loads(content, **options), False
    except json.JSONDecodeError as error:
        if error.msg != "Extra data":
            raise
        return json.loads(error.doc[: error.pos], **options), True


def distinct_keys(file: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of ``file``; UsageError when a key stands in it twice: which one is meant?"""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            shown = printable(key)
            raise UsageError(f"{file} has the key '{shown}' twice in one object; keep one.")
        content[key] = value
    return content
