"""docs/design/openapi.json describes every route, and what it describes is answered as it says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.exceptions import NotFound

from tb_graph_ascend import plugin
from tests.plugin.example import REPOSITORY, write_example, write_example_trend

DOCUMENT: dict[str, Any] = json.loads(
    (REPOSITORY / "docs" / "design" / "openapi.json").read_text("utf-8")
)
# Of each operation; what is sent follows from the document, not from what failed before.
SETTINGS = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
PREFIX = "/data/plugin/graph_ascend"
Start = Callable[..., Any]


def application(logdir: Path) -> Callable[[dict[str, Any], Start], Iterable[bytes]]:
    """The plugin's routes where TensorBoard has them."""
    apps = plugin.GraphAscendPlugin(TBContext(logdir=str(logdir))).get_plugin_apps()

    def route(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        found = apps.get(environ["PATH_INFO"].removeprefix(PREFIX))
        answer: Iterable[bytes] = (found or NotFound())(environ, start)
        return answer

    return route


def test_every_route_and_method_is_described() -> None:
    described = {
        (path.removeprefix("/"), method)
        for path, item in DOCUMENT["paths"].items()
        for method in item
    }
    there = {(name, "get") for name in (*plugin.QUESTIONS, *plugin.TRENDS)}
    assert described == there | {(name, "post") for name in plugin.CHANGES}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The document over a plugin with one file."""
    schemathesis = pytest.importorskip("schemathesis")
    logdir = tmp_path_factory.mktemp("described")
    write_example(logdir / "runs" / "example.vis.db")
    write_example_trend(logdir / "runs" / "example.trend.db")
    content = json.loads(json.dumps(DOCUMENT))
    for item in content["paths"].values():
        for operation in item.values():
            for parameter in operation["parameters"]:
                if parameter["name"] == "file":
                    suffix = "trend" if "trend" in operation["operationId"] else "vis"
                    names = [f"runs/example.{suffix}.db", "nowhere.vis.db"]
                    parameter["schema"]["enum"] = names
                if parameter["name"] == "format":  # protobuf is checked by every other test
                    parameter |= {"required": True, "schema": {"const": "json"}}
            operation.get("requestBody", {}).get("content", {}).pop("application/x-protobuf", None)
    loaded = schemathesis.openapi.from_dict(content)
    loaded.app = application(logdir)
    return loaded


@pytest.mark.parametrize("examples", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_what_is_described_is_answered_as_it_says(api: Any, examples: int) -> None:
    operations = [found.ok() for found in api.get_all_operations()]
    assert len(operations) == len((*plugin.QUESTIONS, *plugin.TRENDS, *plugin.CHANGES))
    schemathesis = pytest.importorskip("schemathesis")  # a second, which every process would take

    checks = schemathesis.specs.openapi.checks
    for operation in operations:

        @settings(SETTINGS, max_examples=examples)
        @given(operation.as_strategy())
        def answered(case: Any) -> None:
            response = case.call(headers={"Accept-Encoding": "identity"})
            assert response.status_code != 500
            case.validate_response(
                response,
                checks=[
                    checks.status_code_conformance,
                    checks.response_schema_conformance,
                    checks.response_headers_conformance,
                ],
            )

        answered()
