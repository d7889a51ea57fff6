"""msprobe-build report: one file that says what the database says, and nothing runs in it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from msprobe_builder.facts.wording import catalogue
from tests.conftest import BuildDatabase
from tests.worded import worded

HOSTILE = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """Elements with their attributes, and the text outside of style."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(demo_database, tmp_path / "demo.vis.db"))


def report(database: Path, *options: str) -> Page:
    output = database.with_name("report.html")
    assert main(["report", str(database), "-o", str(output), *options]) == 0
    return Page(output)


def test_it_shows_the_worst_nodes_in_full(database: Path) -> None:
    page = report(database, "--nodes", "7")
    text = "\n".join(page.text)
    with closing(sqlite3.connect(database)) as connection:
        worst = connection.execute(
            "SELECT name, parent, node_id FROM node_view WHERE side = 'npu' AND error >= 0.2"
            " ORDER BY error DESC, seq LIMIT 7"
        ).fetchall()
        for name, parent, node in worst:
            assert name in text
            assert parent in text
            for norm, shape in connection.execute(
                "SELECT norm, shape FROM tensor_view WHERE node_id = ?", (node,)
            ):
                assert shape in text
                assert norm is None or (norm if norm == "NaN" else f"{norm:.6g}") in text
        counts = connection.execute(
            "SELECT grade, count(*) FROM node_view WHERE side = 'npu' GROUP BY grade"
        )
        assert all(f"\n{count}\n" in text for _, count in counts)
        frames = connection.execute(
            "SELECT value FROM stack JOIN node USING (stack_id) JOIN frame USING (frame_id)"
            " JOIN text ON text_id = source_id WHERE node_id = ?",
            (worst[0][2],),
        ).fetchall()
        assert frames
        assert all(str(source) in text for (source,) in frames)
    of_worst = text[text.index("Worst nodes") : text.index("What the build noticed")]
    assert of_worst.count("Call stack (") == 7


def test_it_begins_with_the_verdict_and_names_the_wrong_scale(database: Path) -> None:
    page = report(database)
    text = "\n".join(page.text)
    lead, rest = text.split("The suspects and their tensors", 1)
    with closing(sqlite3.connect(database)) as connection:
        metrics = [row[1] for row in connection.execute("PRAGMA table_info(comparison)")]
        keys = [key for (key,) in connection.execute("SELECT key FROM meta")]
        reasons = [name for (name,) in connection.execute("SELECT name FROM unmatched_reason")]
    asked = ["Verdict", "Where", "What", "Sure", "Follows", "Next", "Tensors of"]
    places = [lead.index(f"\n{one}") for one in asked]
    assert places == sorted(places)
    # The argument that differs, with both values, the line, and the tensor that it makes wrong.
    assert "0.375 → 0.25" in lead
    assert "modeling_llama.py:193\nattn_weights = " in lead
    assert "Tensor.__mul__.19.forward" in lead
    assert "output.0" in lead
    assert "50 %" in lead
    assert "input.1\n0.375\n0.25" in rest
    assert {"svg", "rect"} <= set(page.tags)
    assert "have a counterpart (100.0 %)" in text
    raw = {name for name in (*metrics, *keys, *reasons) if "_" in name}
    assert not raw & set(page.text)


def test_it_is_titled_by_the_runs_and_tells_no_path_of_this_machine(
    dumps: Path, tmp_path: Path
) -> None:
    runs = ("llama_statistics_wrong_attention_scale", "llama_statistics")
    sides = [str(dumps / name / "step0" / "rank") for name in runs]
    names = ["--names", "NPU", "GPU"]
    assert main([*sides, "-o", str(tmp_path), "--output-name", "x.vis.db", "--quiet", *names]) == 0
    page = report(tmp_path / "x.vis.db")
    text = "\n".join(page.text)
    titles = [one for one in page.text if one.strip()][:2]
    assert titles == ["NPU against GPU", "NPU against GPU"]
    assert str(dumps) not in text
    assert "msprobe-operators check llama_statistics_wrong_attention_scale/" in text
    with closing(sqlite3.connect(tmp_path / "x.vis.db")) as connection:
        files = connection.execute(
            "SELECT DISTINCT value FROM frame JOIN text ON text_id = file_id"
        ).fetchall()
    assert len(files) > 3
    assert not [path for (path,) in files if path.startswith("/") and path in text]


@pytest.mark.parametrize(
    ("npu", "conclusion", "said"),
    [
        ("_renamed_all", "clean", "No fault beyond rounding"),
        ("_bf16", "undecided", "Nothing is off by more than rounding explains"),
    ],
)
def test_a_clean_comparison_accuses_nobody(
    npu: str, conclusion: str, said: str, dumps: Path, build_database: BuildDatabase
) -> None:
    """Rounding of another precision is in colour, and is no first wrong node."""
    built = build_database(dumps / f"llama_statistics{npu}", dumps / "llama_statistics")
    page = report(built)
    assert ("class", f"card {conclusion}") in page.attributes
    assert "svg" not in page.tags[: page.tags.index("details")]
    assert said in "\n".join(page.text)


def test_where_elements_differ_is_a_picture(database: Path) -> None:
    slices = bytes([255] * 4 + [0] * 12 + [0] * 8 + [128] * 8)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE comparison SET slices = ?", (slices,))
        connection.commit()
    page = report(database)
    opacities = [value for name, value in page.attributes if name == "fill-opacity"]
    assert opacities == ["0.71"] * (4 * 8)


