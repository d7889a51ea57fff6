"""The front end's files: what the build wrote is served, and nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from werkzeug.test import Client, TestResponse
from werkzeug.wrappers import Request

from tb_graph_ascend.http.static_files import serve

SCRIPT = "export function render() {}\n" * 100


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A built front end."""
    (tmp_path / "static" / "assets").mkdir(parents=True)
    (tmp_path / "static" / "index.js").write_text(SCRIPT, encoding="utf-8")
    for name in ("worker-Ab3_x-9Z.js", "style-12345678.css", "icon-12345678.svg", "odd.unknown"):
        (tmp_path / "static" / "assets" / name).write_text(name, encoding="utf-8")
    (tmp_path / "static" / "private.txt").write_text("private", encoding="utf-8")
    (tmp_path / "secret.js").write_text("secret", encoding="utf-8")
    return tmp_path / "static"


def get(directory: Path, name: str, method: str = "GET", **headers: str) -> TestResponse:
    app = Request.application(lambda request: serve(request, directory))
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Client(app).open(f"/data/plugin/graph_ascend/{name}", method=method, headers=named)


def test_the_entry_is_a_module_that_is_asked_for_again_each_time(built: Path) -> None:
    response = get(built, "index.js", Accept_Encoding="gzip")
    assert response.content_type == "text/javascript; charset=utf-8"
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert gzip.decompress(response.data).decode() == SCRIPT
    again = get(built, "index.js", If_None_Match=response.headers["ETag"])
    assert (again.status_code, again.data) == (304, b"")


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("worker-Ab3_x-9Z.js", "text/javascript; charset=utf-8"),
        ("style-12345678.css", "text/css; charset=utf-8"),
        ("icon-12345678.svg", "image/svg+xml"),
        ("odd.unknown", "application/octet-stream"),
    ],
)
def test_assets_have_their_type_and_stay_in_the_browser(
    built: Path, name: str, content_type: str
) -> None:
    response = get(built, f"assets/{name}")
    assert (response.status_code, response.data) == (200, name.encode())
    assert response.headers["Content-Type"].startswith(content_type)
    assert response.headers["Cache-Control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize(
    "name",
    [
        *("private.txt", "assets", "assets/", "assets/none.js", "assets/../index.js"),
        *("assets/../../secret.js", "../secret.js", "assets//style-12345678.css", ""),
        *("assets/%2e%2e/%2e%2e/secret.js", "assets/..%5c..%5csecret.js", "assets/a%00.js"),
    ],
)
def test_nothing_else_is_served(built: Path, name: str) -> None:
    response = get(built, name)
    assert response.status_code == 404
    assert response.headers["Content-Type"].startswith("text/plain")
    assert b"secret" not in response.data
    assert b"private" not in response.data


def test_a_new_build_is_served_without_a_restart(built: Path) -> None:
    (built / "assets" / "fresh-87654321.js").write_text("fresh", encoding="utf-8")
    assert get(built, "assets/fresh-87654321.js").data == b"fresh"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_files_can_only_be_read(built: Path, method: str) -> None:
    response = get(built, "index.js", method)
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, HEAD"


def test_without_a_front_end_the_tab_says_how_to_build_it(tmp_path: Path) -> None:
    response = get(tmp_path / "static", "index.js")
    assert response.content_type == "text/javascript; charset=utf-8"
    assert "export function render()" in response.text
    assert "make build" in response.text
    assert get(tmp_path / "static", "assets/any.js").status_code == 404
