"""Record the programs: ``python -m tests.one_run.record FOLDER [NAME …]``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.collector.processes import run_in
from tests.one_run.faults import FAULTS
from tests.one_run.more_faults import MORE_FAULTS
from tests.one_run.more_programs import MORE
from tests.one_run.programs import CORRECT, WORLD

PROGRAMS = CORRECT | MORE | FAULTS | MORE_FAULTS


def main() -> None:
    """Into a folder for each, all of them or those that are named."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    for name in names or PROGRAMS:
        run_in(WORLD, PROGRAMS[name], str(folder / name))


if __name__ == "__main__":
    main()
