"""Use an installed wheel as a person would, with nothing but what it brought along.

    python -I try_wheel.py DUMPS OUT

Builds a comparison, verifies it, shows it by TensorBoard, changes a match, takes that back.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("tensorboard", "numpy", "protobuf", "pyyaml")
WRONG, RIGHT = "llama_statistics_wrong_attention_scale", "llama_statistics"


@contextlib.contextmanager
def tensorboard(logdir: Path) -> Iterator[str]:
    """A running TensorBoard; the address of the plugin's routes."""
    command = [sys.executable, "-W", "error::DeprecationWarning:tb_graph_ascend"]
    command += ["-m", "tensorboard.main", "--logdir", str(logdir), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := re.search(r"at (http://\S+?)/? ", line):
                yield f"{found[1]}/data/plugin/graph_ascend/"
                return
        raise SystemExit("TensorBoard did not start:\n" + "".join(lines))
    finally:
        process.terminate()
        process.communicate()


def ask(address: str, sent: dict[str, Any] | None = None) -> Any:
    """The answer as JSON."""
    body = None if sent is None else json.dumps(sent).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def main() -> None:
    """All of it; an exception is the failure."""
    dumps, out = Path(sys.argv[1]), Path(sys.argv[2])
    sides = {
        side: str(dumps / name / "step0" / "rank")
        for side, name in (("npu_path", WRONG), ("bench_path", RIGHT))
    }
    out.mkdir()
    (out / "compare.json").write_text(json.dumps(sides), encoding="utf-8")
    program = [sys.executable, "-m", "msprobe_builder"]
    build = ["-i", str(out / "compare.json"), "-o", str(out), "--output-name", "a", "--quiet"]
    subprocess.run([*program, *build], check=True)
    subprocess.run([*program, "verify", str(out / "a.vis.db")], check=True, capture_output=True)
    with tensorboard(out) as address:
        [file] = ask(f"{address}catalog?format=json")["files"]
        place = "file=a.vis.db&step=0&rank=0&side=npu&format=json"
        skeleton = ask(f"{address}skeleton?{place}")
        number = next(at for at, one in enumerate(skeleton["grade"]) if at and one == 5)
        detail = ask(f"{address}node?{place}&index={number}")
        pair = {"npu": number, "bench": detail["bench"]["index"]}
        wanted = {"action": "MATCH_ACTION_UNMATCH", **pair}
        based = {"file": "a.vis.db", "revision": file["revision"]}
        done = ask(f"{address}match?format=json", {**based, "operations": [wanted]})
        assert [one["grade"] for one in done["changes"]] == ["GRADE_UNMATCHED"], done["changes"]
        back = ask(f"{address}undo?format=json", {**based, "revision": done["revision"]})
        assert back["changes"][0]["grade"] == "GRADE_SEVERE", back["changes"]
        assert ask(f"{address}search?file=a.vis.db&name=mul&regex=1&format=json")["total"]
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    print(f"Python {platform.python_version()}, {versions}: works")


if __name__ == "__main__":
    main()
