"""What has been done: a search that was stopped goes on where it was."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.publish import written
from msprobe_builder.files.regular import read_text

_FILE = "bisect.json"
_STAGE = re.compile(r"[a-z]+\d*")


@dataclass
class Journal:
    """The runs that are there, kept in a file of the folder of the search."""

    folder: Path
    commands: dict[str, str]
    runs: dict[str, str] = field(default_factory=dict)  # "trace/npu": folder of the dump
    pending: str = ""  # the stage that a plan was written for

    def has(self, stage: str, side: str) -> bool:
        return f"{stage}/{side}" in self.runs

    def note(self, stage: str, side: str, dump: Path) -> None:
        """A run is there, whole."""
        self.runs[f"{stage}/{side}"] = str(dump)
        self.write()

    def dump(self, stage: str, side: str) -> Path:
        return Path(self.runs[f"{stage}/{side}"])

    def write(self) -> None:
        """Keep all of it."""
        content = {"commands": self.commands, "runs": self.runs, "pending": self.pending}
        with written(self.folder / _FILE) as stream:
            stream.write(json.dumps(content, indent=1).encode())


def _texts(content: Any) -> dict[str, str]:
    """A mapping of texts; ValueError for anything else."""
    if not all(isinstance(text, str) for pair in content.items() for text in pair):
        raise ValueError("it holds no texts")
    return dict(content)


def open_journal(folder: Path, commands: dict[str, str] | None) -> Journal:
    """The journal of a folder, a new one where there is none.

    UsageError for a folder that holds another search, or for ``commands`` None where there is
    none; BuildError where the file is damaged.
    """
    path = folder / _FILE
    if not path.exists():
        if commands is None:
            raise UsageError(f"{folder} holds no search; give --npu, --bench and -o.")
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} holds something else; give -o a folder of its own.")
        folder.mkdir(parents=True, exist_ok=True)
        made = Journal(folder, commands)
        made.write()
        return made
    try:
        content: Any = json.loads(read_text(path))
        found = Journal(
            folder,
            _texts(content["commands"]),
            _texts(content["runs"]),
            str(content.get("pending", "")),
        )
        if found.commands.keys() != {"npu", "bench"}:
            raise ValueError("there are not two commands")
        if found.pending and not _STAGE.fullmatch(found.pending):
            raise ValueError("it waits for no stage of a search")
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BuildError(
            f"{path} is damaged ({type(error).__name__}: {error}); begin in another folder."
        ) from error
    if commands is not None and commands != found.commands:
        raise UsageError(f"{folder} holds a search with other commands; give -o another folder.")
    return found
