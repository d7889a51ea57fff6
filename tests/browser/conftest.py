"""A page in Chromium that fails its test on anything a user's console would complain about."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, Response, sync_playwright

from tests.conftest import REPOSITORY

CHROMIUM_OPTIONS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REPORT_POLICY_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy violation: ${event.violatedDirective} blocked ${event.blockedURI}`);
});
"""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = subprocess.run(
        [str(REPOSITORY / "scripts" / "find_chromium")], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.fail(found.stderr.strip())
    as_root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.stdout.strip(), args=[*CHROMIUM_OPTIONS, *as_root]
        )
        yield browser
        browser.close()


@pytest.fixture
def expected_complaints() -> list[str]:
    """Regular expressions of the complaints a test provokes on purpose; it appends its own."""
    return []


@pytest.fixture
def page(browser: Browser, expected_complaints: list[str]) -> Iterator[Page]:
    """A fresh page, 1440 by 900, in English and light until the test says otherwise."""
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, locale="en-US", color_scheme="light"
    )
    context.set_default_timeout(30_000)
    context.add_init_script(REPORT_POLICY_VIOLATIONS)
    page = context.new_page()
    complaints: list[str] = []
    hosts: set[str] = set()

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob", "about"):
            hosts.add(address.netloc)

    def on_response(response: Response) -> None:
        if response.status >= 400:
            complaints.append(f"response: {response.status} {response.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(f"page error: {error}"))
    page.on("request", on_request)
    page.on("response", on_response)
    yield page
    own_host = urlsplit(page.url).netloc
    context.close()
    complaints += [f"request to another host: {host}" for host in hosts if host != own_host]
    unexpected = [
        complaint
        for complaint in complaints
        if not any(re.search(pattern, complaint) for pattern in expected_complaints)
    ]
    assert not unexpected, "\n".join(unexpected)
