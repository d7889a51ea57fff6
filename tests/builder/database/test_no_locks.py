"""File systems without locks: files are built and shown there, and not changed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Every way to lock a file is refused with the number in LOCK_ERRNO.
REFUSING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

static int refused(void) { errno = atoi(getenv("LOCK_ERRNO")); return -1; }
static int takes(int what) {
    return what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW;
}
#define REPLACED(name) \\
    int name(int file, int what, ...) { \\
        va_list rest; va_start(rest, what); void *value = va_arg(rest, void *); va_end(rest); \\
        if (takes(what)) return refused(); \\
        int (*own)(int, int, ...) = dlsym(RTLD_NEXT, #name); \\
        return own(file, what, value); \\
    }
REPLACED(fcntl)
REPLACED(fcntl64)
int flock(int file, int what) { return refused(); }
int lockf(int file, int what, off_t size) { return refused(); }
int lockf64(int file, int what, off64_t size) { return refused(); }
"""
PROGRAM = """
import sys
from pathlib import Path
from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.files.problems import FileError
from tests.plugin.changing import operation, post, revision_of
from tests.plugin.conftest import catalog, client_of, problem_of

dump, logs = Path(sys.argv[1]), Path(sys.argv[2])
logs.mkdir()
(logs / "compare.json").write_text('{"npu_path": "%s", "bench_path": "%s"}' % (dump, dump))
made = ["-i", str(logs / "compare.json"), "-o", str(logs)]
assert main([*made, "--output-name", "x", "--quiet"]) == 0
path = logs / "x.vis.db"
assert main(["verify", str(path)]) == 0
assert main(["verdict", str(path)]) == 0
assert main(["page", str(path), "-o", str(logs / "x.html")]) == 0
assert main(["upgrade", str(path), "-o", str(logs / "y.vis.db")]) == 0
assert main(["trend", str(dump), "-o", str(logs)]) == 0
before = path.read_bytes()
ask = client_of(logs)
files = {one.file: one for one in catalog(ask).files}
assert set(files) == {"x.vis.db", "y.vis.db"}
assert not any(one.writable or one.HasField("problem") for one in files.values())
for name in ("skeleton", "node"):
    query = {"file": "x.vis.db", "step": "0", "rank": "0", "side": "npu", "index": "3"}
    query = query if name == "node" else {k: v for k, v in query.items() if k != "index"}
    assert ask(name, **query).status_code == 200
body = {"file": "x.vis.db", "revision": files["x.vis.db"].revision,
        "operations": [operation(3, 3, "UNMATCH")]}
answer = post(ask, "match", body)
assert (answer.status_code, problem_of(answer).code) == (403, "no_locks")
assert path.read_bytes() == before
assert not [one for one in logs.iterdir() if one.name.startswith(".")]
(logs / "x.vis.db-journal").write_bytes(before[:40] + b"x" * 2000)
[problem] = [one.problem for one in catalog(ask).files if one.HasField("problem")]
print(problem.code, problem.message)
"""


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that takes locks away from whatever program it is loaded into."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("takes a C compiler on Linux")
    folder = tmp_path_factory.mktemp("refusing")
    (folder / "refusing.c").write_text(REFUSING)
    command = [compiler, "-shared", "-fPIC", "-o", "refusing.so", "refusing.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "refusing.so"


@pytest.mark.parametrize("name", ["ENOLCK", "ENOSYS", "EOPNOTSUPP", "EACCES", "EINVAL"])
def test_without_locks_files_are_built_and_shown(
    name: str, refusing: Path, dumps: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, dumps / "llama_statistics" / "step0", tmp_path / "logs"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "LD_PRELOAD": str(refusing), "LOCK_ERRNO": str(getattr(errno, name))},
    )
    assert done.returncode == 0, done.stderr
    assert "unfinished" in done.stdout.splitlines()[-1], done.stdout


UNREADABLE = """
import os, sys
from pathlib import Path
from tests.plugin.changing import operation, post
from tests.plugin.conftest import catalog, client_of, problem_of

assert not os.access(sys.argv[1] + "/x.vis.db-journal", os.R_OK)
ask = client_of(Path(sys.argv[1]))
problems = {one.file: one.problem for one in catalog(ask).files}
assert not problems["good.vis.db"].code
assert problems["x.vis.db"].code == "unfinished", problems
query = {"file": "x.vis.db", "step": "0", "rank": "0", "side": "npu"}
body = {"file": "x.vis.db", "revision": "x", "operations": [operation(3, 3, "UNMATCH")]}
for answer in (ask("skeleton", **query), ask("node", **query, index="3"), post(ask, "match", body)):
    assert answer.status_code < 500, answer.status_code
    assert problem_of(answer).code == "unfinished"
    assert "may not be read by the user" in problem_of(answer).message
"""


def test_a_journal_that_may_not_be_read_is_said(demo_database: Path, tmp_path: Path) -> None:
    for name in ("x", "good"):
        shutil.copy(demo_database, tmp_path / f"{name}.vis.db")
    journal = tmp_path / "x.vis.db-journal"
    journal.write_bytes(b"x" * 2000)
    journal.chmod(0)
    command = [sys.executable, "-c", UNREADABLE, str(tmp_path)]
    if os.geteuid() == 0:
        plain = "-dac_override,-dac_read_search"
        if shutil.which("setpriv") is None:
            pytest.skip("root reads everything")
        command = ["setpriv", f"--bounding-set={plain}", f"--inh-caps={plain}", *command]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
