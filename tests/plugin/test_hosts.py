"""Pages that may read and change: our own, at names that no stranger can let point to us."""

from __future__ import annotations

import shutil
import socket
from argparse import Namespace
from pathlib import Path

import pytest
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client, TestResponse

from tb_graph_ascend.plugin import GraphAscendPlugin
from tests.plugin.changing import JSON
from tests.plugin.conftest import EXAMPLE, GOOD, PREFIX, problem_of


@pytest.fixture
def body(logdir: Path) -> dict[str, object]:
    """A request that changes nothing and is answered when its page may change something."""
    assert (logdir / EXAMPLE).exists()
    return {"file": EXAMPLE, "revision": "another", "dry_run": True}


def undo(logdir: Path, body: dict[str, object], headers: dict[str, str], **flags: object) -> str:
    """The code of the answer; that of a request that is let in is changed_meanwhile."""
    plugin = GraphAscendPlugin(TBContext(logdir=str(logdir), flags=Namespace(**flags)))
    client = Client(plugin.get_plugin_apps()["/undo"])
    response: TestResponse = client.post(PREFIX + "undo", json=body, headers={**JSON, **headers})
    return str(problem_of(response).code)


LET_IN = "changed_meanwhile"


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:6006",
        "http://127.0.0.1:6006",
        "http://[::1]:6006",
        "http://[fe80::1%25eth0]:6006",
        "http://10.1.2.3:6006",
        "http://devbox:6006",
        "http://devbox.local:6006",
        f"http://{socket.gethostname()}:6006",
        "https://anything.tunnels.com",
        "https://hub.company.com:8443",
    ],
)
def test_names_that_nobody_else_can_have(
    logdir: Path, body: dict[str, object], origin: str
) -> None:
    host = origin.partition("//")[2]
    for headers in ({"Host": host}, {"Host": host, "Sec-Fetch-Site": "same-origin"}):
        assert undo(logdir, body, {**headers, "Origin": origin}) == LET_IN


@pytest.mark.parametrize("name", ["evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "a.b."])
def test_a_name_that_was_let_point_to_us_changes_nothing(
    logdir: Path, body: dict[str, object], name: str
) -> None:
    """DNS rebinding: to the browser the page and we are of one origin."""
    page = {"Host": f"{name}:6006", "Origin": f"http://{name}:6006"}
    same = {"Sec-Fetch-Site": "same-origin"}
    for headers in (page, {**page, **same}, {"Host": f"{name}:6006", **same}):
        assert undo(logdir, body, headers) == "unknown_host"
    # A page can set this header itself.
    assert undo(logdir, body, {**page, "X-Forwarded-Host": "localhost"}) == "unknown_host"


def test_a_name_may_be_vouched_for(logdir: Path, body: dict[str, object]) -> None:
    page = {"Host": "viewer.company.com", "Origin": "http://viewer.company.com"}
    assert undo(logdir, body, page) == "unknown_host"
    assert undo(logdir, body, page, graph_ascend_host=["viewer.company.com"]) == LET_IN
    assert undo(logdir, body, page, host="viewer.company.com") == LET_IN
    assert undo(logdir, body, page, graph_ascend_host=["other.company.com"]) == "unknown_host"


def test_a_script_is_no_page(logdir: Path, body: dict[str, object]) -> None:
    assert undo(logdir, body, {"Host": "viewer.company.com"}) == LET_IN


@pytest.mark.parametrize("origin", ["http://[", "http://a:port", "null", "", "http://", "\udc80"])
def test_an_origin_that_is_none_is_another(
    logdir: Path, body: dict[str, object], origin: str
) -> None:
    assert undo(logdir, body, {"Origin": origin}) in ("other_origin", LET_IN if not origin else "")


def test_a_proxy_that_drops_the_port_is_told_so(logdir: Path, body: dict[str, object]) -> None:
    headers = {"Host": "devbox", "Origin": "http://devbox:8080"}
    assert undo(logdir, body, headers) == "other_origin"
    plugin = GraphAscendPlugin(TBContext(logdir=str(logdir), flags=Namespace()))
    response = Client(plugin.get_plugin_apps()["/undo"]).post(
        PREFIX + "undo", json=body, headers={**JSON, **headers}
    )
    assert "devbox:8080" in problem_of(response).message
    assert "$http_host" in problem_of(response).remedy


def test_every_answer_carries_the_security_headers(logdir: Path, tmp_path: Path) -> None:
    shutil.copytree(logdir, tmp_path / "other")
    apps = GraphAscendPlugin(TBContext(logdir=str(logdir), flags=Namespace())).get_plugin_apps()
    paths = ["catalog", "skeleton", "undo", "index.js", "assets/nothing.js"]
    for path in paths:
        app = apps.get(f"/{path}") or apps["/assets/*"]
        for method in ("GET", "POST", "PUT"):
            response = Client(app).open(PREFIX + path, method=method)
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"


READ = ("catalog", "skeleton", "node", "search", "values", "trends", "table", "report")


def read(logdir: Path, name: str, headers: dict[str, str], **flags: object) -> TestResponse:
    plugin = GraphAscendPlugin(TBContext(logdir=str(logdir), flags=Namespace(**flags)))
    client = Client(plugin.get_plugin_apps()[f"/{name}"])
    return client.get(PREFIX + name, headers=headers, query_string=GOOD.get(name, GOOD["search"]))


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("host", ["evil.com", "127.0.0.1.evil.com:6006", "a.b.", "[", "x.y:port"])
def test_a_name_that_was_let_point_to_us_reads_nothing(logdir: Path, name: str, host: str) -> None:
    answer = read(logdir, name, {"Host": host})
    assert answer.status_code == 403
    assert problem_of(answer).code == "unknown_host"
    assert "--graph_ascend_host" in problem_of(answer).remedy
    for header in ("X-Forwarded-Host", "X-Forwarded-Proto", "Origin", "Referer"):
        assert read(logdir, name, {"Host": host, header: "https://localhost"}).status_code == 403


@pytest.mark.parametrize(
    "host",
    [
        *("localhost:6006", "127.0.0.1:6006", "[::1]:6006", "10.1.2.3", "devbox:6006", "LOCALHOST"),
        *("devbox.local", f"{socket.gethostname()}:6006", "localhost.", "a.localhost"),
    ],
)
def test_names_that_the_user_can_mean_are_answered(logdir: Path, host: str) -> None:
    assert read(logdir, "catalog", {"Host": host}).status_code == 200


def test_names_that_the_user_vouches_for_are_answered(logdir: Path) -> None:
    host = {"Host": "viewer.company.com:6006"}
    assert read(logdir, "catalog", host).status_code == 403
    for given in (["viewer.company.com"], ["a.b", "VIEWER.company.com"], ["a.b,company.com"]):
        assert read(logdir, "catalog", host, graph_ascend_host=given).status_code == 200
    assert read(logdir, "catalog", host, host="viewer.company.com").status_code == 200
    assert read(logdir, "catalog", host, bind_all=True).status_code == 403


@pytest.mark.parametrize("site", ["same-origin", "none", "same-site"])
def test_behind_https_any_name_is_proven(logdir: Path, site: str) -> None:
    headers = {"Host": "hub.company.com", "Sec-Fetch-Site": site}
    assert read(logdir, "catalog", headers).status_code == 200
