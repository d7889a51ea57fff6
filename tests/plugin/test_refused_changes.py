"""Changes that fail for what was asked or for want of room: nothing is changed, and it is said."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.changing import change, post, revision_of
from tests.plugin.conftest import Ask, client_of, problem_of

FILE = "demo.vis.db"


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy of the demo's database that may be changed."""
    return Path(shutil.copy(demo_database, tmp_path / FILE))


@pytest.fixture
def ask(database: Path) -> Ask:
    """The plugin over that copy."""
    return client_of(database.parent)


ON_A_FULL_DISK = """
import shutil, subprocess, sys
from pathlib import Path
folder = Path(sys.argv[2])
size = Path(sys.argv[1]).stat().st_size + 8192
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
database = Path(shutil.copy(sys.argv[1], folder / "demo.vis.db"))
from tests.plugin.changing import change, operation
from tests.plugin.conftest import client_of, node, problem_of
before = database.read_bytes()
ask = client_of(folder)
there = node(ask, file="demo.vis.db", index=5).bench.index
response = change(ask, "demo.vis.db", operation(5, there, "UNMATCH", descendants=True))
print(response.status_code, problem_of(response).code)
assert database.read_bytes() == before
assert node(ask, file="demo.vis.db", index=5).HasField("bench")
"""


def test_a_full_disk_changes_nothing_and_is_not_called_damage(
    demo_database: Path, tmp_path: Path
) -> None:
    """On a file system of its own, in a mount namespace that ends with the process."""
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not mount a small file system")
    code = [sys.executable, "-c", ON_A_FULL_DISK, str(demo_database), str(tmp_path)]
    ended = subprocess.run(
        ["unshare", "--mount", *code], check=False, capture_output=True, text=True
    )
    assert ended.stdout.split() == ["507", "disk_full"], ended.stderr


@pytest.mark.parametrize(
    "content",
    [
        '{"a": "\\ud800"}',
        '{"\\ud800": "a"}',
        '{"a": "b", "a": "c"}',
        '{"matches": [{"npu": "a", "npu": "b", "bench": "c"}], "version": 1}',
        '{"version": 1, "matches": [{"npu": "a", "bench": "\\udfff"}]}',
        '{"version": 1, "matches": [{"npu": "a", "bench": "b", "step": 4294967296}]}',
        '{"version": 1, "matches": [{"npu": "a", "bench": "b", "rank": -1}]}',
        '{"version": 1, "matches": [{"npu": "a", "bench": "b", "step": 1e400}]}',
    ],
)
def test_an_odd_match_file_is_the_file_s_fault(ask: Ask, database: Path, content: str) -> None:
    before = database.read_bytes()
    body = {"file": FILE, "revision": revision_of(ask, FILE), "content": content}
    response = post(ask, "matches", body)
    assert (response.status_code, problem_of(response).code) == (400, "bad_match_file")
    assert database.read_bytes() == before


def test_an_unknown_action_is_the_request_s_fault(ask: Ask, database: Path) -> None:
    before = database.read_bytes()
    wanted = {"action": 7, "npu": 5, "bench": 5}
    response = change(ask, FILE, wanted)
    assert (response.status_code, problem_of(response).code) == (400, "bad_body")
    for field in ("author", "reason", "file", "revision"):
        response = post(ask, "match", {"file": FILE, field: "half \ud800"})
        assert problem_of(response).code == "bad_body", field
    assert database.read_bytes() == before
