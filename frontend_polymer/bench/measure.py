"""Measures the hierarchy in headless Chromium and prints JSON.

Usage: python bench/measure.py [QUERY] with Playwright installed, from frontend_polymer/.
QUERY describes the made-up model, by default about 180,000 nodes a side.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

from playwright.sync_api import sync_playwright

DEFAULT_QUERY = "layers=475&steps=5&wide=10000"


def main() -> None:
    query = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_QUERY
    # Not through npx, which would leave the server running when it is ended.
    vite = ["node", "node_modules/vite/bin/vite.js", "--host", "127.0.0.1", "--port", "0"]
    server = subprocess.Popen(vite, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(
            found[0] for line in server.stdout if (found := re.search(r"http://\S+", line))
        )
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(f"{address}bench/index.html?{query}")
            page.wait_for_function("typeof measure === 'function'", timeout=120_000)
            print(json.dumps(page.evaluate("measure()"), indent=2))
            browser.close()
    finally:
        server.terminate()


if __name__ == "__main__":
    main()
