"""Builder and plugin work where Python lacks what only POSIX systems have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import REPOSITORY

# What Windows has not got: whole modules, and functions of modules that it has.
ELSEWHERE = """
import multiprocessing.util, os, signal, subprocess, sys, tempfile
import numpy, tensorboard.plugins.base_plugin, werkzeug.test
MODULES = ["resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog", "posix_ipc"]
FUNCTIONS = ["O_CLOEXEC", "O_NONBLOCK", "O_DIRECTORY", "O_NOFOLLOW", "pread", "pwrite", "fork",
    "getuid", "geteuid", "getgid", "getegid", "chown", "fchown", "fchmod", "mkfifo", "mknod",
    "sched_getaffinity", "sched_setaffinity", "posix_fadvise", "posix_fallocate", "statvfs",
    "sysconf", "killpg", "setsid", "getpgid", "nice", "getloadavg", "uname", "sync"]
for name in MODULES:
    sys.modules[name] = None
for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGALRM", "setitimer", "pthread_sigmask"):
    if hasattr(signal, name):
        delattr(signal, name)
real_fsync, real_open = os.fsync, os.open
def fsync(descriptor):
    # As on Windows: only what is open for writing can be synced.
    os.write(descriptor, b"")
    real_fsync(descriptor)
def open_(path, *arguments, **keywords):
    if os.path.isdir(path):
        raise PermissionError(13, "a directory", path)
    return real_open(path, *arguments, **keywords)
os.fsync, os.open = fsync, open_
"""
WORK = """
from pathlib import Path
from msprobe_builder.command.main import main
compare, out = sys.argv[1:]
status = main(["-i", compare, "-o", out, "-oc", "--workers", "1", "--output-name", "a"])
assert status == 0, status
database = str(Path(out) / "a.vis.db")
assert main(["report", database, "-o", str(Path(out) / "a.html")]) == 0
assert main(["export", database, "-o", str(Path(out) / "a.csv")]) == 0

from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import catalog, client_of
ask = client_of(out)
[file] = catalog(ask).files
assert not file.HasField("problem"), file.problem
assert file.graphs[0].npu_nodes > 50
place = {"file": file.file, "step": 0, "rank": 0, "side": "npu"}
for name, more in (("skeleton", {}), ("node", {"index": 3}), ("candidates", {"index": 3})):
    assert ask(name, **place, **more).status_code == 200, name
assert ask("search", file=file.file, name="linear$", regex="1").status_code == 200
assert report(change(ask, file.file, operation(3, 3, "UNMATCH"))).changes
print("done")
"""


def test_building_and_looking_need_nothing_that_only_posix_has(dumps: Path, tmp_path: Path) -> None:
    run = dumps / "llama_statistics_L0"
    compare = tmp_path / "compare.json"
    sides = {"npu_path": str(run / "step0" / "rank"), "bench_path": str(run / "step1" / "rank")}
    compare.write_text(json.dumps({**sides, "is_print_compare_log": False}), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE + WORK, str(compare), str(tmp_path / "out")],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("done\n")


def test_no_module_asks_for_more_when_it_is_imported() -> None:
    everything = """
import pkgutil
import msprobe_builder, tb_graph_ascend
for package in (msprobe_builder, tb_graph_ascend):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            __import__(found.name)
"""
    subprocess.run([sys.executable, "-c", ELSEWHERE + everything], cwd=REPOSITORY, check=True)
