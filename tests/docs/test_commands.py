"""What the documents tell a reader to type works, in both languages."""

from __future__ import annotations

import configparser
import contextlib
import functools
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from msprobe_builder.base.codes import Grade
from msprobe_builder.dump.task import Task
from msprobe_builder.metrics.grading import PROFILES
from tests.conftest import REPOSITORY, BuildDatabase, StartTensorBoard
from tests.processes import run_program

READMES = ["README.md", "README.zh.md"]
DOCUMENTS = sorted(
    str(path.relative_to(REPOSITORY))
    for path in (
        *REPOSITORY.glob("*.md"),
        *(REPOSITORY / "docs").rglob("*.md"),
        *(REPOSITORY / "proto").glob("*.md"),
        *(REPOSITORY / "benchmarks").rglob("*.md"),
        *(REPOSITORY / "examples").rglob("*.md"),
        *(REPOSITORY / "tests" / "data").glob("*.md"),
    )
)


def test_the_way_from_dumps_to_tensorboard_is_as_the_readme_says(
    dumps: Path, tmp_path: Path, tensorboard_server: StartTensorBoard
) -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    runs = {"npu_dump": "llama_statistics_wrong_attention_scale", "bench_dump": "llama_statistics"}
    for name, run in runs.items():
        (tmp_path / name).symlink_to(dumps / run / "step0" / "rank")
    guide = (REPOSITORY / "docs" / "building.md").read_text(encoding="utf-8")
    [compare] = [block for block in blocks(guide, "json") if "npu_path" in block]
    (tmp_path / "compare.json").write_text(compare, encoding="utf-8")

    commands = [shlex.split(command) for command in shell_commands(text)]
    builds = [command for command in commands if command[0] == "msprobe-build"]
    assert [words[1] for words in builds] == ["npu_dump"]
    builds.append(["msprobe-build", "-i", "compare.json", "-o", "out"])  # as the guide begins
    for program, *words in builds:
        subprocess.run([Path(sys.executable).with_name(program), *words], cwd=tmp_path, check=True)
    databases = list((tmp_path / "out").iterdir())
    assert len(databases) == len(builds)
    assert all(re.fullmatch(r"compare_\d{14}(_\d)?\.vis\.db", one.name) for one in databases)

    servers = [command[1:] for command in commands if command[0] == "tensorboard"]
    assert servers
    for option, logdir, *options in servers:
        assert option == "--logdir"
        if "--port" in options:
            del options[options.index("--port") :][:2]
        assert tensorboard_server(tmp_path / logdir, *options).startswith("http://")


def test_the_demo_shows_what_the_readme_promises(demo_database: Path) -> None:
    with contextlib.closing(sqlite3.connect(demo_database)) as connection:
        first = connection.execute(
            "SELECT name, error FROM node_view"
            " WHERE side = 'npu' AND grade NOT IN ('ok', 'ungraded') ORDER BY seq LIMIT 1"
        ).fetchone()
        scales = connection.execute(
            "SELECT text.value FROM argument JOIN text ON text_id = value_id"
            " JOIN node_view USING (node_id) WHERE name = ? ORDER BY side DESC",
            first[:1],
        ).fetchall()
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert f"`{first[0]}`" in text
    assert f"an error of {first[1]:.1f}" in text
    assert "`{}` against `{}`".format(*(scale for (scale,) in scales)) in text


@pytest.mark.parametrize("readme", READMES)
def test_the_verdict_in_the_readme_is_that_of_the_demo(
    readme: str, demo_database: Path, tmp_path: Path
) -> None:
    [shown] = blocks((REPOSITORY / readme).read_text(encoding="utf-8"), "text")
    database = shutil.copy(demo_database, tmp_path)
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        names = {"npu_name": "wrong_attention_scale", "bench_name": "correct"}  # its folders
        connection.executemany("REPLACE INTO meta (key, value) VALUES (?, ?)", names.items())
    judged = Path(sys.executable).with_name("msprobe-build"), "verdict", database
    told = subprocess.run(judged, check=True, capture_output=True, encoding="utf-8").stdout
    _, _, answers = told.partition("\n")
    assert answers.startswith(shown)


OURS = {"msprobe-bisect", "msprobe-build", "msprobe-operators", "msprobe-run"}


@functools.cache
def is_made(*arguments: str) -> bool:
    """Whether make knows how."""
    command = ["make", "--dry-run", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, check=False, stdout=subprocess.DEVNULL)
    return done.returncode == 0


def test_a_wheel_is_made_without_the_tools_of_development() -> None:
    command = ["make", "--dry-run", "--always-make", "wheel"]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    assert "-m build" in done.stdout
    assert "[dev]" not in done.stdout


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_shell_command_is_one_we_know_how_to_check(document: str) -> None:
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    for command in shell_commands(text):
        program, *arguments = shlex.split(command)
        if program == "make":
            assert is_made(*arguments)
        elif program == "pip" or program == "pipx":
            with_tensorboard = ["--include-deps"] if program == "pipx" else []
            assert arguments == ["install", *with_tensorboard, "."]
        elif program in ("python", "mkdir", "cp"):
            assert "tutorial" in document or "at-scale" in document  # run by tests of their own
        else:
            assert program in OURS | {"tensorboard"}, command


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_named_in_the_text_exist(document: str) -> None:
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert is_made(target)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    missing = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)]*)?\)", text):
        if "://" in target:
            continue
        path = ((REPOSITORY / document).parent / target) if target else REPOSITORY / document
        if not path.exists() or (anchor and anchor[1:] not in anchors(path)):
            missing.append(target + anchor)
    assert not missing


