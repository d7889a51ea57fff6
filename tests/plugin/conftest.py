"""The plugin over a log directory, asked through its WSGI applications."""

from __future__ import annotations

import shutil
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.exceptions import NotFound
from werkzeug.test import Client, TestResponse

from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.plugin import GraphAscendPlugin
from tests.plugin.example import write_example

Ask = Callable[..., TestResponse]
PREFIX = "/data/plugin/graph_ascend/"
MESSAGES: dict[str, type[Message]] = {
    "catalog": pb.Catalog,
    "skeleton": pb.Skeleton,
    "node": pb.NodeDetail,
    "flow": pb.NodeFlow,
    "groups": pb.Groups,
    "search": pb.SearchResult,
    "candidates": pb.Candidates,
    "across": pb.NodeAcross,
    "measures": pb.Measures,
    "values": pb.Values,
    "matches": pb.MatchFile,
}
EXAMPLE = "runs/example.vis.db"
GOOD: dict[str, dict[str, str]] = {
    "catalog": {},
    "skeleton": {"file": EXAMPLE, "step": "0", "rank": "0", "side": "npu"},
    "node": {"file": EXAMPLE, "step": "0", "rank": "0", "side": "npu", "index": "3"},
    "flow": {"file": EXAMPLE, "step": "0", "rank": "0", "side": "npu", "index": "3"},
    "groups": {"file": EXAMPLE, "step": "0", "rank": "0"},
    "search": {"file": EXAMPLE},
    "candidates": {"file": EXAMPLE, "step": "0", "rank": "0", "side": "npu", "index": "4"},
    "across": {"file": EXAMPLE, "name": "Functional.linear.3.forward", "side": "npu"},
    "measures": {"file": EXAMPLE, "step": "0", "rank": "0"},
    "values": {"file": EXAMPLE, "step": "0", "rank": "0"},
    "matches": {"file": EXAMPLE},
}


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, made once; nobody changes it."""
    return write_example(tmp_path_factory.mktemp("example") / "example.vis.db")


@pytest.fixture
def logdir(tmp_path: Path, example: Path) -> Path:
    """A log directory with a copy of the example in a folder of its own."""
    path = tmp_path / "logs" / EXAMPLE
    path.parent.mkdir(parents=True)
    shutil.copyfile(example, path)
    return tmp_path / "logs"


@pytest.fixture
def ask(logdir: Path) -> Ask:
    """Send a request to the plugin over ``logdir``: ask("node", file=…, method="GET")."""
    return client_of(logdir)


def client_of(logdir: Path | str, *, readonly: bool = False) -> Ask:
    """Requests to a plugin over any log directory, routed as TensorBoard does."""
    flags = Namespace(graph_ascend_readonly=readonly)
    context = TBContext(logdir=str(logdir), flags=flags)
    apps = GraphAscendPlugin(context).get_plugin_apps()

    def route(path: str) -> Callable[..., Any]:
        if path in apps:
            return apps[path]
        wildcard = "/" + path.split("/")[1] + "/*"
        return apps[wildcard] if wildcard in apps else NotFound()

    def ask(
        name: str,
        /,
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        raw_query: str | None = None,
        data: bytes | str | None = None,
        **query: object,
    ) -> TestResponse:
        client = Client(route("/" + name))
        query_string = query if raw_query is None else raw_query
        return client.open(
            PREFIX + name, method=method, headers=headers, query_string=query_string, data=data
        )

    return ask


def parse(name: str, response: TestResponse) -> Message:
    """The message of a good answer."""
    assert response.status_code == 200, response.data
    message = MESSAGES[name]()
    message.ParseFromString(response.data)
    return message


def problem_of(response: TestResponse) -> pb.Problem:
    """The problem of a refusal; it must be whole, and name a cause and a remedy."""
    assert response.status_code >= 400
    assert response.content_type == "application/x-protobuf"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    problem = pb.Problem.FromString(response.data)
    assert problem.code
    assert problem.message
    assert problem.remedy
    assert "Traceback" not in problem.message
    return problem


def catalog(ask: Ask) -> pb.Catalog:
    return pb.Catalog.FromString(ask("catalog").data)


def skeleton(ask: Ask, **changes: object) -> pb.Skeleton:
    response = ask("skeleton", **{**GOOD["skeleton"], **changes})
    assert response.status_code == 200, response.data
    return pb.Skeleton.FromString(response.data)


def node(ask: Ask, **changes: object) -> pb.NodeDetail:
    response = ask("node", **{**GOOD["node"], **changes})
    assert response.status_code == 200, response.data
    return pb.NodeDetail.FromString(response.data)
