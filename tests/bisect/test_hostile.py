"""States of a search and traces that somebody else wrote: one sentence each, nothing run."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from msprobe_bisect.command import main
from msprobe_bisect.traces import parting
from msprobe_builder.base.errors import BuildError
from msprobe_builder.sketch.definition import FLAT

STATE: dict[str, Any] = {
    "commands": {"npu": "touch ran", "bench": "touch ran"},
    "runs": {},
    "pending": "trace",
}


@pytest.mark.parametrize(
    "state",
    [
        [],
        None,
        7,
        STATE | {"commands": []},
        STATE | {"commands": {"npu": "touch ran"}},
        STATE | {"commands": {"npu": ["touch", "ran"], "bench": "x"}},
        STATE | {"runs": [["trace/npu", "x"]]},
        STATE | {"runs": {"trace/npu": 5}},
        STATE | {"pending": "../outside"},
        STATE | {"pending": {"a": 1}},
        "[" * 100_000,
        "\ud800",
        "\0",
    ],
)
def test_a_damaged_state_is_said(
    state: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "search"
    folder.mkdir()
    text = state if isinstance(state, str) else json.dumps(state)
    (folder / "bisect.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    dumps = [f"--{side}-dump={tmp_path}" for side in ("npu", "bench")]
    assert main(["--continue", str(folder), *dumps]) == 1
    said = capsys.readouterr().err
    assert "bisect.json is damaged" in said
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["bisect.json", "search"]


def test_a_pipe_is_no_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "bisect.json")
    assert main(["--continue", str(tmp_path)]) == 1
    assert "it is no regular file" in capsys.readouterr().err


SKETCH = base64.b64encode(bytes(4 * FLAT)).decode()
TENSOR = {"dtype": "torch.float32", "shape": [2], "crc": 1, "norm": 1.0, "sketch": SKETCH}
OTHER = TENSOR | {"crc": 2, "sketch": base64.b64encode(b"x" * 4 * FLAT).decode()}
LINE: dict[str, Any] = {
    "step": 0,
    "random": {},
    "data": [{"0": TENSOR}],
    "before": {},
    "outputs": [{"0": TENSOR}],
    "gradients": {"w": TENSOR},
    "weights": {"w": TENSOR},
    "settings": [{"lr": 0.1}],
}


@pytest.mark.parametrize(
    "line",
    [
        [],
        {},
        "x",
        LINE | {"step": 1e999},
        LINE | {"step": "x"},
        LINE | {"data": 5},
        LINE | {"data": [[1]]},
        LINE | {"outputs": {"0": 5}},
        LINE | {"outputs": [{"0": TENSOR | {"crc": 2, "sketch": "%"}}]},
        LINE | {"outputs": [{"0": TENSOR | {"crc": 2, "sketch": "AAA="}}]},
        LINE | {"gradients": {"w": OTHER | {"dtype": []}}},
        LINE | {"weights": []},
        LINE | {"settings": [[]]},
        LINE | {"random": []},
    ],
)
def test_a_damaged_trace_is_said(line: object, tmp_path: Path) -> None:
    for side, told in (("npu", line), ("bench", LINE)):
        (tmp_path / side).mkdir()
        lines = [told if side == "npu" else LINE, LINE | {"step": 1}]
        (tmp_path / side / "trace.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(BuildError, match=r"trace\.jsonl is damaged"):
        parting(tmp_path / "npu", tmp_path / "bench")
