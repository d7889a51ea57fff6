"""What MkDocs is told beside mkdocs.yml: pages outside of docs/, both languages, and their search.

Pages outside are taken into the site under their own paths; of sources only the names stay.
"""

from __future__ import annotations

import json
import posixpath
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).resolve().parent.parent
_PAGES = ("benchmarks/results/*.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
_LEFT_OUT = {"testing.md"}
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]*)(#[^)]*)?\)")
_HAN = re.compile(r"[\u4e00-\u9fff]{2,}")


def outside() -> list[str]:
    """Pages outside of docs/, by their paths in the repository and in the site."""
    paths = [path for pattern in _PAGES for path in sorted(REPOSITORY.glob(pattern))]
    return [path.relative_to(REPOSITORY).as_posix() for path in paths]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Anchors are those that GitHub makes of headings."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = _anchor
    return config


def _anchor(heading: str, separator: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Take in the pages that documents lead to; the navigation does not name them."""
    for name in outside():
        content = (REPOSITORY / name).read_text(encoding="utf-8")
        files.append(
            File.generated(config, name, content=content, inclusion=InclusionLevel.NOT_IN_NAV)
        )
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Let links lead to where their targets lie in the site."""
    known = set(outside())
    place = page.file.src_uri
    file = place if place in known else f"docs/{place}"

    def led(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if not target or ":" in target:
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        there = path.removeprefix("docs/")
        if (there == path and path not in known) or there in _LEFT_OUT:
            return text
        return f"[{text}]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{anchor})"

    return _LINK.sub(led, markdown)


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Say which language a page is in."""
    is_chinese = page.file.src_uri.endswith(".zh.md")
    return output.replace('lang="en"', 'lang="zh"', 1) if is_chinese else output


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Let Chinese be found: its words have no spaces between them, so the index holds pairs."""
    path = Path(config.site_dir) / "search" / "search_index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    for page in index["docs"]:  # behind the text, of which the beginning is shown
        pairs = _pairs(f"{page['title']} {page['text']}")
        page["text"] = " ".join([page["text"], *sorted(pairs)])
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def _pairs(text: str) -> set[str]:
    return {"".join(pair) for run in _HAN.findall(text) for pair in pairwise(run)}
