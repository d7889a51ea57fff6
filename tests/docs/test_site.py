"""The documentation as a site: every link leads somewhere, and nothing comes from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.conftest import REPOSITORY
from tests.sharing import make_once, shared_folder

OUTSIDE = re.compile(r"(?:https?:)?//|mailto:|#|data:")


class Page(HTMLParser):
    """Where a page leads to, what it loads, and what may be led to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.language = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.anchors.add(known.get("id") or known.get("name") or "")
        if tag == "html":
            self.language = known.get("lang") or ""
        if tag == "a":
            self.links.append(known.get("href") or "")
        elif tag in ("link", "script", "img", "iframe"):
            self.loaded.append(known.get("href") or known.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make docs`` makes; a link that leads nowhere would end it."""

    def build(folder: Path) -> None:
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not done.stderr

    return make_once(shared_folder(tmp_path_factory) / "site", build)


def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_document_is_a_page(site: Path) -> None:
    documents = {
        path.relative_to(REPOSITORY / "docs").with_suffix(".html")
        for path in (REPOSITORY / "docs").rglob("*.md")
        if path.name != "testing.md"
    }
    made = {path.relative_to(site) for path in site.rglob("*.html")}
    assert documents <= made
    benchmarks = {path for path in made if path.parts[0] == "benchmarks"}
    assert len(benchmarks) > 5


def test_links_lead_to_pages_and_headings_that_are_there(site: Path) -> None:
    found = pages(site)
    broken = []
    for path, page in found.items():
        if path.name == "404.html":
            continue
        for link in (*page.links, *page.loaded):
            target, _, anchor = unquote(link).partition("#")
            target = target.partition("?")[0]
            if OUTSIDE.match(link) or link in ("", "."):
                continue
            there = (path.parent / target).resolve()
            is_there = there.is_file() or (there / "index.html").is_file()
            if not is_there or (anchor and there in found and anchor not in found[there].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path, page in pages(site).items():
        assert not [one for one in page.loaded if OUTSIDE.match(one) and one[0] != "#"], path
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//", style.read_text(encoding="utf-8"))


def test_pages_say_their_language_and_both_are_found(site: Path) -> None:
    for path, page in pages(site).items():
        assert page.language == ("zh" if path.name.endswith(".zh.html") else "en"), path
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert index["config"]["lang"] == ["en", "zh"]
    words = {one["location"]: set(one["text"].split()) for one in index["docs"]}
    assert {"手动", "动匹", "匹配"} <= words["matching-by-hand.zh.html"]  # as search.js asks
    assert "hand" in words["matching-by-hand.html"]
