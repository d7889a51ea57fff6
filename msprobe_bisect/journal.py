"""What has been done: a search that was stopped goes on where it was."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.files.regular import read_text

_FILE = "bisect.json"


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
        """Whole or not at all."""
        path = self.folder / _FILE
        draft = path.with_suffix(".writing")
        content = {"commands": self.commands, "runs": self.runs, "pending": self.pending}
        draft.write_text(json.dumps(content, indent=1), encoding="utf-8")
        draft.replace(path)


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
        pending = str(content.get("pending", ""))
        found = Journal(folder, dict(content["commands"]), dict(content["runs"]), pending)
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{path} is damaged ({error}); begin in another folder.") from error
    if commands is not None and commands != found.commands:
        raise UsageError(f"{folder} holds a search with other commands; give -o another folder.")
    return found
