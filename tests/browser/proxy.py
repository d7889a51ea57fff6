"""A reverse proxy as people put one before TensorBoard: another address, TLS, a path in front."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "content-length"}


@dataclass(frozen=True)
class Proxy:
    """How it looks from outside, and what it tells the server behind it."""

    host: str = "localhost"
    certificate: Path | None = None
    """Certificate and key in one file: https."""
    passes_host: bool = True
    forwards_host: bool = False
    prefix: str = ""
    """Taken off before the request goes on."""


@contextlib.contextmanager
def running(proxy: Proxy, address: str) -> Iterator[str]:
    """Run the proxy before the server at ``address`` and yield the proxy's own address."""
    upstream = urlsplit(address).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            if not self.path.startswith(f"{proxy.prefix}/"):
                self.send_error(404)
                return
            asked = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
            own_host = asked.pop("Host")
            asked["Host"] = own_host if proxy.passes_host else upstream
            if proxy.forwards_host:
                asked["X-Forwarded-Host"] = own_host
                asked["X-Forwarded-Proto"] = "https" if proxy.certificate else "http"
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with contextlib.closing(http.client.HTTPConnection(upstream)) as behind:
                behind.request(self.command, self.path[len(proxy.prefix) :], body or None, asked)
                answer = behind.getresponse()
                content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _forward  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if proxy.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(proxy.certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{scheme}://{proxy.host}:{server.server_address[1]}{proxy.prefix}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_certificate(path: Path) -> Path:
    """A certificate that nobody has signed, and its key."""
    options = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=proxy.example")
    command = ["openssl", "req", *options, "-keyout", str(path), "-out", f"{path}.public"]
    subprocess.run(command, check=True, capture_output=True)
    with path.open("ab") as file:
        file.write(Path(f"{path}.public").read_bytes())
    return path
