"""Record the programs: ``python -m tests.one_run.record FOLDER [NAME …]``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.collector.processes import run_in
from tests.one_run.faults import FAULTS
from tests.one_run.programs import CORRECT, WORLD


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    for name, program in (CORRECT | FAULTS).items():
        if not names or name in names:
            run_in(WORLD, program, str(folder / name))


if __name__ == "__main__":
    main()
