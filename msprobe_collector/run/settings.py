"""What ``msprobe-run`` tells the processes of a command, as a file that its environment names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SETTINGS = "MSPROBE_RUN"  # the variable that names the file; start/sitecustomize.py reads it
FILE = "settings.json"
EXIT_STOPPED = 90  # by --stop-after
CONFIG = "config.json"  # beside it: the configuration of the recorder


@dataclass(frozen=True)
class Settings:
    """All of it was checked by msprobe-run."""

    last_step: int | None = None  # the last one to record, None where all are
    coordinates: dict[str, int] = field(default_factory=dict)  # of the ranks to record: dp=0
    seed: int | None = None
    deterministic: bool = False
    stop_after: bool = False  # end the training behind the last step to record
    estimate: bool = False
    as_msprobe: bool = False  # lend our names to msprobe, and let the script record itself
    compare_compiled: bool = False  # hold compiled regions against eager instead of a dump
    trace: bool = False  # one line for each step instead of a dump

    def write(self, folder: Path, config: Mapping[str, Any]) -> Path:
        """Into files of ``folder``, which also takes the notes of the processes.

        ``config`` has the keys of a configuration file of the recorder.
        """
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
        path = folder / FILE
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @staticmethod
    def read(path: Path) -> Settings:
        return Settings(**json.loads(path.read_text(encoding="utf-8")))
