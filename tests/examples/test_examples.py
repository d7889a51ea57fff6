"""The examples do what their page says: the loop is recorded as it stands, the notebook runs."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.command.main import main
from tests.conftest import REPOSITORY
from tests.docs.test_commands import shell_commands

EXAMPLES = REPOSITORY / "examples"


def recorded(folder: Path, name: str, *arguments: str) -> str:
    """A few steps of the loop, recorded; what the training printed."""
    run = "import sys; from msprobe_collector.run.command import main; sys.exit(main())"
    loop = [sys.executable, str(EXAMPLES / "loop" / "train.py"), "--steps", "3", "--length", "16"]
    options = ["-o", name, "--seed", "1234", "--", *loop, "--device", "cpu", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", run, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_loop_knows_nothing_of_this_project() -> None:
    tree = ast.parse((EXAMPLES / "loop" / "train.py").read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [one.name for one in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported == {"argparse", "math", "pathlib", "torch"}


def test_the_loop_is_recorded_as_it_stands_and_accuses_nobody_in_another_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = re.findall(r"step \d: loss ([\d.]+)", recorded(tmp_path, "first"))
    assert len(losses) == 3
    recorded(tmp_path, "second", "--bf16")
    commands = map(shlex.split, shell_commands((EXAMPLES / "README.md").read_text("utf-8")))
    [build] = [words for words in commands if words[0] == "msprobe-build"]
    monkeypatch.chdir(tmp_path)
    assert main([one.removeprefix("out/") for one in build[1:]]) == 0
    assert "Verdict   undecided, bf16 against fp32." in capsys.readouterr().out


def cells(kind: str) -> list[str]:
    notebook = json.loads((EXAMPLES / "compare.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["language_info"]["name"]) == (4, "python")
    assert not any(one.get("outputs") for one in notebook["cells"])  # nobody's machine is in it
    return ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == kind]


def test_the_notebook_runs_and_shows_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    shutil.copytree(EXAMPLES / "llama", tmp_path / "llama")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in cells("code"):
        exec(compile(cell, "compare.ipynb", "exec"), names)  # noqa: S102 - it is ours
    scale, first = names["apart"].iloc[0], names["apart"].iloc[1]
    assert scale["NPU Name"] == "Tensor.__mul__.19.forward.input.1"
    assert (scale["NPU l2norm"], scale["Bench l2norm"]) == (0.375, 0.25)
    assert first["NPU Name"] == "Tensor.__mul__.19.forward.output.0"
    assert first["NPU l2norm"] / first["Bench l2norm"] == pytest.approx(1.5, rel=1e-4)
    outputs = names["outputs"]
    suspects = outputs[outputs["Role"] == "suspect"]["NPU Name"]
    assert set(suspects) == {f"Tensor.__mul__.{call}.forward.output.0" for call in (19, 44)}
    assert (outputs["Role"] == "carrier").sum() > 50
    assert Path("out/differences.png").stat().st_size > 10_000