def test_all_but_the_first_screen_is_folded(database: Path) -> None:
    page = report(database)
    assert ("open", None) not in page.attributes
    before = page.tags[: page.tags.index("details")]
    assert before.count("h1") == 1
    assert {"svg", "dl", "table"} <= set(before)
    assert before.count("tr") <= 4  # titles and three tensors


def test_it_tells_the_verdict_of_each_place_and_what_to_record_next(database: Path) -> None:
    text = "\n".join(report(database).text)
    config = text[text.index("What to record next") :]
    assert '"task": "tensor"' in config[: config.index("What was compared")]
    places = text[text.index("Steps and ranks") :]
    assert "\nverdict\n" in places
    assert "\nfault\n" in places


def test_its_own_words_are_in_the_language_spoken(database: Path) -> None:
    texts = {text.strip() for text in report(database, "--language", "zh").text}
    english, chinese = catalogue("en"), catalogue("zh")
    of_reports = ("report.", "head.", "section.", "grade.", "strength.", "severity.", "metric.")
    fixed = {
        code
        for code in english
        if code.startswith(of_reports) and "{" not in english[code] and code != "head.error"
    }
    assert not {english[code] for code in fixed if english[code] != chinese[code]} & texts
    assert {"比较对象", "构建时的发现", "节点数", "结论：有故障", "严重", "位置"} <= texts


def test_without_a_verdict_it_begins_with_the_first_wrong_node(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DELETE FROM suspect")
        connection.execute("DELETE FROM verdict")
        connection.commit()
        first = connection.execute(
            "SELECT name FROM node_view JOIN node USING (node_id) WHERE side = 'npu'"
            " AND node.grade BETWEEN 3 AND 5 AND node.subtree_end = node.node_id"
            " ORDER BY step, rank, seq LIMIT 1"
        ).fetchone()[0]
    text = "\n".join(report(database).text)
    assert first in text[: text.index("The suspects and their tensors")]


def test_nothing_runs_and_nothing_is_loaded(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE text SET value = value || ?", (HOSTILE,))
        connection.execute("UPDATE meta SET value = ? WHERE key != 'task'", (HOSTILE,))
        connection.execute("UPDATE grade SET colour = 'red; background: url(//x)'")
        connection.execute(
            "INSERT INTO diagnostic (severity, code, message) VALUES ('info', ?, ?)",
            (HOSTILE, HOSTILE),
        )
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.executemany(
            "INSERT INTO configuration VALUES (?, ?, 'error', 1, ?)",
            [(1, None, HOSTILE), (2, HOSTILE, HOSTILE)],
        )
        connection.execute(
            "INSERT INTO configuration_difference VALUES (2, 1, ?, ?, ?, ?, ?)", [HOSTILE] * 5
        )
        connection.commit()
    page = report(database)
    allowed = "html head meta title style body h1 h2 div table thead tbody tr th td details summary"
    inside = "p code pre span b svg rect text section dl dt dd"
    assert set(page.tags) <= {*allowed.split(), *inside.split()}
    names = {name for name, _ in page.attributes}
    drawn = "viewbox role aria-label x y rx width height fill stroke stroke-width text-anchor"
    drawn += " fill-opacity tabindex"
    known = {"lang", "charset", "name", "content", "http-equiv", "class", "style"}
    assert names <= known | set(drawn.split())
    fills = {value for name, value in page.attributes if name == "fill"}
    assert all(re.fullmatch("#[0-9a-f]{6}", (value or "").lower()) for value in fills)
    styles = {value for name, value in page.attributes if name == "style"}
    assert all(re.fullmatch("background: #[0-9a-f]{6}", value or "") for value in styles)
    assert "url(" not in database.with_name("report.html").read_text(encoding="utf-8")
    assert HOSTILE in "".join(page.text)


def test_unmatched_nodes_and_findings_are_listed(dumps: Path, tmp_path: Path) -> None:
    database = tmp_path / "compared.vis.db"
    compare = tmp_path / "compare.json"
    npu = dumps / "llama_statistics_nan_weight" / "step0" / "rank"
    bench = dumps / "llama_statistics_L0" / "step0" / "rank"
    compare.write_text(f'{{"npu_path": "{npu}", "bench_path": "{bench}"}}', encoding="utf-8")
    options = ["--output-name", "compared", "--quiet", "-oc"]
    assert main(["-i", str(compare), "-o", str(tmp_path), *options]) == 0
    text = "\n".join(report(database).text)
    with closing(sqlite3.connect(database)) as connection:
        for query in (
            "SELECT name FROM node_view WHERE matched IS NULL LIMIT 5",
            "SELECT message FROM diagnostic",
            "SELECT name, overflow FROM node_view WHERE overflow = 'critical' LIMIT 3",
        ):
            found = worded(connection.execute(query))
            assert found
            assert all(word in text for row in found for word in row)


@pytest.mark.parametrize(
    ("name", "output", "status", "words"),
    [
        ("missing.vis.db", "r.html", 2, "does not exist"),
        ("demo.vis.db", "demo.vis.db", 2, "suffix .html"),
        ("text.vis.db", "r.html", 1, "not a SQLite database"),
        ("other.vis.db", "r.html", 1, "not one of msprobe-build"),
        ("demo.vis.db", "text.vis.db/r.html", 1, "text.vis.db is not a directory"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    database: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    output: str,
    status: int,
    words: str,
) -> None:
    folder = database.parent
    (folder / "text.vis.db").write_text("no database" * 100, encoding="utf-8")
    with closing(sqlite3.connect(folder / "other.vis.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    before = sorted(path.name for path in folder.iterdir())
    assert main(["report", str(folder / name), "-o", str(folder / output)]) == status
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert "Traceback" not in error
    assert sorted(path.name for path in folder.iterdir()) == before
