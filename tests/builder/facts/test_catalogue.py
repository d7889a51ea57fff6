"""Each fact that the source makes has a wording in each language, and each wording a maker."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from msprobe_builder.facts.wording import FORMS, LANGUAGES, PLACE, catalogue
from tests.conftest import REPOSITORY

PACKAGES = (
    *("msprobe_builder", "msprobe_operators", "msprobe_checks", "msprobe_bisect"),
    *("msprobe_collector", "tb_graph_ascend"),
)
# Functions whose first argument is a code and whose keywords are its arguments.
MAKERS = {"fact"}
OF_LISTS = {code for code in catalogue("en") if code.startswith("list.")}


def made(path: Path) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Codes that a module makes, with their arguments, and whether more may follow (``**``)."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in MAKERS:
            continue
        names = frozenset(one.arg for one in node.keywords if one.arg)
        for code in codes(node.args[0], path):
            yield code, names, any(one.arg is None for one in node.keywords)


def codes(node: ast.expr, path: Path) -> Iterator[str]:
    """What a code can be: a literal, one of two, or a name that is given such a value nearby."""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.IfExp):
        yield from codes(node.body, path)
        yield from codes(node.orelse, path)
    elif isinstance(node, ast.Name):
        values = [
            one.value
            for one in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") == node.id
        ]
        assert values, f"{path}: which code is {node.id}?"
        for value in values:
            yield from codes(value, path)
    else:
        pytest.fail(f"{path}:{node.lineno}: a code is a literal")


# What a side is, told beside its name.
ROLES = {"report.debug", "report.reference", "report.reference_run"}
# What these say no file holds, so that the viewer does without its wordings.
PRINTING = (
    *("msprobe_builder/command/", "msprobe_builder/tables/", "msprobe_builder/export/report"),
    *("msprobe_builder/export/verdict.py", "msprobe_builder/export/configuration.py"),
    "msprobe_builder/export/weighed.py",
    "msprobe_builder/export/layer_mapping.py",
    *("msprobe_builder/database/findings.py", "msprobe_checks/", "tb_graph_ascend/page/"),
    *("msprobe_operators/command.py", "msprobe_operators/more_commands.py"),
    "msprobe_operators/replay_command.py",
    *("msprobe_operators/build_command.py", "msprobe_operators/report/", "msprobe_bisect/"),
    "msprobe_collector/",
)


def all_made() -> dict[str, set[tuple[frozenset[str], bool]]]:
    found: dict[str, set[tuple[frozenset[str], bool]]] = {}
    for package in PACKAGES:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for code, names, is_open in made(path):
                found.setdefault(code, set()).add((names, is_open))
    return found


def places(wording: str) -> set[str]:
    """The arguments that a wording has places for."""
    return {place[1] for place in PLACE.finditer(wording) if not place[1].startswith("@")}


SIDES = {"@this_run", "@the_reference", "@side.npu", "@side.bench"}


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", r"the reference\b|\bthe debug (run|side)"), ("zh", "标杆|调试侧")],
)
def test_wordings_speak_of_a_side_by_its_name(language: str, words: str) -> None:
    wordings = catalogue(language)
    used = {place[1] for one in wordings.values() for place in PLACE.finditer(one)}
    assert {one for one in used if one.startswith("@")} == SIDES
    by_word = {code for code, wording in wordings.items() if re.search(words, wording, re.I)}
    others = {code for code in by_word if not code.startswith("operator.")}  # that is a CPU's
    assert others <= {one[1:] for one in SIDES} | ROLES


def test_each_fact_has_a_wording_with_its_arguments_and_each_wording_a_maker() -> None:
    wordings, known = catalogue("en"), all_made()
    assert wordings.keys() - OF_LISTS == known.keys()
    for code, makers in known.items():
        for names, is_open in makers:
            assert names <= places(wordings[code]), f"{code} does not say all it is told"
            assert is_open or places(wordings[code]) <= names, f"{code} is not told all it says"


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_files_may_hold_is_worded_where_the_viewer_finds_it(language: str) -> None:
    folder = REPOSITORY / "msprobe_builder" / "facts" / "catalogue"
    printed = json.loads((folder / f"printed.{language}.json").read_text("utf-8"))
    modules = [path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py")]
    held = {
        code
        for path in modules
        if not str(path.relative_to(REPOSITORY)).startswith(PRINTING)
        for code, *_ in made(path)
    }
    assert not held & printed.keys()
    assert not printed.keys() & json.loads((folder / f"{language}.json").read_text("utf-8")).keys()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_languages_say_the_same(language: str) -> None:
    english, wordings = catalogue("en"), catalogue(language)
    assert list(wordings) == list(english)
    for code, wording in wordings.items():
        # A language without plurals need not tell how many there are twice.
        plural = {place[1] for place in PLACE.finditer(english[code]) if place[3] is not None}
        assert places(english[code]) - plural <= places(wording) <= places(english[code]), code
        assert wording or code == "list.sentences", code


@pytest.mark.parametrize("language", LANGUAGES)
def test_wordings_have_known_places_and_forms_alone(language: str) -> None:
    for code, wording in catalogue(language).items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)*", code)
        assert not re.search(r"[{}]", PLACE.sub("", wording)), code
        forms = {place[2] for place in PLACE.finditer(wording)} - {None}
        assert forms <= set(FORMS), code
        assert "code" not in places(wording)


def test_chinese_is_not_left_in_english() -> None:
    english = catalogue("en")
    for code, wording in catalogue("zh").items():
        bare = PLACE.sub("", wording)
        assert not re.search(r"[a-z]{3}", bare) or wording != english[code], code
