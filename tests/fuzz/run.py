"""Fuzzing guided by coverage: ``python -m tests.fuzz.run TARGET [options of libFuzzer]``.

Without a target it prints their names. New inputs that reach new code are kept in
tests/fuzz/corpus; ``make fuzz`` runs every target.
"""

from __future__ import annotations

import sys
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    """Run one target until its time is up or it fails."""
    if len(sys.argv) == 1:
        from tests.fuzz.targets import TARGETS

        print(*TARGETS)
        return
    import atheris

    name = sys.argv[1]
    with atheris.instrument_imports(
        include=["msprobe_builder", "msprobe_checks", "msprobe_bisect", "msprobe_operators"]
    ):
        from tests.fuzz.targets import TARGETS, run
    if name not in TARGETS:
        sys.exit(f"There is no target {name}; choose of {', '.join(TARGETS)}.")
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    atheris.Setup(
        [sys.argv[0], str(CORPUS / name), *sys.argv[2:]], lambda data: run(name, bytes(data))
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
