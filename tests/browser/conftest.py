"""A page in Chromium that fails its test on anything a user's console would complain about."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import node
from tests.browser.watch import watched_page
from tests.conftest import REPOSITORY

CHROMIUM_OPTIONS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# TensorBoard asks for its own fonts without the path prefix.
FAULTS_OF_TENSORBOARD = (r"/font-roboto/",)


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


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """1440 by 900, in English and light until the test says otherwise."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, locale="en-US", color_scheme="light"
    )
    context.set_default_timeout(30_000)
    yield context
    context.close()


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
