"""Try the wheel with the oldest and the newest of what it may run with.

    python scripts/test_versions.py [PYTHON ...]

Each row of the matrix is an environment of its own below .cache/versions, into which the newest
wheel of dist/ is installed. There a comparison is built, verified, shown by a real TensorBoard,
changed and read again. Pythons that this machine has not are named and left out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / ".cache" / "versions"
EXAMPLES = ("llama_statistics", "llama_statistics_wrong_attention_scale")
OLDEST = ("tensorboard==2.21.0", "numpy==1.26.4", "protobuf==6.31.1", "pyyaml==6.0.3")
NEWEST = ("tensorboard", "numpy", "protobuf", "pyyaml")


@dataclass(frozen=True)
class Row:
    """One environment."""

    python: str
    packages: tuple[str, ...]


MATRIX = (
    Row("3.10", OLDEST),
    Row("3.10", NEWEST),
    Row("3.11", OLDEST),
    Row("3.12", NEWEST),
    Row("3.13", NEWEST),
    Row("3.14", NEWEST),
)


def find_python(version: str) -> str | None:
    """An interpreter of this version: on PATH, or one of pyenv's."""
    candidates = [shutil.which(f"python{version}")]
    pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    candidates += [str(path) for path in reversed(pyenv)]
    for candidate in candidates:
        question = "import sys; print('%d.%d' % sys.version_info[:2])"
        if candidate and output(candidate, "-c", question) == version:
            return candidate
    return None


def output(*command: str) -> str:
    """What a command says; empty when it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def main(arguments: list[str]) -> int:
    """Run the matrix; 1 when a row failed."""
    wheels = sorted((REPOSITORY / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        print("There is no wheel; run: make wheel", file=sys.stderr)
        return 1
    dumps = FOLDER / "dumps"
    for name in EXAMPLES:
        with tarfile.open(REPOSITORY / "tests" / "data" / f"{name}.tar.xz") as archive:
            archive.extractall(dumps, filter="data")
    failed = 0
    for row in MATRIX:
        if arguments and row.python not in arguments:
            continue
        failed += not attempt(row, wheels[-1], dumps)
    return min(failed, 1)


def attempt(row: Row, wheel: Path, dumps: Path) -> bool:
    """Whether everything works in one environment; says so in one line."""
    interpreter = find_python(row.python)
    if interpreter is None:
        print(f"Python {row.python}: not on this machine, left out")
        return True
    kind = "oldest" if row.packages is OLDEST else "newest"
    place = FOLDER / f"{row.python}-{kind}"
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", place], check=True)
    python = str(place / "bin" / "python")
    install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*install, str(wheel), *row.packages], check=True)
    check = str(REPOSITORY / "scripts" / "try_wheel.py")
    done = subprocess.run(
        [python, "-I", check, str(dumps), str(place / "out")],
        check=False,
        capture_output=True,
        text=True,
        cwd=place,
    )
    if done.returncode:
        print(f"Python {row.python}, {kind}: FAILED\n{done.stdout}{done.stderr}")
        return False
    print(f"Python {row.python}, {kind}: {done.stdout.strip()}")
    return True


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
