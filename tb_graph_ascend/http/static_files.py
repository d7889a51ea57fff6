"""The built front end: nothing but the files that the build has put into static/."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from pathlib import Path

from werkzeug.wrappers import Request, Response

from tb_graph_ascend.http.responses import (
    METHODS,
    REVALIDATE,
    Body,
    compressed,
    is_known,
    make_etag,
    not_modified,
    respond,
    takes_gzip,
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
        state = path.stat()
        etag, body = _packed(path, state.st_mtime_ns, state.st_size, takes_gzip(request))
        content_type = CONTENT_TYPES.get(path.suffix, "application/octet-stream")
    elif name == ENTRY:
        etag, body, content_type = make_etag(NOT_BUILT), Body(NOT_BUILT), JAVASCRIPT
    else:
        status = HTTPStatus.NOT_FOUND
        return respond(request, b"No such file.\n", PLAIN_TEXT, status=status, cache="no-store")
    # The build puts a hash of the content into the name of every asset.
    cache = FOREVER if name.startswith(ASSETS) else REVALIDATE
    if is_known(request, etag):
        return not_modified(etag)
    return respond(request, body, content_type, etag=etag, cache=cache)


@lru_cache(maxsize=8)
def _packed(path: Path, _changed: int, _size: int, is_compressed: bool) -> tuple[str, Body]:
    """Tag and body of a file: the program takes longer to compress than to send."""
    content = path.read_bytes()
    return make_etag(content), compressed(content) if is_compressed else Body(content)


def list_files(directory: Path) -> dict[str, Path]:
    """All that may be served, by the name a browser asks for."""
    paths = [directory / ENTRY, *(directory / ASSETS).rglob("*")]
    return {path.relative_to(directory).as_posix(): path for path in paths if path.is_file()}
