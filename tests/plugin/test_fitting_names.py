"""An expression finds what it finds name by name, however few names it is tried on."""

from __future__ import annotations

import itertools
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.database.read.fitting import SEPARATOR, digits_alike, packed_nodes
from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.search import SEVERITY, Search, search
from msprobe_builder.database.write.packed import write_packed_columns
from tests.conftest import BuildDatabase

EXPRESSIONS = (
    "linear",
    "LINEAR",
    r"\.1\.forward$",
    r"\.\d\.",
    r"\.\d{3}\.",
    r"[0-9]{5}",
    r"[0-9]+\.backward",
    r"\[0-9]|linear\.1",
    r"[[0-9]{4}",
    r"[2-5]{4}",
    r"[^2-5]{3}$",
    r"[!-5]{4}\.",
    r"[.-4]{5}",
    r"[5-~]{6}",
    r"[7-\]]{4}",
    r"(\d)\1\1",
    r"(?P<one>\d)(?P=one)(?P=one)",
    r"\x31\x30",
    r"\u0031\.forward",
    r"\N{DIGIT SEVEN}{2}",
    r"\067{2}",
    r"(?<=1)2",
    r"(?<!9)9(?!9)\d$",
    r"(1)?(?(1)23|45)",
    r"(?x) 1 2 # 3",
    r"(?i:L)ayers\.[01]\..*\.\d*7$",
    r"^Module\.model\.layers\.\d+\.mlp.*forward\.\d{2,4}$",
    r"^[^0]*$",
    r"^\D*$",
    r"^\D*\d\D*\d+\D*$",
    r"\b12",
    r"1.*2.*3.*4",
    r"0|1|2|3|4|5|6|7|8|9",
    r"layers.1|99",
    r"^.{20,31}$",
    r".*\.(\d+)\.forward$",
    r"[\d]{5}|[\w]{40}",
    r"-",
    r"$",
    r"nowhere",
)