def anchors(path: Path) -> set[str]:
    """Where links into a document may lead, as GitHub makes anchors of headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return set(plain)


def test_both_readmes_show_the_same_commands_and_settings() -> None:
    english, chinese = ((REPOSITORY / name).read_text(encoding="utf-8") for name in READMES)
    assert shell_commands(english) == shell_commands(chinese)
    for language in ("json", "python", "text"):
        assert blocks(english, language) == blocks(chinese, language)
    colours = re.compile(r"#[0-9A-F]{6}")
    assert colours.findall(english) == colours.findall(chinese)


def test_the_legend_in_the_readme_is_the_builders() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in text.splitlines() if line[:1] == "|"}
    for column, task in enumerate((Task.STATISTICS, Task.TENSOR), start=3):
        for band in PROFILES[task]:
            if band.grade is Grade.UNGRADED:
                continue
            cells = [cell.strip() for cell in rows[band.name].split("|")]
            assert f"`{band.colour}`" in cells[2]
            picture = (REPOSITORY / "docs" / "images" / f"{band.name}.svg").read_text()
            assert f'fill="{band.colour}"' in picture
            if band.low is not None:
                assert cells[column] == f"{band.low:g} … {band.high:g}"


def test_two_runs_of_the_training_loop_of_the_readme_compare_clean(
    tmp_path: Path, build_database: BuildDatabase
) -> None:
    """The order of samples is drawn from what every process seeds otherwise, unless it is told."""
    [loop] = blocks((REPOSITORY / "README.md").read_text(encoding="utf-8"), "python")
    training = """
import random
import torch
def make_training():
    layers = torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.Linear(4, 4)
    model = torch.nn.Sequential(*layers)
    samples = torch.randn(16, 4)[random.sample(range(16), 16)]
    batches = torch.utils.data.DataLoader(samples, batch_size=4, shuffle=True)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), batches
"""
    for side in ("npu_dump", "bench_dump"):
        done = run_program(tmp_path, training + loop.replace("npu_dump", side))
        assert done.returncode == 0, done.stderr
    built = build_database(tmp_path / "npu_dump", tmp_path / "bench_dump")
    with contextlib.closing(sqlite3.connect(built)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM node_view")}
        [verdict] = connection.execute("SELECT conclusion FROM verdict WHERE step IS NULL")
        steps = connection.execute("SELECT DISTINCT step FROM graph ORDER BY step").fetchall()
    assert {"Module.0.Linear.forward.0", "Module.0.Linear.backward.0"} <= names
    assert verdict == ("clean",)
    assert steps == [(0,), (1,)]  # of four


def test_every_dependency_is_explained() -> None:
    explained = {
        name.strip()
        for names in re.findall(
            r"^\| (.+?) \|",
            (REPOSITORY / "docs" / "design" / "dependencies.md").read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
        for name in names.split(",")
    }
    setup = configparser.ConfigParser()
    setup.read(REPOSITORY / "setup.cfg", encoding="utf-8")
    wanted = [setup["options"]["install_requires"], *setup["options.extras_require"].values()]
    python = {
        re.split(r"[<>=~!;]", line)[0].strip() for group in wanted for line in group.split("\n")
    }
    package = json.loads((REPOSITORY / "frontend_polymer" / "package.json").read_text())
    npm = {*package["dependencies"], *package["devDependencies"]}
    own = {name for name in python if name.startswith("msprobe-graph[")}
    assert (python | npm) - own - {""} <= explained


def blocks(text: str, language: str) -> list[str]:
    """Fenced blocks of a language, those inside lists without their indentation."""
    fence = re.compile(rf"^( *)```{language}\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(found[2]) for found in fence.finditer(text)]


def shell_commands(text: str) -> list[str]:
    return [line for block in blocks(text, "shell") for line in block.splitlines()]


def test_tables_and_reports_are_taken_away_as_the_document_says(
    demo_database: Path, tmp_path: Path
) -> None:
    text = (REPOSITORY / "docs" / "taking-away.md").read_text(encoding="utf-8")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "example.vis.db").symlink_to(demo_database)
    commands = [shlex.split(command) for command in shell_commands(text)]
    for program, *arguments in commands:
        installed = Path(sys.executable).with_name(program)
        subprocess.run([installed, *arguments], cwd=tmp_path, check=True)
    [code] = blocks(text, "python")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    with contextlib.closing(sqlite3.connect(demo_database)) as connection:
        [(severe,)] = connection.execute("SELECT count(*) FROM node_view WHERE grade = 'severe'")
    assert done.stdout == f"{severe} nodes\n"
    written = {path.name for path in tmp_path.iterdir() if path.is_file()}
    assert written == {
        *("nodes.csv", "tensors.csv.gz", "wrong.tsv", "report.html", "severe.csv"),
        *("page.html", "rank0.html"),
    }
