"""Single values that were saved by hand: debug.json read as a dump of calls with one output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.source import Dumps, InMemoryDump
from msprobe_builder.files.regular import read_bytes

CALLS_FILE, SAVED_FILE = "dump.json", "debug.json"
ENDING = ".debug"  # of the name of every saved value
_WHOLE = ""  # name of a value that was saved by itself, not in a list or dictionary


def kinds_of(path: Path, key: str) -> tuple[Dumps | None, Dumps | None]:
    """Dumps of calls and of saved values at ``path``, None where there are none.

    ``path`` is a file, or a directory of a rank, of ranks or of steps, which may hold both.
    Raises BuildError when it has neither.
    """
    if path.name == CALLS_FILE:
        return path.parent, None
    if path.name == SAVED_FILE:
        return None, read_saved(path)
    tree = discover(path, key)
    directories = {place: one for place, one in tree.directories.items() if isinstance(one, Path)}
    saved = {
        (place.step, place.rank): read_saved(directory / SAVED_FILE)
        for place, directory in directories.items()
        if (directory / SAVED_FILE).is_file()
    }
    has_calls = any((directory / CALLS_FILE).exists() for directory in directories.values())
    calls = path if has_calls or not saved else None
    if not saved:
        return calls, None
    return calls, next(iter(saved.values())) if tree.is_single else saved


def read_saved(path: Path) -> InMemoryDump:
    """The values of one debug.json; BuildError when it cannot be read."""
    try:
        content = json.loads(read_bytes(path, LARGEST_JSON))
    except FileNotFoundError as error:
        raise BuildError(f"{path} does not exist; give the path of a debug.json.") from error
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BuildError(f"{path} is cut off or damaged; save the values again.") from error
    data = content.get("data") if isinstance(content, dict) else None
    if not isinstance(data, dict):
        raise BuildError(f"{path} has no object 'data'; save the values again.")
    records = {name: {"output": _output(value)} for name, value in data.items()}
    dump = {key: value for key, value in content.items() if key != "data"} | {"data": records}
    return InMemoryDump(dump, dict.fromkeys(records), name=str(path.parent))


def name_of(call: str, value: str) -> str:
    """The name of a saved value, as its file is called: ``loss.0.debug``, ``pair.0.debug.1``."""
    return f"{call}.{value.removeprefix('output.')}".removesuffix(f".{_WHOLE}")


def _output(value: Any) -> Any:
    is_nested = isinstance(value, list) or (
        isinstance(value, dict) and not isinstance(value.get("type"), str)
    )
    return value if is_nested else {_WHOLE: value}
