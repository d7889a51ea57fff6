"""From two commands to the culprit: planted causes are found and proven, correct pairs are not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from msprobe_bisect.command import main, parser
from msprobe_collector.run.command import main as record
from tests.bisect.training import reproduced, searched, settled


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return settled(tmp_path, monkeypatch)


@pytest.mark.slow  # the tutorial does the same
def test_a_wrong_kernel_is_proven_and_reproduced(here: Path) -> None:
    status, found = searched("gelu_backward")
    assert (status, found["conclusion"], found["proof"]) == (4, "fault", "operator")
    assert found["culprit"] == "Functional.gelu.1"  # backward meets the last layer first
    assert (here / "search" / found["database"]).exists()
    assert (here / "search" / "report.html").exists()
    assert reproduced() == {"npu": 1, "bench": 0}


def test_what_is_spent_is_kept_and_gone_on_with(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a run that was stopped half-way: its folder is of no journal, and is made anew."""
    assert searched("gelu", "--steps", "1", "--runs", "1") == (5, {})
    assert "--runs 1 are spent; the same command with more goes on" in capsys.readouterr().err
    traced = here / "search" / "trace" / "npu" / "trace.jsonl"
    before = traced.stat().st_mtime_ns
    half_done = here / "search" / "trace" / "bench"
    half_done.mkdir()
    (half_done / "trace.jsonl").write_text('{"step"')
    assert searched("gelu", "--steps", "1", "--runs", "1") == (5, {})
    assert traced.stat().st_mtime_ns == before
    assert json.loads((half_done / "trace.jsonl").read_text())["step"] == 0
    assert searched("gelu", "--steps", "1", "--bytes", "1kB") == (5, {})
    said = capsys.readouterr().err
    assert "calls: npu: 0." in said  # the first run takes more than there is
    assert "calls: bench:" not in said
    spent = sum(one.stat().st_size for one in (here / "search/calls/npu").rglob("*.*"))
    assert f"--bytes 1,000: {spent:,} are spent; the same command with more goes on" in said


@pytest.mark.usefixtures("here")
@pytest.mark.slow  # a minute on a busy machine
def test_two_machines_are_told_what_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is done as it stands there, until a culprit is named."""
    said = planned(["--npu", "train npu", "--bench", "train bench", "-o", "search", "--plan"])
    text = capsys.readouterr().out
    assert said == 6
    for stage in ("trace", "calls", "tensors1"):
        assert f"msprobe-run --plan plan.json -o {stage}_npu -- train npu" in text
        plan = f"search/{stage}/plan.json"
        for side, plant in (("npu", "gelu"), ("bench", "none")):
            command = [sys.executable, "train.py", plant]
            assert record(["--plan", plan, "-o", f"{stage}_{side}", "--", *command]) == 90
        dumps = [f"--npu-dump={stage}_npu", f"--bench-dump={stage}_bench"]
        said = planned(["--continue", "search", *dumps])
        text = capsys.readouterr().out
    assert said == 4
    assert "Proven: Functional.gelu.0.forward is wrong itself." in text


@pytest.mark.usefixtures("here")
def test_a_plan_is_told_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--npu", "train", "--bench", "train", "-o", "search", "--plan", "--language", "zh"]
    assert planned(words) == 6
    text = capsys.readouterr().out
    assert text.startswith("请在两台机器上用 search/trace/plan.json 的副本采集每个 step 一行：")
    assert "msprobe-run --plan plan.json -o trace_npu -- train" in text


def planned(words: list[str]) -> int:
    return main([*words, "--steps", "1"])


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--npu", "a", "--bench", "b"], 2, "-o is missing"),
        (["--continue", "new"], 2, "new holds no search"),
        (["--continue", "taken", "-o", "x"], 2, "--continue knows the search"),
        (["--continue", "others"], 2, "--npu-dump is None; give the folder that was recorded"),
        (["--npu-dump", "taken"], 2, "--npu-dump and --bench-dump go with --continue"),
        (
            ["--continue", "others", "--npu-dump", "taken", "--bench-dump", "taken"],
            2,
            "others waits for no run",
        ),
        (["--npu", " ", "--bench", "b", "-o", "new"], 2, "--npu is empty"),
        (["--npu", "a", "--bench", "b", "-o", "taken"], 2, "taken holds something else"),
        (["--npu", "a", "--bench", "b", "-o", "others"], 2, "others holds a search with other"),
        (["--npu", "a", "--bench", "b", "-o", "damaged"], 1, "bisect.json is damaged"),
        (["--npu", "no_such", "--bench", "b", "-o", "new"], 1, "npu: no_such cannot be run"),
        (["--npu", "true", "--bench", "b", "-o", "new"], 1, "ended with status 0, nothing is"),
        (["--npu", "a 'b", "--bench", "b", "-o", "new"], 2, "--npu cannot be read: No closing"),
    ],
)
def test_what_cannot_be_is_said(
    words: list[str], status: int, sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = '{"commands": {"npu": "x", "bench": "y"}, "runs": {}}'
    for name, text in (("taken", ""), ("others", others), ("damaged", "{")):
        (here / name).mkdir()
        (here / name / ("file" if name == "taken" else "bisect.json")).write_text(text)
    assert main(words) == status
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"),
    [("500", 500), ("500MB", 5e8), ("2GB", 2e9), ("1.5 kB", 1500), ("3T", 3e12)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: float) -> None:
    assert parser().parse_args(["--bytes", text]).bytes == size


@pytest.mark.parametrize("text", ["much", "-1", "2XB", "1.2345kB", ""])
def test_what_is_no_size_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--bytes", text])
    assert "--bytes" in capsys.readouterr().err
