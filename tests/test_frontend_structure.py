"""The shape of the front end's source: folders, names, and imports that point one way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "frontend_polymer" / "src"
LONGEST_MODULE = 400

# Each folder may import from those before it; so may each folder of elements.
FOLDERS = ["generated", "data", "i18n", "layout", "canvas", "session", "elements"]
ELEMENTS = ["parts", "match", "find", "verdict", "overview", "trend", "graph", "details", "app"]

NAMELESS = {"utils", "util", "common", "helpers", "helper", "misc", "shared", "types"}
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
IMPORT = re.compile(
    r"""^\s*(?:import|export)\s[^;]*?from\s*['"]([^'"]+)['"]   # import { a } from './b'
      | ^\s*import\s*['"]([^'"]+)['"]                          # import './b'
      | \bimport\(\s*['"]([^'"]+)['"]\s*\)                     # await import('./b')
      | \bnew\s+URL\(\s*['"](\.[^'"]+)['"]                     # new URL('./b', import.meta.url)
    """,
    re.MULTILINE | re.VERBOSE,
)


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.ts") if "generated" not in path.parts)


def named(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix()


def imported(path: Path) -> Iterator[str]:
    """Names of our own modules that a module imports, at once or later, types included."""
    for groups in IMPORT.findall(path.read_text(encoding="utf-8")):
        target = next(group for group in groups if group)
        if not target.startswith("."):
            continue
        reached = (path.parent / target).resolve()
        candidates = (reached.with_name(f"{reached.name}.ts"), reached / "index.ts", reached)
        found = next((one for one in candidates if one.is_file()), None)
        if found is None and "generated" in reached.parts:
            found = reached  # made at build time
        assert found is not None, f"{named(path)} imports {target}, which is not there"
        if found.suffix != ".json":  # the wordings, which both languages of the project read
            yield named(found)


IMPORTS = {named(path): set(imported(path)) for path in modules()}
assert sum(map(len, IMPORTS.values())) > len(IMPORTS), "imports are not seen"


def place(name: str) -> tuple[int, int]:
    """Where a module stands in the order of the folders; the entry comes last."""
    folder, *rest = name.split("/")
    if not rest:
        return len(FOLDERS), 0
    return FOLDERS.index(folder), ELEMENTS.index(rest[0]) if folder == "elements" else 0


def test_imports_have_no_cycle() -> None:
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as problem:
        pytest.fail(f"imports go round: {' <- '.join(problem.args[1])}")


def test_folders_import_only_what_comes_before_them() -> None:
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if place(other) > place(name)
    ]
    assert not wrong


def test_every_module_lies_in_a_folder_of_the_order() -> None:
    loose = {name for name in IMPORTS if "/" not in name}
    assert loose == {"index"}
    assert {name.split("/")[0] for name in IMPORTS if "/" in name} <= set(FOLDERS)
    elements = {name for name in IMPORTS if name.startswith("elements/")}
    assert {name.split("/")[1] for name in elements} == set(ELEMENTS)
    assert all(name.count("/") == 2 for name in elements)


def test_every_module_is_reached_from_the_entry() -> None:
    reached: set[str] = set()
    waiting = ["index"]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += IMPORTS.get(name, ())
    assert not set(IMPORTS) - reached


@pytest.mark.parametrize("path", modules(), ids=named)
def test_a_module_is_short_and_has_a_name_that_says_what_is_in_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= LONGEST_MODULE, f"{lines} lines: is it two concepts?"
    parts = path.relative_to(SOURCE).with_suffix("").parts
    assert not set(parts) & NAMELESS
    assert all(NAME.fullmatch(part) for part in parts)


def test_an_element_lies_in_a_module_of_its_name() -> None:
    for path in modules():
        text = path.read_text(encoding="utf-8")
        defined = re.findall(r"customElements\.define\('([a-z-]+)'", text)
        assert defined == ([path.stem] if path.stem.startswith("ga-") else []), named(path)
