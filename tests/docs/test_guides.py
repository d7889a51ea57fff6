"""Guides are short, in plain sentences, without history, in both languages, and true to type.

What a guide is: every page directly below ``docs/`` but that of the tests, and the READMEs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from msprobe_bisect.command import parser as bisect_parser
from msprobe_builder.command.documented import translated
from msprobe_builder.command.frame import parser_of
from msprobe_builder.command.main import COMMANDS, OTHERS, find_command
from msprobe_collector.run.options import parser as run_parser
from msprobe_operators.command import _parser as operators_parser
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
GUIDES = [
    *sorted(path for path in DOCS.glob("*.md") if path.name != "testing.md"),
    REPOSITORY / "README.md",
    REPOSITORY / "README.zh.md",
]
DESIGN = sorted((DOCS / "design").glob("*.md"))
CHINESE = [path for path in GUIDES if path.name.endswith(".zh.md")]
ENGLISH = [path for path in GUIDES if path not in CHINESE]

MOST_WORDS = 1000  # two pages, tables included
MOST_SENTENCE = 40
MOST_HAN = 1500
MOST_HAN_SENTENCE = 90
MOST_README_LINES = 120
MOST_GROUP_WORDS = 120  # of the changelog

OWN = {"msprobe-run": run_parser, "msprobe-bisect": bisect_parser}  # commands of one word
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
HAN = re.compile(r"[\u4e00-\u9fff]")
ADDRESSES = {"data/plugin/graph_ascend/", "assets/"}  # of the plugin, no folders
# How it came about belongs into git.
DIARY = (
    r"\bsince (then|that|the|it|these|this)\b|, since\b|\bsince\.",
    r"\b(formerly|previously|nowadays|used to be|at first|no longer)\b",
    r"\b(tried|trials? (showed|brought)|scored|we)\b",
    r"\b(twenty|thir|four|fif|six|seven|eigh|nine)\w*(th|first|second) part\b",
    r"\b(January|February|March|April|June|July|August|September|October|November|December) 20",
    r"\b20[12]\d\b",
    r"\bbusy\b|\bmachine [AB]\b",
    r"第.{1,4}集|曾经|试过|原先|不再|20[12]\d ?年",
)


def prose(path: Path) -> str:
    """Without what stands in fences."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def units(text: str) -> Iterator[str]:
    """Paragraphs, items of lists and cells of tables, each as one line."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        line = line.strip()
        is_item = re.match(r"([-*]|\d+\.) ", line)
        if (not line or line[0] in "#|" or is_item) and lines:
            yield " ".join(lines)
            lines = []
        if line.startswith("|"):
            yield from (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        elif line and not line.startswith("#"):
            lines.append(line)


def sentences(text: str) -> Iterator[str]:
    for unit in units(text):
        yield from re.split(
            r"(?<=[.!?])[)*_`]*\s+|(?<=[。！？])", re.sub(r"\]\([^)]*\)", "]", unit)
        )


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.stem)
def test_a_guide_has_two_pages_at_most(path: Path) -> None:
    assert len(prose(path).split()) <= MOST_WORDS


@pytest.mark.parametrize("path", CHINESE, ids=lambda path: path.stem)
def test_a_chinese_guide_has_two_pages_at_most(path: Path) -> None:
    assert len(HAN.findall(prose(path))) <= MOST_HAN


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_sentences_of_guides_are_short(path: Path) -> None:
    long = [
        sentence
        for sentence in sentences(prose(path))
        if len(sentence.split()) > MOST_SENTENCE or len(HAN.findall(sentence)) > MOST_HAN_SENTENCE
    ]
    assert not long


@pytest.mark.parametrize("path", [*GUIDES, *DESIGN], ids=lambda path: path.stem)
def test_a_document_says_what_is_not_how_it_came_about(path: Path) -> None:
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(path))
    found = [match[0] for pattern in DIARY for match in re.finditer(pattern, text)]
    assert not found


def test_guides_are_there_in_both_languages_and_design_in_english() -> None:
    english = {path.relative_to(REPOSITORY).with_suffix("") for path in ENGLISH}
    chinese = {path.relative_to(REPOSITORY).with_suffix("").with_suffix("") for path in CHINESE}
    assert english == chinese
    assert not [path for path in DESIGN if ".zh" in path.name]


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_readme_is_short(name: str) -> None:
    assert len((REPOSITORY / name).read_text("utf-8").splitlines()) <= MOST_README_LINES


def test_a_change_is_one_sentence_and_groups_are_short() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert not [line for line in text.splitlines() if line.startswith("  ")]  # one line each
    for group in re.split(r"^#{3,4} ", text, flags=re.MULTILINE)[1:]:
        assert len(group.split()) <= MOST_GROUP_WORDS, group
        for line in group.splitlines():
            assert len(line.split()) <= MOST_SENTENCE, line
            assert not re.search(r"\. [A-Z]", line), line


def programs(text: str) -> Iterator[list[str]]:
    """Commands of ours in fences as words, without marks of what may be left out."""
    for fence in FENCE.finditer(text):
        for line in fence[0].splitlines()[1:]:
            for command in re.split(r"&&|\||&$|#", line):
                plain = re.sub(r"[\[\]]", "", command.strip().removeprefix("exec "))
                if plain.partition(" ")[0] in {"msprobe-build", "msprobe-operators", *OWN}:
                    yield shlex.split(plain)


def parser_for(words: list[str]) -> tuple[argparse.ArgumentParser, list[str]]:
    """Who reads these words, and what is given to it."""
    if words[0] == "msprobe-operators":
        return operators_parser(), words[1:]
    if words[0] in OWN:
        return OWN[words[0]](), words[1:]
    with ExitStack() as stack:
        given = translated(words[1:], stack)
    word = given[0] if given[0] in command_words() else None  # else options or folders
    return parser_of(find_command(word), word or ""), given[word is not None :]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_commands_in_fences_are_understood(path: Path) -> None:
    for words in programs(path.read_text(encoding="utf-8")):
        parser, given = parser_for(words)
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parser.parse_args(given)
        except SystemExit:
            pytest.fail(f"{shlex.join(words)}: {said.getvalue()}")


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from options_of(below)


def command_words() -> set[str]:
    return {*COMMANDS, *(entry.name for entry in entry_points(group=OTHERS))}


@pytest.fixture(scope="module")
def known_options() -> set[str]:
    parsers = [parser_of(find_command(word), word) for word in command_words()]
    parsers += [
        parser_of(find_command(None), ""),
        operators_parser(),
        *(one() for one in OWN.values()),
    ]
    of_others = {"--", "--logdir", "--path_prefix", "--bind_all", "--port", "--fault"}
    return of_others.union(*(options_of(one) for one in parsers))


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_commands_and_options_in_the_text_exist(path: Path, known_options: set[str]) -> None:
    for code in re.findall(r"`([^`\n]+)`", prose(path)):
        words = code.split()
        if words[0] == "msprobe-build" and len(words) > 1 and words[1][0] not in "-…":
            with ExitStack() as stack:  # those of msprobe become ours
                given = translated(words[1:], stack)
            assert given[0].startswith("-") or given[0] in command_words(), code
        options = {re.split(r"[=\[,]", word)[0] for word in words if word.startswith("--")}
        assert options <= known_options, code


@pytest.fixture(scope="module")
def places() -> set[str]:
    """Files and folders of the repository, and every end of their paths."""
    whole = set()
    for folder, folders, files in os.walk(REPOSITORY):
        folders[:] = [name for name in folders if name[0] != "." and name != "node_modules"]
        inside = Path(folder).relative_to(REPOSITORY)
        whole |= {str(inside / name) for name in files} | {f"{inside / name}/" for name in folders}
    return {path[start:] for path in whole for start in (0, *ends(path))}


def ends(path: str) -> list[int]:
    return [found.end() for found in re.finditer("/(?=.)", path)]


@pytest.mark.parametrize(
    "path", [*DESIGN, REPOSITORY / "CONTRIBUTING.md"], ids=lambda path: path.stem
)
def test_places_in_the_code_exist(path: Path, places: set[str]) -> None:
    codes = re.findall(r"`([^`\n]+)`", prose(path))
    place = re.compile(r"[\w./-]+\.(py|ts|sql|proto|tsv)|[\w-]+(/[\w-]+)*/")
    named = [code for code in codes if place.fullmatch(code)]
    assert not [code for code in named if code not in places | ADDRESSES]
