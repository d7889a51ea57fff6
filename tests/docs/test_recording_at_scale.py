"""The guide to recording at scale does what it says, with two processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe_collector.report import describe_estimate
from tests.conftest import REPOSITORY
from tests.docs.test_tutorial import FENCE, MAIN

GUIDE = REPOSITORY / "docs" / "recording-at-scale.md"
FENCES = FENCE.findall(GUIDE.read_text(encoding="utf-8"))


@pytest.mark.slow  # four trainings of two processes
@pytest.mark.skipif(sys.platform == "win32", reason="commands are those of a POSIX shell")
def test_its_commands_run_in_their_order(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, module in {**MAIN, "torchrun": "torch.distributed.run"}.items():
        text = f"#!{sys.executable}\nimport sys\nfrom {module} import main\nsys.exit(main())\n"
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    found = {**os.environ, "PATH": f"{programs}:{Path(sys.executable).parent}:/usr/bin:/bin"}
    said = []
    for word, body in FENCES:
        if word in ("python", "json"):
            (tmp_path / {"python": "train.py", "json": "compare.json"}[word]).write_text(body)
        elif word == "shell":
            for command in body.splitlines():
                answer = subprocess.run(
                    ["sh", "-c", command],
                    cwd=tmp_path,
                    env={**found, "PYTHONPATH": str(REPOSITORY)},
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert answer.returncode == (90 if "--stop-after" in command else 0), answer.stderr
                said.append(answer.stdout + answer.stderr)
    assert re.search(r"1 rank on this machine: about [\d.]+ kB of records, for each of 2", said[0])
    recorded = sorted(str(path.parent) for path in tmp_path.glob("shared/*/step*/rank*/dump.json"))
    assert [path.removeprefix(f"{tmp_path}/shared/") for path in recorded] == [
        f"{side}/step{step}/rank0" for side in ("bench", "npu") for step in (0, 2)
    ]
    assert len(list(tmp_path.glob("out/*.vis.db"))) == 1


def test_both_languages_have_the_same_commands() -> None:
    chinese = GUIDE.with_name("recording-at-scale.zh.md")
    assert FENCE.findall(chinese.read_text("utf-8")) == FENCES


def test_sizes_of_all_steps_and_ranks_are_those_of_each_multiplied() -> None:
    text = describe_estimate(Path(), 0, (3, 32), 2, 10, 1_500, 2_000_000, 0.1)
    assert "All 2 steps of 32 ranks: about 96.0 kB of records" in text
    assert "with task tensor 128.0 MB more" in text
