"""Damage that SQLite reads past: no command answers from a part of a file as if it were all.

Each command tells the same of a damaged file as of the whole one, or ends with a sentence.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from tests.builder.integrity import is_one_sentence

PAGE = 4096
EVERYTHING = "SELECT * FROM tensor_view JOIN node_view USING (node_id)"
COMMANDS = {
    "verdict": "verdict {file}",
    "verdict as JSON": "verdict {file} --json",
    "report": "report {file} -o {out}/report.html",
    "export": "export {file} -o {out}/nodes.csv",
    "export of tensors": "export {file} --table tensors -o {out}/tensors.csv",
    "table": "table {file} -o {out} --format csv --no-advice --quiet",
    "table of ranks": "table {file} -o {out} --ranks --quiet",
    "page": "page {file} -o {out}/page.html",
    "count": "query {file} SELECT_COUNT --json",
    "query": "query {file} EVERYTHING --csv",
}
Told = tuple[int, str, str, list[str]]
Tell = Callable[[str, bytes], Told]


def overwritten(whole: bytes, page: int) -> bytes:
    return whole[: page * PAGE] + b"\xaa" * PAGE + whole[(page + 1) * PAGE :]


def zeroed(whole: bytes, page: int) -> bytes:
    return whole[: page * PAGE] + bytes(PAGE) + whole[(page + 1) * PAGE :]


def without_cells(whole: bytes, page: int) -> bytes:
    """Half of the cells that a page says it has."""
    place = page * PAGE + 3
    cells = int.from_bytes(whole[place : place + 2], "big") // 2
    return whole[:place] + cells.to_bytes(2, "big") + whole[place + 2 :]


def replaced(whole: bytes, page: int) -> bytes:
    """Another page of the same file in its place, as a torn copy leaves it."""
    other = (page * 7 + 3) % (len(whole) // PAGE - 1) + 1
    return whole[: page * PAGE] + whole[other * PAGE :][:PAGE] + whole[(page + 1) * PAGE :]


def cut_off(whole: bytes, page: int) -> bytes:
    """Its end is missing and the header knows of it: no look at the size tells."""
    pages = max(page, 2)
    return whole[:28] + pages.to_bytes(4, "big") + whole[32 : pages * PAGE]


KINDS = (overwritten, zeroed, without_cells, replaced, cut_off)


@pytest.fixture
def tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tell:
    """Status, what was printed and written, errors, and left files of a command on a content."""

    def run(name: str, content: bytes) -> Told:
        file, out = tmp_path / "x.vis.db", tmp_path / "out"
        file.write_bytes(content)
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        words = COMMANDS[name].format(file=file, out=out).split()
        asked = {"SELECT_COUNT": "SELECT count(*) AS nodes FROM node", "EVERYTHING": EVERYTHING}
        status = main([asked.get(word, word) for word in words])
        said = capsys.readouterr()
        files = sorted(path for path in out.rglob("*") if path.is_file())
        written = b"".join(path.read_bytes() for path in files if path.suffix != ".xlsx")
        content_told = said.out + re.sub(r"\d{14}", "", written.decode("utf-8", "replace"))
        return status, content_told, said.err, [path.name for path in files]

    return run


def places(whole: bytes) -> Iterator[int]:
    """Pages all over the file, but its description of itself."""
    yield from range(5, len(whole) // PAGE, 13)


@pytest.mark.parametrize("name", [one for one in COMMANDS if one != "page"])
def test_no_command_tells_a_part_as_all(name: str, demo_database: Path, tell: Tell) -> None:
    whole = demo_database.read_bytes()
    of_whole = tell(name, whole)
    assert of_whole[0] == 0
    refused = 0
    for number, page in enumerate(places(whole)):
        kind = KINDS[number % len(KINDS)]
        status, told, error, files = tell(name, kind(whole, page))
        if status == 0:
            assert told == of_whole[1], (kind.__name__, page)
            continue
        refused += 1
        assert (status, told, files) == (1, "", []), (kind.__name__, page)
        assert is_one_sentence(error.strip()), error
        assert "x.vis.db" in error
        assert "uild it again" in error or "Copy it again" in error
    assert refused


def test_a_page_is_of_all_or_not_at_all(demo_database: Path, tell: Tell) -> None:
    """What it shows lies packed in it, so only whether there is one is looked at."""
    whole = demo_database.read_bytes()
    with closing(sqlite3.connect(demo_database)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name IN ('tensor', 'comparison', 'node')"
        roots = [page for (page,) in connection.execute(query)]
    for root in roots:
        status, told, error, files = tell("page", without_cells(whole, root - 1))
        assert (status, told, files) == (1, "", []), root
        assert "is damaged" in error


@pytest.mark.parametrize("name", ["verdict", "report", "export", "table", "page", "query", "count"])
def test_an_index_that_lost_rows_is_told(
    name: str, demo_database: Path, tell: Tell, tmp_path: Path
) -> None:
    """Rows that an index does not know are not found by those who ask through it."""
    content = with_an_empty_index(demo_database, tmp_path / "indexed.vis.db")
    status, told, error, files = tell(name, content)
    assert (status, told, files) == (1, "", [])
    assert "x.vis.db is damaged: table node is not whole" in error


def with_an_empty_index(whole: Path, copy: Path) -> bytes:
    """It was made of no node, and then is said to be of all."""
    shutil.copy(whole, copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("CREATE INDEX node_graph ON node (graph_id) WHERE graph_id < 0")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = 'CREATE INDEX node_graph ON node (graph_id)'"
            " WHERE name = 'node_graph'"
        )
        connection.commit()
    return copy.read_bytes()
