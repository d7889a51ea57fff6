"""Commands of the short guides do what these say, on real runs under the names that they use."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from tests.conftest import REPOSITORY
from tests.docs.test_commands import shell_commands

CORRECT = "llama_statistics"
# By guide: runs for the two folders in the order of its last build, and what is printed of them.
KNOWN = {
    "two-cards": (f"{CORRECT}_wrong_attention_scale", "fault, NPU against GPU."),
    "my-code": (f"{CORRECT}_renamed_all", "clean, mine against library."),
    "precision": (
        f"{CORRECT}_bf16",
        "undecided, bf16 against fp32. Nothing is off by more",
    ),
    "compiled": (f"{CORRECT}_wrong_attention_scale", "fault, NPU against GPU."),
}


@pytest.mark.parametrize("guide", KNOWN)
def test_a_guide_leads_to_what_it_says(
    guide: str,
    dumps: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / "docs" / f"{guide}.md").read_text(encoding="utf-8")
    builds = [
        words for words in map(shlex.split, shell_commands(text)) if words[0] == "msprobe-build"
    ]
    run, said = KNOWN[guide]
    for folder, name in zip(builds[0][1:3], (run, CORRECT), strict=True):
        Path(folder).symlink_to(dumps / name)
    recorded = [
        words[words.index("-o") + 1]
        for words in map(shlex.split, shell_commands(text))
        if words[0] == "msprobe-run"
    ]
    assert recorded == builds[0][1:3]
    for _, *words in builds:
        assert main([*words, "--output-name", f"{len(list(tmp_path.iterdir()))}.vis.db"]) == 0
        if "--names" in words:
            assert f"Verdict   {said}" in capsys.readouterr().out


def test_settings_are_compared_before_anything_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (REPOSITORY / "docs" / "before-you-record.md").read_text(encoding="utf-8")
    Path("run.sh").write_text("torchrun train.py --lr 1e-4\n")
    for command in shell_commands(text):
        program, *words = shlex.split(command)
        if program == "msprobe-build":
            assert main(words) == 0
            Path("run.sh").write_text("torchrun train.py --lr 1e-3\n")
    assert "lr is" in capsys.readouterr().out
