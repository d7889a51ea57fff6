"""The tutorial does what it says: its fences are saved and run in their order."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

TUTORIAL = REPOSITORY / "docs" / "tutorial.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MAIN = {
    "msprobe-run": "msprobe_collector.run.command",
    "msprobe-bisect": "msprobe_bisect.command",
    "msprobe-build": "msprobe_builder.command.main",
}
STATUS = {"msprobe-bisect": 4}  # a fault was found


def run(folder: Path, command: str) -> str:
    """What a command of the tutorial prints; it ends as the tutorial says."""
    program, *words = shlex.split(command)
    if program in MAIN:
        text = f"import sys; from {MAIN[program]} import main; sys.exit(main())"
        words = ["-c", text, *words]
    answer = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == STATUS.get(program, 0), answer.stderr
    return answer.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="commands are those of a POSIX shell")
def test_the_tutorial_leads_from_a_script_to_the_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its commands say python, which has to be this one.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    said: dict[str, str] = {}
    for word, body in FENCE.findall(TUTORIAL.read_text(encoding="utf-8")):
        if word == "python":
            (tmp_path / "train.py").write_text(body)
        elif word == "json":
            (tmp_path / "compare.json").write_text(body)
        elif word == "shell":
            for command in body.splitlines():
                if not command.startswith("tensorboard"):
                    said[shlex.split(command)[0]] = run(tmp_path, command)
        else:  # what is shown is what is said
            assert body.strip() in said["msprobe-bisect"]
    assert "Functional.gelu.1.backward" in said["msprobe-build"]
    assert "off by" in said["python"]


def test_both_languages_have_the_same_script() -> None:
    chinese = TUTORIAL.with_name("tutorial.zh.md")
    both = [dict(FENCE.findall(one.read_text("utf-8")))["python"] for one in (TUTORIAL, chinese)]
    assert both[0] == both[1]
