"""The built front end: nothing but the files that the build has put into static/."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from werkzeug.wrappers import Request, Response

from tb_graph_ascend.http.responses import (
    METHODS,
    REVALIDATE,
    is_known,
    make_etag,
    not_modified,
    respond,
)

STATIC = Path(__file__).parent.parent / "static"
ENTRY = "index.js"
ASSETS = "assets/"
FOREVER = "private, max-age=31536000, immutable"
PLAIN_TEXT = "text/plain; charset=utf-8"
JAVASCRIPT = "text/javascript; charset=utf-8"
CONTENT_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": JAVASCRIPT,
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
}
NOT_BUILT = b"""export function render() {
  const note = document.createElement('p');
  note.textContent = 'The front end of graph_ascend is not built: run "make build".';
  document.body.append(note);
}
"""


def serve(request: Request, directory: Path = STATIC) -> Response:
    """The file that the request's path names."""
    if request.method not in METHODS:
        status = HTTPStatus.METHOD_NOT_ALLOWED
        response = respond(request, b"Use GET.\n", PLAIN_TEXT, status=status, cache="no-store")
        response.headers["Allow"] = ", ".join(METHODS)
        return response
    name = request.path.rpartition("/plugin/graph_ascend/")[2]
    path = list_files(directory).get(name)
    if path is not None:
        body = path.read_bytes()
        content_type = CONTENT_TYPES.get(path.suffix, "application/octet-stream")
    elif name == ENTRY:
        body, content_type = NOT_BUILT, JAVASCRIPT
    else:
        status = HTTPStatus.NOT_FOUND
        return respond(request, b"No such file.\n", PLAIN_TEXT, status=status, cache="no-store")
    # The build puts a hash of the content into the name of every asset.
    cache = FOREVER if name.startswith(ASSETS) else REVALIDATE
    etag = make_etag(body)
    if is_known(request, etag):
        return not_modified(etag)
    return respond(request, body, content_type, etag=etag, cache=cache)


def list_files(directory: Path) -> dict[str, Path]:
    """All that may be served, by the name a browser asks for."""
    paths = [directory / ENTRY, *(directory / ASSETS).rglob("*")]
    return {path.relative_to(directory).as_posix(): path for path in paths if path.is_file()}
