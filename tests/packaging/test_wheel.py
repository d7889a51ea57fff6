"""The distribution as a stranger gets it: installed into an empty environment, without Node.js."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.serving import run_tensorboard

pytestmark = pytest.mark.slow
MOST_BYTES = 5_000_000
HEAVY = {"torch", "torch_npu", "pandas", "dask", "tensorflow"}


@pytest.fixture(scope="session")
def source_distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made as from a fresh clone, where nothing has been generated yet."""
    clone = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, clone / name)
    subprocess.run(
        [sys.executable, "-m", "build", "--sdist", clone], check=True, stdout=subprocess.DEVNULL
    )
    [archive] = (clone / "dist").iterdir()
    return archive


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an empty environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def wheel(
    source_distribution: Path, python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Made from the source distribution where there is neither Node.js nor protoc."""
    folder = tmp_path_factory.mktemp("wheel")
    run_alone(python, "-m", "pip", "wheel", "--no-deps", "-w", folder, source_distribution)
    [archive] = folder.iterdir()
    return archive


@pytest.fixture(scope="session")
def installed(wheel: Path, python: Path) -> Path:
    run_alone(python, "-m", "pip", "install", "--quiet", wheel)
    return python


@pytest.fixture(scope="session")
def address(installed: Path, demo_database: Path) -> Iterator[str]:
    command = [str(installed.with_name("tensorboard")), "--logdir", str(demo_database.parent)]
    with run_tensorboard(command) as address:
        yield address


def test_the_source_distribution_carries_what_was_generated(source_distribution: Path) -> None:
    with tarfile.open(source_distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "tb_graph_ascend/static/index.js",
        "tb_graph_ascend/generated/graph_pb2.py",
        "proto/graph.proto",
        "frontend_polymer/package-lock.json",
        "scripts/build_backend.py",
        "LICENSE",
    } <= names
    assert not [name for name in names if "node_modules" in name or "__pycache__" in name]


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "msprobe_builder/py.typed",
        "msprobe_builder/database/schema.sql",
        "msprobe_bisect/py.typed",
        "msprobe_checks/py.typed",
        "msprobe_collector/run/start/sitecustomize.py",
        "tb_graph_ascend/py.typed",
        "tb_graph_ascend/static/index.js",
        "tb_graph_ascend/generated/graph_pb2.py",
        "tb_graph_ascend/generated/graph_pb2.pyi",
    } <= names
    packages = ("bisect/", "builder/", "checks/", "collector/", "operators/", "graph-")
    ours = ("tb_graph_ascend/", *(f"msprobe_{package}" for package in packages))
    assert not [name for name in names if not name.startswith(ours)]
    # No compiler is in reach here, and nobody misses the module that one would make.
    assert "msprobe_collector/one_pass/passes.py" in names
    assert not [name for name in names if name.endswith((".so", ".cpp", ".h"))]
    assert wheel.stat().st_size < MOST_BYTES


def test_the_same_source_gives_the_same_wheel(
    source_distribution: Path, wheel: Path, python: Path, tmp_path: Path
) -> None:
    """Byte for byte, on another day, in another folder, under another umask."""
    with tarfile.open(source_distribution) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [folder] = (tmp_path / "source").iterdir()
    for path in folder.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    before = os.umask(0o077)
    try:
        run_alone(python, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path / "wheel", folder)
    finally:
        os.umask(before)
    [again] = (tmp_path / "wheel").iterdir()
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


def test_nothing_of_it_runs_at_installation(wheel: Path, source_distribution: Path) -> None:
    """A wheel has no hooks of its own; nothing may be imported at every start of Python either."""
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.endswith((".pth", ".sh"))]
    assert not {"sitecustomize.py", "usercustomize.py"} & set(names)
    assert not [name for name in names if "/scripts/" in name and ".data/" in name]
    with tarfile.open(source_distribution) as archive:
        files = [one.name for one in archive.getmembers() if one.isfile()]
    assert not [name for name in files if name.endswith("/setup.py")]
    # Data of tests are in the repository alone.
    assert not [name for name in files if "/tests/" in name and not name.endswith(".py")]


def test_tensorboard_of_the_empty_environment_offers_the_tab(address: str) -> None:
    listing = json.loads(fetch(f"{address}data/plugins_listing"))
    assert listing["graph_ascend"]["enabled"] is True
    module = listing["graph_ascend"]["loading_mechanism"]["module_path"].lstrip("/")
    folder = f"{address}{module.rpartition('/')[0]}/"
    entry = fetch(f"{address}{module}").decode()
    assert "render" in entry
    assets = re.findall(r"assets/[\w.-]+\.js", entry)
    assert assets
    for asset in assets:
        assert fetch(folder + asset)


@pytest.mark.parametrize("module", ["tb_graph_ascend.plugin", "msprobe_builder.command.main"])
def test_importing_is_light(installed: Path, module: str) -> None:
    loaded = run_alone(installed, "-c", f"import sys, {module}; print(*sys.modules)").split()
    assert module in loaded
    assert not HEAVY & set(loaded)


def test_comparing_statistics_needs_neither_torch_nor_pandas(
    installed: Path, dumps: Path, tmp_path: Path
) -> None:
    rank = dumps / "llama_statistics" / "step0" / "rank"
    compare = tmp_path / "compare.json"
    compare.write_text(json.dumps({"npu_path": str(rank), "bench_path": str(rank)}))
    program = (
        "import sys; from msprobe_builder.command.main import main;"
        f"status = main(['-i', {str(compare)!r}, '-o', {str(tmp_path / 'out')!r}, '--quiet']);"
        "print(status, *sys.modules)"
    )
    status, *loaded = run_alone(installed, "-c", program).split()
    assert status == "0"
    assert len(list((tmp_path / "out").glob("compare_*.vis.db"))) == 1
    assert not HEAVY & set(loaded)


def test_the_contract_loads_with_the_oldest_protobuf_allowed(
    installed: Path, tmp_path: Path
) -> None:
    setup = (REPOSITORY / "setup.cfg").read_text(encoding="utf-8")
    [oldest] = re.findall(r"protobuf>=([\d.]+)", setup)
    requirement = f"protobuf=={oldest}"
    run_alone(
        installed, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, requirement
    )
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
        "import google.protobuf; from tb_graph_ascend.generated import graph_pb2;"
        "message = graph_pb2.Skeleton(node_count=3);"
        "again = graph_pb2.Skeleton.FromString(message.SerializeToString());"
        "print(google.protobuf.__version__, again.node_count)"
    )
    assert run_alone(installed, "-W", "error", "-c", program).split() == [oldest, "3"]


def run_alone(python: Path, *arguments: str | Path) -> str:
    """Run an interpreter with no other program in reach, and away from the repository."""
    environment = {**os.environ, "PATH": str(python.parent)}
    done = subprocess.run(
        [python, *arguments],
        cwd=python.parent,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        content: bytes = answer.read()
    return content
