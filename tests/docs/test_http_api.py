"""docs/design/http-api.md names every route, parameter and problem, and its examples work."""

from __future__ import annotations

import json
import re
import shlex
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import pytest
from tensorboard.plugins.base_plugin import TBContext

from msprobe_builder.database import problems
from msprobe_builder.database.read.search import TEXT_CONDITIONS
from tb_graph_ascend import plugin
from tb_graph_ascend.http import answers
from tb_graph_ascend.problems import STATUSES
from tests.plugin.example import REPOSITORY, write_example, write_example_trend

TEXT = (REPOSITORY / "docs" / "design" / "http-api.md").read_text(encoding="utf-8")
SOURCES = {path: path.read_text("utf-8") for path in Path(plugin.__file__).parent.rglob("*.py")}

READERS = {
    path: path.read_text("utf-8")
    for path in (REPOSITORY / "msprobe_builder" / "database").rglob("*.py")
}


def table(heading: str) -> list[list[str]]:
    """The cells below the header of the table that starts with ``heading``."""
    lines = TEXT[TEXT.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_route_is_documented() -> None:
    apps = plugin.GraphAscendPlugin(TBContext(logdir="")).get_plugin_apps()
    documented = {words(route)[0] for route, _, _ in table("route")}
    assert documented == {name.removeprefix("/") for name in apps}
    for name in plugin.DATA_ROUTES:
        assert f"### `{name}`" in TEXT


def test_every_parameter_that_is_read_is_documented() -> None:
    read = {name for text in SOURCES.values() for name in re.findall(r'\(request, "(\w+)"', text)}
    read |= set(re.findall(r'request\.args\.get\("(\w+)"', "".join(SOURCES.values())))
    read |= TEXT_CONDITIONS.keys()
    assert read == {words(name)[0] for name, _ in table("parameter")}
    used = {name for _, parameters, _ in table("route") for name in words(parameters)}
    assert used == read
    for name in answers.FORMATS:
        assert f"`{name}`" in TEXT


def test_every_problem_is_documented_with_its_status() -> None:
    statuses = {
        "bad_request": HTTPStatus.BAD_REQUEST,
        "not_found": HTTPStatus.NOT_FOUND,
        "cannot_show": HTTPStatus.UNPROCESSABLE_ENTITY,
        "conflict": HTTPStatus.CONFLICT,
        "try_again": HTTPStatus.SERVICE_UNAVAILABLE,
    }
    raised = {
        (int(statuses[kind]), code)
        for text in SOURCES.values()
        for kind, code in re.findall(rf'({"|".join(statuses)})\(\s*"(\w+)"', text)
    }
    raised |= {
        (int(HTTPStatus[status]), code)
        for text in SOURCES.values()
        for status, code in re.findall(r'ProblemError\(\s*HTTPStatus\.(\w+),\s*"(\w+)"', text)
    }
    raised |= {(500, code) for code in re.findall(r'"code": "(\w+)"', "".join(SOURCES.values()))}
    # What is wrong with a file is decided where files are opened.
    for text in READERS.values():
        for code, rest in re.findall(r'\bFileError\(\s*"(\w+)"((?:[^()]|\([^()]*\))*)\)', text):
            raised.add((STATUSES.get(code, 503 if "may_pass=True" in rest else 422), code))
    for _, code, _, _, may_pass in problems._FAULTS:
        raised.add((STATUSES.get(code, 503 if may_pass else 422), code))
    documented = {(int(status), words(code)[0]) for status, code, _ in table("status")}
    assert documented == raised


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tensorboard_server: Callable[..., str]) -> str:
    """The address of a TensorBoard over the file that the examples name."""
    logdir = tmp_path_factory.mktemp("documented")
    write_example(logdir / "runs" / "example.vis.db")
    write_example_trend(logdir / "runs" / "example.trend.db")
    return tensorboard_server(logdir)


def test_the_examples_are_answered(base: str) -> None:
    commands = re.search(r"```sh\n(.*?)```", TEXT, re.DOTALL)
    assert commands is not None
    asked = set()
    for command in commands[1].splitlines():
        program, silent, address = shlex.split(command)
        assert (program, silent) == ("curl", "-s")
        with urllib.request.urlopen(address.replace("http://localhost:6006/", base)) as answer:
            assert json.load(answer)
        asked.add(urllib.parse.urlsplit(address).path.rpartition("/")[2])
    assert asked == {*plugin.QUESTIONS, *plugin.TRENDS}


def test_the_problem_shown_is_a_real_one(base: str) -> None:
    shown = re.search(r"```json\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    query = "file=runs/example.vis.db&step=7&rank=0&side=npu&format=json"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{base}data/plugin/graph_ascend/skeleton?{query}")
    with caught.value as answer:
        assert json.load(answer) == json.loads(shown[1])
