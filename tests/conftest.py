"""What every test may ask for: real dumps, a database built from them, a running TensorBoard."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import json
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from msprobe_builder.command.main import main
from tests import shares, turns
from tests.cases import QUICK, THOROUGH
from tests.serving import many_tensorboards
from tests.sharing import make_once, shared_folder

# A busy machine is slow, not wrong.
settings.register_profile(QUICK, deadline=None, max_examples=25)
settings.register_profile(THOROUGH, deadline=None, max_examples=200)

REPOSITORY = Path(__file__).resolve().parent.parent
PAIR_ARCHIVES = REPOSITORY / "tests" / "data" / "pairs"

BuildDatabase = Callable[..., Path]
StartTensorBoard = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--planted", choices=shares.CHOICES, help=shares.__doc__)
    parser.addoption("--costly", choices=turns.CHOICES, default=shares.ALL, help=turns.__doc__)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than cores: a test waits a fifth of its time, for disks, servers, pages."""
    return 1 + (os.cpu_count() or 1)


def pytest_configure(config: pytest.Config) -> None:
    """Generated inputs are few, and no planted cases, where exhaustive tests are left out."""
    # Several tests run at once; threads that wait for one another take most of the time.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    is_quick = "not slow" in config.option.markexpr
    settings.load_profile(QUICK if is_quick else THOROUGH)
    if config.option.planted is None:
        config.option.planted = shares.NONE if is_quick else shares.ALL
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(shares.Shares(config.option.planted))


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [shares.described(config.option.planted), turns.described(config.option.costly)]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Nothing that collecting makes is garbage: looking for it takes a fifth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the planted cases and the costly tests that are not chosen."""
    planted = [shares.is_tried(item, config.option.planted) for item in items]
    costly = turns.tried([item.nodeid for item in items], config.option.costly)
    tried = [*map(all, zip(planted, costly, strict=True))]
    left_out = [item for item, is_in in zip(items, tried, strict=True) if not is_in]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item, is_in in zip(items, tried, strict=True) if is_in]


def pytest_collection_finish() -> None:
    """What ten thousand tests are made of stays: garbage is looked for in the rest."""
    gc.freeze()


@pytest.fixture
def record_share(record_property: Callable[[str, object], None]) -> shares.RecordShare:
    """Count a planted case: record_share(kind, is_right=...)."""
    return shares.counter(record_property)


@pytest.fixture(scope="session")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with every dump of tests/data: dumps / "llama_statistics" / "step0" / "rank"."""
    return unpacked(tmp_path_factory, "dumps", REPOSITORY / "tests" / "data")


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with every pair of runs: pairs / "ddp" / "npu" / "step0" / "rank0"."""
    return unpacked(tmp_path_factory, "pairs", PAIR_ARCHIVES)


def unpacked(factory: pytest.TempPathFactory, name: str, archives: Path) -> Path:
    """The folder ``name`` that all processes have in common, with what lies in ``archives``."""

    def unpack(folder: Path) -> None:
        for archive in sorted(archives.glob("*.tar.xz")):
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")

    return make_once(shared_folder(factory) / name, unpack)


@pytest.fixture(scope="session")
def build_database(tmp_path_factory: pytest.TempPathFactory) -> BuildDatabase:
    """What msprobe-build makes: build_database(npu, bench=None, *options) is a new .vis.db.

    Keywords are further keys of compare.json. The same comparison of ``dumps`` or ``pairs`` is
    built once and handed out as a copy.
    """
    shared = shared_folder(tmp_path_factory)

    def build(npu: Path, bench: Path | None = None, *options: str, **keys: object) -> Path:
        request = {"npu_path": str(npu), "is_print_compare_log": False, **keys}
        if bench is not None:
            request["bench_path"] = str(bench)
        text = json.dumps([request, options])
        folder = tmp_path_factory.mktemp("built")
        if str(tmp_path_factory.getbasetemp()) in text.replace(str(shared), ""):
            run_builder(folder, request, options)  # what lies there may change in the meantime
        else:
            name = hashlib.sha256(text.encode()).hexdigest()[:16]
            built = make_once(shared / name, lambda place: run_builder(place, request, options))
            shutil.copytree(built / "out", folder / "out")
        [database] = (folder / "out").glob("*.vis.db")
        return database

    return build


def run_builder(folder: Path, request: dict[str, object], options: Sequence[str]) -> None:
    """Write compare.json into ``folder`` and what is built from it into its ``out``.

    In this process: a new one spends most of its time on starting. What the builder says goes
    past the test that asked first.
    """
    compare = folder / "compare.json"
    compare.write_text(json.dumps(request), encoding="utf-8")
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(sys.__stderr__),
    ):
        status = main(["-i", str(compare), "-o", str(folder / "out"), *options])
    assert status == 0, f"msprobe-build ended with {status}"


@pytest.fixture(scope="session")
def nan_database(dumps: Path, build_database: BuildDatabase) -> Path:
    """A run with one NaN in a weight against the correct run, with overflow."""
    return build_database(
        dumps / "llama_statistics_nan_weight" / "step0" / "rank",
        dumps / "llama_statistics" / "step0" / "rank",
        "-oc",
    )


@pytest.fixture(scope="session")
def demo_database(dumps: Path, build_database: BuildDatabase) -> Path:
    """The comparison "make demo" shows: a wrong attention scale against the correct run."""
    return build_database(
        dumps / "llama_statistics_wrong_attention_scale" / "step0" / "rank",
        dumps / "llama_statistics" / "step0" / "rank",
    )


@pytest.fixture(scope="session")
def tensorboard_server() -> Iterator[StartTensorBoard]:
    """Start TensorBoard: tensorboard_server(logdir, *options) is its address, ending in a slash.

    The same arguments give the same server; all of them end with the session.
    """
    with many_tensorboards() as start:
        yield functools.cache(lambda logdir, *options: start("--logdir", str(logdir), *options))
