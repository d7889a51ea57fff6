"""Behind port forwarding and reverse proxies everything works, writing matches too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.proxy import Proxy, running, write_certificate
from tests.browser.viewer import open_viewer, select_node
from tests.browser.watch import watched_page
from tests.cases import tried_first
from tests.conftest import StartTensorBoard

DEBUG = "Module.model.layers.0.self_attention.q_proj.Linear.forward.0"
TLS = Path("made for the test")
PROXIES = {
    "another port": Proxy(),
    "tunnel": Proxy("tunnel.example", TLS, passes_host=False, forwards_host=True),
    "tunnel that says nothing": Proxy("tunnel.example", TLS, passes_host=False),
    "by name": Proxy("devbox.example"),
    "by name, forwarded": Proxy("devbox.example", passes_host=False, forwards_host=True),
    "below a path": Proxy("hub.example", prefix="/user/ada/proxy/6006"),
}


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that takes a certificate nobody has signed."""
    context = browser.new_context(ignore_https_errors=True, locale="en-US")
    context.set_default_timeout(30_000)
    yield context
    context.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "certificate.pem")


@pytest.mark.slow
@pytest.mark.parametrize("name", tried_first(PROXIES))
def test_everything_works_behind(
    name: str,
    context: BrowserContext,
    renamed_database: Path,
    certificate: Path,
    tensorboard_server: StartTensorBoard,
) -> None:
    proxy = PROXIES[name]
    if proxy.certificate is TLS:
        proxy = replace(proxy, certificate=certificate)
    with running(proxy, tensorboard_server(renamed_database.parent)) as address:
        watch = watched_page(context)
        frame = open_viewer(watch.page, address, in_tab=True)
        select_node(frame, DEBUG)
        frame.locator("ga-details #match").click()
        frame.locator("ga-match .candidates input").first.click()
        frame.locator("ga-match #preview li").first.wait_for()
        frame.click("ga-match #apply")
        expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
        frame.click("ga-match #undo")
        expect(frame.locator("ga-node-summary .grade")).to_have_text("Unmatched")
        # TensorBoard asks for its own fonts without the path in front.
        assert [said for said in watch.complaints() if "/font-roboto/" not in said] == []


@pytest.mark.slow
def test_a_proxy_that_hides_who_asks_is_named_as_the_cause(
    context: BrowserContext, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    """Without TLS the browser does not say whether the page is our own, so the host must."""
    proxy = Proxy("devbox.example", passes_host=False)
    before = renamed_database.read_bytes()
    with running(proxy, tensorboard_server(renamed_database.parent)) as address:
        frame = open_viewer(watched_page(context).page, address, in_tab=True)
        select_node(frame, DEBUG)
        frame.locator("ga-details #match").click()
        frame.locator("ga-match .candidates input").first.click()
        expect(frame.locator("ga-match #outcome")).to_contain_text("must pass the Host header")
    assert renamed_database.read_bytes() == before
