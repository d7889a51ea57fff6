"""Guides in English and Chinese say the same: headings, commands, tables, links both ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
CHINESE = sorted(DOCS.glob("*.zh.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
HAN = re.compile(r"[\u4e00-\u9fff]")


def english(path: Path) -> Path:
    """The English guide beside a Chinese one."""
    return path.with_name(path.name.replace(".zh.md", ".md"))


def prose(text: str) -> str:
    """Without what stands in fences."""
    return FENCE.sub("", text)


def tables(text: str) -> list[list[list[str]]]:
    """Every table as rows of cells, headers included."""
    found: list[list[list[str]]] = []
    inside = False
    for line in prose(text).splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        found[-1].append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: path.stem)
def test_a_guide_is_the_same_in_both_languages(path: Path) -> None:
    here, there = (one.read_text(encoding="utf-8") for one in (path, english(path)))
    assert f"[English]({english(path).name})" in here
    assert f"[中文]({path.name})" in there
    assert HEADING.findall(prose(here)) == HEADING.findall(prose(there)), "headings"
    assert commands(here) == commands(there), "commands"
    assert [shape(one) for one in tables(here)] == [shape(one) for one in tables(there)], "tables"


def commands(text: str) -> list[tuple[str, str]]:
    """What stands in fences and is the same in any language: all but comments."""
    return [
        (word, "\n".join(re.sub(r"\s*#.*", "", line) for line in body.splitlines()))
        for word, body in FENCE.findall(text)
    ]


def shape(table: list[list[str]]) -> list[tuple[int, list[str]]]:
    """Number of cells of each row, and the code in its first cell, in whatever order words have."""
    return [(len(row), sorted(CODE.findall(row[0]))) for row in table]


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: path.stem)
def test_headings_are_in_chinese(path: Path) -> None:
    for line in prose(path.read_text(encoding="utf-8")).splitlines():
        if line.startswith("#"):
            plain = re.sub(r"\w+\.\w+", "", CODE.sub("", line.lstrip("# ")))  # names of files
            assert HAN.search(line) or not re.search(r"[a-z]{3}", plain), line
