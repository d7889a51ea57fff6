"""The watch every browser test relies on hears what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.watch import Watch, watched_page
from tests.conftest import StartTensorBoard

ANSWERS = 100


PROVOCATIONS = {
    "console.error('spilt milk')": "console: spilt milk",
    "setTimeout(() => { throw new Error('broken') })": "page error: broken",
    "await fetch('nonsense')": "response: 404",
    "new Worker(URL.createObjectURL(new Blob(['1'])))": "policy violation: worker-src",
    "new Image().src = 'http://127.0.0.2:9/a.png'": "request to another host: 127.0.0.2",
}


def test_each_provocation_is_heard(
    context: BrowserContext, tensorboard_server: StartTensorBoard, demo_database: Path
) -> None:
    watch = watched_page(context)
    watch.page.goto(f"{tensorboard_server(demo_database.parent)}#graph_ascend")
    plugin = watch.page.frame_locator("iframe")
    expect(plugin.locator("ga-app")).to_be_visible()
    assert watch.complaints() == []
    for provocation, complaint in PROVOCATIONS.items():
        assert not _is_heard(complaint, watch)
        plugin.locator("body").evaluate(f"async () => {{ {provocation}; }}")
        # What it set off is reported while later requests are answered.
        for _ in range(ANSWERS):
            if _is_heard(complaint, watch):
                break
            plugin.locator("body").evaluate("() => fetch('catalog').then(() => undefined)")
        else:
            pytest.fail(f"not heard: {complaint}; heard: {watch.complaints()}")


def _is_heard(complaint: str, watch: Watch) -> bool:
    return any(complaint in answered for answered in watch.complaints())
