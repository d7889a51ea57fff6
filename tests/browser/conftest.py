"""A page in Chromium that fails its test on anything a user's console would complain about.

And what it looks at: a database of every kind a user may have.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, expect, sync_playwright

import node
from msprobe_checks.configuration.collect import collect_static
from tests.browser.watch import watched_page
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.conftest import REPOSITORY, BuildDatabase, StartTensorBoard

CHROMIUM_OPTIONS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Pages of all servers share a process, which compiles TensorBoard once.
    "--process-per-site",
    # Names to be asked for, none of which exists.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
)
# TensorBoard asks for its own fonts without the path prefix, and the plugin's page by itself has no
# icon, for which browsers ask.
FAULTS_OF_TENSORBOARD = (r"/font-roboto/", r"/favicon\.ico\b")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A second try for each test here.

    Servers, a browser and other jobs share the processors: a page may be late in ways that no test
    foresees. What is wrong fails twice, and the last line of a run counts the second tries.
    """
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = subprocess.run(
        [str(REPOSITORY / "scripts" / "find_chromium")], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.fail(found.stderr.strip())
    # Playwright's own Node.js needs a library that a small Debian does not have.
    if installed := node.find():
        os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", str(installed.program))
    as_root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.stdout.strip(), args=[*CHROMIUM_OPTIONS, *as_root]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def window(browser: Browser) -> Iterator[BrowserContext]:
    """1440 by 900, in English and light until the test says otherwise: one for all tests."""
    window = browser.new_context(
        viewport={"width": 1440, "height": 900}, locale="en-US", color_scheme="light"
    )
    window.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    yield window
    window.close()


@pytest.fixture(scope="session")
def first_tab(
    window: BrowserContext, tensorboard_server: StartTensorBoard, demo_database: Path
) -> Page:
    """A tab that stays open, and with it the process and what that has compiled."""
    tab = window.new_page()
    tab.goto(tensorboard_server(demo_database.parent) + "data/environment")
    return tab


@pytest.fixture
def context(window: BrowserContext, first_tab: Page) -> Iterator[BrowserContext]:
    """The window, which every test finds with nothing stored, nothing allowed and no other tab."""
    origins: set[str] = set()

    def on_request(request: Request) -> None:
        address = urlsplit(request.url)
        origins.add(f"{address.scheme}://{address.netloc}")

    window.on("request", on_request)
    yield window
    window.remove_listener("request", on_request)
    for tab in window.pages:
        if tab != first_tab:
            tab.close()
    window.clear_permissions()
    window.clear_cookies()
    session = window.new_cdp_session(first_tab)
    for origin in sorted(origins):
        everything = {"origin": origin, "storageTypes": "all"}
        session.send("Storage.clearDataForOrigin", everything)
    session.detach()


@pytest.fixture
def expected_complaints() -> list[str]:
    """Regular expressions of the complaints a test provokes on purpose; it appends its own."""
    return []


@pytest.fixture
def page(context: BrowserContext, expected_complaints: list[str]) -> Iterator[Page]:
    """A fresh page; complaints the test did not expect fail it at its end."""
    watch = watched_page(context)
    yield watch.page
    patterns = (*FAULTS_OF_TENSORBOARD, *expected_complaints)
    unexpected = [
        complaint
        for complaint in watch.complaints()
        if not any(re.search(pattern, complaint) for pattern in patterns)
    ]
    assert not unexpected, "\n".join(unexpected)


@pytest.fixture(scope="session")
def ddp_database(dumps: Path, build_database: BuildDatabase) -> Path:
    """Two steps of four ranks: a wrong attention scale against the correct run."""
    name = "ddp4_statistics"
    return build_database(dumps / f"{name}_wrong_attention_scale", dumps / name, "-oc")


@pytest.fixture(scope="session")
def merged_database(dumps: Path, build_database: BuildDatabase) -> Path:
    """A model split over four ranks, joined, against the same on one rank."""
    split = {"rank_size": 4, "tp": 2, "pp": 2}
    whole = {"rank_size": 1, "tp": 1, "pp": 1}
    return build_database(
        dumps / "megatron_tp2pp2" / "step0",
        dumps / "megatron_tp1pp1" / "step0",
        parallel_merge={"npu": split, "bench": whole},
    )


@pytest.fixture(scope="session")
def single_database(dumps: Path, build_database: BuildDatabase) -> Path:
    """One model without a reference."""
    return build_database(dumps / "llama_statistics" / "step0" / "rank")


@pytest.fixture(scope="session")
def renamed_build(dumps: Path, build_database: BuildDatabase) -> Path:
    """The same model under other names: by names alone hardly anything matches."""
    return build_database(
        dumps / "llama_statistics_renamed_all" / "step0" / "rank",
        dumps / "llama_statistics" / "step0" / "rank",
        "--exact",
    )


@pytest.fixture
def renamed_database(renamed_build: Path, tmp_path: Path) -> Path:
    """A copy of it to change."""
    return Path(shutil.copy(renamed_build, tmp_path))


@pytest.fixture(scope="session")
def small_database(tmp_path_factory: pytest.TempPathFactory, build_database: BuildDatabase) -> Path:
    """Four layers, one of them wrong: 20 nodes a side."""
    folder = tmp_path_factory.mktemp("small")
    sides = (write_small_model(folder / name, scale) for name, scale in (("npu", 1.5), ("ref", 1)))
    return build_database(*sides)


@pytest.fixture(scope="session")
def configured_database(
    tmp_path_factory: pytest.TempPathFactory, build_database: BuildDatabase
) -> Path:
    """The same with the configurations of both runs: another seed, and ten flags are lost."""
    folder = tmp_path_factory.mktemp("configured")
    sides = [write_small_model(folder / name, scale) for name, scale in (("npu", 1.5), ("ref", 1))]
    flags = " ".join(f"--option-{number}" for number in range(10))
    packs = {}
    for side, options in (("npu", "--seed 1235"), ("bench", f"--seed 1234 {flags}")):
        script = folder / side / "run.sh"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"torchrun train.py --lr 1e-4 {options}\n", encoding="utf-8")
        packs[side] = str(script.with_suffix(".zip"))
        collect_static([script], Path(packs[side]))
    return build_database(*sides, config=packs)


