"""Requests that no client library sends, over a real socket: refused without a traceback."""

from __future__ import annotations

import socket
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.serving import make_server

from tb_graph_ascend.limits import MAX_BODY
from tb_graph_ascend.plugin import GraphAscendPlugin
from tests.plugin.conftest import EXAMPLE, PREFIX

Send = Callable[[bytes], bytes]
HEAD = (
    f"POST {PREFIX}undo?format=json HTTP/1.1\r\nHost: localhost\r\n"
    "Content-Type: application/json\r\nConnection: close\r\n"
).encode()
BODY = b'{"file": "%s", "revision": "another", "dryRun": true}' % EXAMPLE.encode()


@pytest.fixture
def send(logdir: Path) -> Iterator[Send]:
    """Send bytes, close our half of the connection, and take what comes back."""
    app = GraphAscendPlugin(TBContext(logdir=str(logdir), flags=Namespace())).get_plugin_apps()
    server = make_server("127.0.0.1", 0, app["/undo"], threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def send(content: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            try:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # answered and closed before all was sent
            answer = b""
            try:
                while piece := connection.recv(1 << 16):
                    answer += piece
            except ConnectionResetError:
                pass
            return answer

    yield send
    server.shutdown()
    thread.join()
    server.server_close()


def chunked(*chunks: bytes) -> bytes:
    pieces = (b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(pieces)


def lengthed(length: int, body: bytes) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % length + body


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_a_whole_request_of_either_form_is_answered(send: Send) -> None:
    for request in (chunked(BODY, b""), lengthed(len(BODY), BODY)):
        answer = send(request)
        assert status_of(answer) == 409, answer
        assert b"changed_meanwhile" in answer


def test_a_chunked_body_beyond_the_limit_is_refused_not_cut(send: Send) -> None:
    """Spaces behind a message are part of it; cut off at the limit it would be processed."""
    answer = send(chunked(BODY, *[b" " * 65536] * (MAX_BODY // 65536 + 1), b""))
    assert b"changed_meanwhile" not in answer
    assert not answer or status_of(answer) == 413


@pytest.mark.parametrize(
    "request_bytes",
    [
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}",
        lengthed(1000, BODY),
    ],
    ids=["bad chunk header", "short chunk", "short body"],
)
def test_a_broken_body_is_refused(
    send: Send, request_bytes: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = send(request_bytes)
    assert not answer or status_of(answer) == 400
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]
