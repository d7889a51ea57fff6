"""Take the README's pictures: the demo with its first wrong operator selected, light and dark."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, sync_playwright

from serve import tensorboard

SEARCHED = "__mul__.19.forward"
NODE = "Tensor.__mul__.19.forward"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def picture(browser: Browser, address: str, scheme: Literal["light", "dark"], path: Path) -> None:
    page = browser.new_page(
        viewport={"width": 1440, "height": 900}, locale="en-US", color_scheme=scheme
    )
    page.goto(address)
    frame = page.frame_locator("iframe")
    search = frame.locator("ga-search input[type=search]")
    search.fill(SEARCHED)
    search.press("Enter")
    frame.locator("ga-details").get_by_text(NODE).first.wait_for()
    search.blur()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)
    page.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logdir", required=True)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    with tensorboard(options.logdir, None) as (address, _), sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=os.environ["CHROMIUM"], args=["--disable-gpu", *sandbox]
        )
        for scheme in SCHEMES:
            picture(browser, address, scheme, options.out / f"demo-{scheme}.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