@pytest.fixture(scope="session")
def large_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200,000 nodes a side, made up."""
    return generate(tmp_path_factory.mktemp("large") / "large.vis.db", "--nodes", "200000")


@pytest.fixture(scope="session")
def many_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two steps of three ranks, made up, with overflow."""
    options = ("--layers", "2", "--steps", "2", "--ranks", "3", "--overflow")
    return generate(tmp_path_factory.mktemp("ranks") / "many.vis.db", *options)


def generate(database: Path, *options: str) -> Path:
    generator = REPOSITORY / "benchmarks" / "generate_database.py"
    subprocess.run([sys.executable, str(generator), "-o", str(database), *options], check=True)
    return database


def write_small_model(directory: Path, scale: float) -> Path:
    """A model small enough to be read at once; the softmax of its last layer is scaled."""
    net, embedding = "Module.net.Net.forward.0", "Functional.embedding.0.forward"
    construct: dict[str, str | None] = {net: None, embedding: net}
    data = {net: forward([tensor(3.0)], [tensor(2.0 * scale)])}
    data[embedding] = forward([tensor(3.0)], [tensor(3.0)])
    for layer in range(4):
        module = f"Module.net.layers.{layer}.Layer.forward.0"
        linear = f"Module.net.layers.{layer}.linear.Linear.forward.0"
        calls = (f"Functional.linear.{layer}.forward", f"Functional.softmax.{layer}.forward")
        construct |= {module: net, linear: module}
        construct |= {calls[0]: linear, calls[1]: module}
        factor = scale if layer == 3 else 1.0
        for name, norm in ((calls[0], 4.0), (linear, 4.0), (calls[1], 2.0), (module, 2.0)):
            is_late = name in (calls[1], module)
            data[name] = forward([tensor(3.0)], [tensor(norm * (factor if is_late else 1.0))])
    loss = "Functional.cross_entropy.0.forward"
    construct[loss] = None
    data[loss] = forward([tensor(2.0 * scale)], [tensor(1.0 * scale, shape=(1,))])
    return write_dump(directory, data, construct)