@pytest.fixture(scope="module")
def connection(
    dumps: Path, build_database: BuildDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[sqlite3.Connection]:
    """A real pair whose calls have numbers of all lengths, its columns packed."""
    path = tmp_path_factory.mktemp("numbered") / "numbered.vis.db"
    built = build_database(
        dumps / "llama_statistics_wrong_attention_scale" / "step0" / "rank",
        dumps / "llama_statistics_L0" / "step0" / "rank",
    )
    shutil.copyfile(built, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE node SET call = node_id * 7919 % 19997 >> (node_id % 5 * 3)"
            " WHERE direction != 0 AND node_id % 11"
        )
        connection.execute("UPDATE node SET direction = 0 WHERE kind = 1 AND node_id % 29 = 0")
        connection.commit()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msprobe_builder.database.write.packed.LARGE_GRAPH", 1)
        write_packed_columns(path)
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def changes(connection: sqlite3.Connection) -> int:
    [[value]] = connection.execute("SELECT value FROM meta WHERE key = 'packed_at'")
    return int(value)


def find_names(pattern: str, names: str) -> list[int]:
    """As the process for it does, without starting one each time."""
    search = re.compile(pattern, re.IGNORECASE).search
    return [place for place, name in enumerate(names.split(SEPARATOR)) if search(name)]


def plainly(connection: sqlite3.Connection, pattern: str, condition: str = "1") -> list[str]:
    names = connection.execute(
        f"SELECT name FROM node_view WHERE {condition} ORDER BY side DESC, seq"
    )
    return [name for (name,) in names if re.search(pattern, name, re.IGNORECASE)]


@pytest.mark.parametrize("pattern", EXPRESSIONS)
@pytest.mark.filterwarnings("ignore::FutureWarning")  # as below
def test_the_same_is_found_name_by_name(connection: sqlite3.Connection, pattern: str) -> None:
    assert packed_nodes(connection, read_graphs(connection), changes(connection))
    expected = plainly(connection, pattern)
    wanted = Search(name=pattern, regex=True, limit=10_000)
    for state in (changes(connection), None):
        hits, total = search(connection, wanted, find_names, state)
        assert [hit.name for hit in hits] == expected
        assert total == len(expected)


@pytest.mark.parametrize(
    ("conditions", "condition"),
    [
        ({"side": 1}, "side = 'bench'"),
        ({"side": 0, "step": 0}, "side = 'npu'"),
        ({"grades": (5, 6)}, "grade IN ('severe', 'unmatched')"),
        ({"reasons": ("no_such_name",)}, "unmatched_reason = 'no_such_name'"),
        ({"direction": 2}, "name LIKE '%.backward%'"),
        (
            {"texts": {"dtype": "int64"}},
            "node_id IN (SELECT node_id FROM tensor_view WHERE dtype = 'torch.int64')",
        ),
        ({"rank": 7}, "0"),
    ],
    ids=str,
)
def test_other_conditions_hold_as_well(
    connection: sqlite3.Connection, conditions: dict[str, object], condition: str
) -> None:
    pattern = r"\d*[15]\b"
    wanted = Search(name=pattern, regex=True, limit=10_000, **conditions)  # type: ignore[arg-type]
    hits, total = search(connection, wanted, find_names, changes(connection))
    assert [hit.name for hit in hits] == plainly(connection, pattern, condition)
    assert total == len(hits)


def test_hits_by_severity_are_the_same(connection: sqlite3.Connection) -> None:
    wanted = Search(name="linear", regex=True, order=SEVERITY, limit=10_000)
    packed = search(connection, wanted, find_names, changes(connection))
    assert packed == search(connection, wanted, find_names)
    assert sorted(hit.name for hit in packed[0]) == sorted(plainly(connection, "linear"))


def test_few_names_stand_for_many(connection: sqlite3.Connection) -> None:
    """What is told of a name with one number is told of all numbers as long."""
    tried = []

    def counting(pattern: str, names: str) -> list[int]:
        tried.append(names.count(SEPARATOR) + 1)
        return find_names(pattern, names)

    for pattern in ("linear", "linear.*1", r"(\d)\1"):
        search(connection, Search(name=pattern, regex=True), counting)
    stems_and_lengths = connection.execute(
        "SELECT count(*) FROM (SELECT DISTINCT stem_id, kind = 1, direction,"
        " iif(direction, length(ifnull(call, 0)), 0) FROM node)"
    ).fetchone()
    names = connection.execute("SELECT count(DISTINCT name) FROM node_view").fetchone()
    assert (tried[0], tried[2]) == (*stems_and_lengths, *names)
    assert tried[0] < tried[1] < tried[2]


@pytest.mark.parametrize(
    "form",
    [
        "{0}",
        "[{0}-{1}]",
        "[^{0}-{1}]{{2}}",
        "[{0}{1}]+[0-9]{{3}}",
        "[[0-9][{0}-{1}]",
        r"\[{0}-{1}]",
        "(?={0}).{1}?[0-9]$",
        "[-{0}{1}].(?<!{0})[.-{1}]",
        r"[+-[0-9]{{4}}{0}|\b{1}\b",
    ],
)
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of sets inside sets
def test_no_expression_tells_apart_what_is_called_alike(form: str) -> None:
    digits = "0123456789"
    ends = [*digits, "!", r"\.", "/", ":", "A", "z", "~", r"\]", r"\-"]
    names = [f"{place * 7919 % 10 ** (1 + place % 5):0{1 + place % 5}}" for place in range(80)]
    names += [f"[{digit}-9]" for digit in digits]
    told = 0
    for low, high in itertools.product(ends, ends):
        pattern = form.format(low, high)
        try:
            found = re.compile(pattern).search
        except re.error:
            continue  # a range that ends before it begins
        alike = digits_alike(pattern)
        for name in names:
            other = name.translate(alike)
            assert bool(found(name)) == bool(found(other)), (pattern, name)
            told += name != other
    assert told
