"""The plugin as TensorBoard sees it: import, tab, activity, and all of it over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorboard.plugins.base_plugin import TBContext

from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.plugin import GraphAscendPlugin
from tests.plugin.conftest import EXAMPLE
from tests.plugin.example import write_example

HEAVY = {
    "torch",
    "pandas",
    "msprobe_builder",
    "tb_graph_ascend.generated",
    "tb_graph_ascend.encode.answers",
}
QUERY = "?file=runs%2Fexample.vis.db&step=0&rank=0&side=npu"


def loaded_after(*statements: str) -> set[str]:
    """Names of the modules that a fresh interpreter holds after ``statements``."""
    code = "; ".join(["import sys", *statements, "print(*sys.modules)"])
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_tensorboard_starts_with_next_to_nothing_of_the_plugin() -> None:
    without = loaded_after("from tensorboard.plugins import base_plugin")
    loaded = loaded_after(
        "from tensorboard.plugins import base_plugin",
        "from tb_graph_ascend.plugin import GraphAscendPlugin",
        "plugin = GraphAscendPlugin(base_plugin.TBContext(logdir='.'))",
        "plugin.get_plugin_apps(); plugin.frontend_metadata(); plugin.is_active()",
    )
    assert "tb_graph_ascend.plugin" in loaded
    assert not HEAVY & (loaded - without)
    assert "google.protobuf" not in loaded - without


def test_a_damaged_installation_costs_only_this_tab(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["tb_graph_ascend.generated"] = None  # as if it had not been installed
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client
from tb_graph_ascend.plugin import GraphAscendPlugin
apps = GraphAscendPlugin(TBContext(logdir={str(tmp_path)!r})).get_plugin_apps()
response = Client(apps["/catalog"]).get("/catalog")
assert response.status_code == 500
assert response.get_json()["code"] == "broken_installation"
assert Client(apps["/index.js"]).get("/data/plugin/graph_ascend/index.js").status_code == 200
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("name", ["x.vis.db", "a/b/c/d/x.vis.db"])
def test_the_tab_is_active_when_there_is_a_file_at_any_depth(tmp_path: Path, name: str) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "vis.db").write_bytes(b"")
    assert not GraphAscendPlugin(TBContext(logdir=str(tmp_path))).is_active()
    write_example(tmp_path / name)
    assert GraphAscendPlugin(TBContext(logdir=str(tmp_path))).is_active()


@pytest.mark.parametrize("logdir", [None, "", "/no/such/directory", "gs://bucket", "~nobody/x"])
def test_without_a_log_directory_the_tab_is_not_active(logdir: str | None) -> None:
    assert not GraphAscendPlugin(TBContext(logdir=logdir)).is_active()


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        return bytes(answer.read())


@pytest.fixture(scope="module")
def served_logdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory that outlives a test."""
    folder = tmp_path_factory.mktemp("served")
    write_example(folder / EXAMPLE)
    return folder


@pytest.mark.parametrize("options", [(), ("--path_prefix", "/deep/prefix")], ids=["", "prefix"])
def test_a_running_tensorboard_serves_every_route(
    served_logdir: Path, options: tuple[str, ...], tensorboard_server: Callable[..., str]
) -> None:
    address = tensorboard_server(served_logdir, *options)
    assert address.endswith("/deep/prefix/" if options else "/")
    listing = json.loads(fetch(f"{address}data/plugins_listing"))["graph_ascend"]
    assert listing["enabled"]
    assert listing["tab_name"] == "GRAPH_ASCEND"
    base = f"{address}data/plugin/graph_ascend/"
    assert listing["loading_mechanism"]["type"] == "IFRAME"
    assert base.endswith(listing["loading_mechanism"]["module_path"].removesuffix("index.js"))
    assert b"render" in fetch(f"{base}index.js")
    [file] = pb.Catalog.FromString(fetch(f"{base}catalog")).files
    assert file.file == EXAMPLE
    assert pb.Skeleton.FromString(fetch(f"{base}skeleton{QUERY}")).node_count == 7
    assert pb.NodeDetail.FromString(fetch(f"{base}node{QUERY}&index=6")).npu.index == 6
    page = fetch(f"{address}data/plugin_entry.html?name=graph_ascend").decode()
    assert "./index.js" in page


def test_a_running_tensorboard_passes_problems_on(
    served_logdir: Path, tensorboard_server: Callable[..., str]
) -> None:
    base = f"{tensorboard_server(served_logdir)}data/plugin/graph_ascend/"
    for query, status in (("?file=../x.vis.db&step=0&rank=0&side=npu", 404), ("", 400)):
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(f"{base}skeleton{query}")
        with caught.value as answer:
            assert answer.code == status
            assert pb.Problem.FromString(answer.read()).remedy


OTHER = """
from tensorboard.plugins import base_plugin
class Other(base_plugin.TBPlugin):
    plugin_name = "graph_ascend"
    def get_plugin_apps(self): return {}
    def is_active(self): return True
"""


def test_a_plugin_of_the_same_name_is_named_instead_of_a_traceback(tmp_path: Path) -> None:
    """As the reference tool's viewer, whose entry point this is."""
    folder = tmp_path / "tb_graph_ascend-8.3.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tb-graph-ascend\nVersion: 8.3.2\n"
    )
    points = "[tensorboard_plugins]\ngraph_ascend = other_viewer:Other\n"
    (folder / "entry_points.txt").write_text(points)
    (tmp_path / "other_viewer.py").write_text(OTHER)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(tmp_path), "--port", "0"]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1
    assert "tb-graph-ascend provides the same tab, graph_ascend" in done.stderr
    assert "pip uninstall tb-graph-ascend" in done.stderr
    assert "Traceback" not in done.stderr
