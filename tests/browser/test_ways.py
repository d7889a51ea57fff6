"""Through what really stands between people and TensorBoard: nginx, an ssh tunnel, a frame.

nginx and ssh are Debian's; where they are missing the test says so and is skipped.
"""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Frame, Page, expect

from tests.browser.viewer import SHOWS_GRAPHS, open_viewer, select_node
from tests.cases import tried_first
from tests.conftest import StartTensorBoard

DEBUG = "Module.model.layers.0.self_attention.q_proj.Linear.forward.0"
TRIES = 200  # of a connection that is refused while a server starts

NGINX = """
daemon off;
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location {path} {{
      proxy_pass http://{upstream}{target};
      proxy_set_header Host {host};
    }}
  }}
}}
"""


def find(program: str) -> str:
    """Where a program lies; ordinary users have no /usr/sbin among their paths."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        pytest.skip(f"{program} is not installed here: apt-get install nginx-light openssh-server")
    return found


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def started(command: list[str], port: int) -> Iterator[None]:
    """A program that listens at ``port`` as long as the block lasts."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for _ in range(TRIES):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            assert process.poll() is None, process.communicate()[0]
        else:
            raise AssertionError(f"{command[0]} does not listen")
        yield
    finally:
        process.terminate()
        process.communicate()


@contextlib.contextmanager
def nginx(folder: Path, upstream: str, **settings: str) -> Iterator[int]:
    """nginx before TensorBoard; its port."""
    port = free_port()
    config = folder / "nginx.conf"
    values = {"path": "/", "target": "", "host": "$http_host"} | settings
    config.write_text(
        NGINX.format(folder=folder, port=port, upstream=upstream, **values), encoding="utf-8"
    )
    with started([find("nginx"), "-p", str(folder), "-c", str(config)], port):
        yield port


def look_and_match(frame: Frame) -> None:
    """Everything that a user does, changes included."""
    select_node(frame, DEBUG)
    frame.locator("ga-details #match").click()
    frame.locator("ga-match .candidates input").first.click()
    frame.locator("ga-match #preview li").first.wait_for()
    frame.click("ga-match #apply")
    expect(frame.locator("ga-match #outcome")).to_contain_text("Done: 1 pair changed")
    frame.click("ga-match #undo")
    expect(frame.locator("ga-node-summary .grade")).to_have_text("Unmatched")


# Options of TensorBoard, settings of nginx.
WAYS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "at the root": ((), {}),
    "prefix of TensorBoard": (("--path_prefix", "/team/board"), {"path": "/team/board/"}),
    "prefix taken off": ((), {"path": "/team/board/", "target": "/"}),
}


@pytest.mark.parametrize("way", tried_first(WAYS))
def test_behind_nginx(
    way: str,
    page: Page,
    tmp_path: Path,
    renamed_database: Path,
    tensorboard_server: StartTensorBoard,
) -> None:
    options, settings = WAYS[way]
    upstream = urlsplit(tensorboard_server(renamed_database.parent, *options)).netloc
    with nginx(tmp_path, upstream, **settings) as port:
        path = settings.get("path", "/")
        look_and_match(open_viewer(page, f"http://localhost:{port}{path}", in_tab=True))


@pytest.mark.slow
def test_nginx_that_drops_the_port_is_told_so(
    page: Page,
    expected_complaints: list[str],
    tmp_path: Path,
    renamed_database: Path,
    tensorboard_server: StartTensorBoard,
) -> None:
    """As many configurations have it. Without TLS the browser does not say whose the page is."""
    expected_complaints.append("graph_ascend/match")
    upstream = urlsplit(tensorboard_server(renamed_database.parent)).netloc
    before = renamed_database.read_bytes()
    with nginx(tmp_path, upstream, host="$host") as port:
        frame = open_viewer(page, f"http://devbox.example:{port}/", in_tab=True)
        select_node(frame, DEBUG)
        frame.locator("ga-details #match").click()
        frame.locator("ga-match .candidates input").first.click()
        expect(frame.locator("ga-match #outcome")).to_contain_text("Host $http_host;")
    assert renamed_database.read_bytes() == before


@contextlib.contextmanager
def ssh_tunnel(folder: Path, upstream: str) -> Iterator[int]:
    """``ssh -L PORT:…`` to an sshd of our own with keys that end with the test; the port."""
    sshd, ssh, keygen = find("sshd"), find("ssh"), find("ssh-keygen")
    folder.chmod(0o700)
    for name in ("host", "user"):
        key = str(folder / name)
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "user.pub").rename(folder / "authorized")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd refuses to start without
    door, port = free_port(), free_port()
    config = folder / "sshd"
    config.write_text(
        f"Port {door}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nPasswordAuthentication no\nUsePAM no\n"
        "PermitRootLogin prohibit-password\nStrictModes no\n",
        encoding="utf-8",
    )
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes")
    command = [ssh, "-F", "none", "-N", "-i", str(folder / "user"), "-p", str(door)]
    command += [part for option in options for part in ("-o", option)]
    command += ["-o", "ExitOnForwardFailure=yes", "-L", f"{port}:{upstream}"]
    with (
        started([sshd, "-D", "-e", "-f", str(config)], door),
        started([*command, f"{getpass.getuser()}@127.0.0.1"], port),
    ):
        yield port


@pytest.mark.slow
def test_through_an_ssh_tunnel(
    page: Page, tmp_path: Path, renamed_database: Path, tensorboard_server: StartTensorBoard
) -> None:
    upstream = urlsplit(tensorboard_server(renamed_database.parent)).netloc
    with ssh_tunnel(tmp_path, upstream) as port:
        look_and_match(open_viewer(page, f"http://localhost:{port}/", in_tab=True))


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_inside_a_frame_of_another_origin(
    page: Page,
    expected_complaints: list[str],
    tmp_path: Path,
    renamed_database: Path,
    tensorboard_server: StartTensorBoard,
) -> None:
    """As in VS Code, whose webview has an origin of its own around the forwarded port."""
    expected_complaints += ["favicon.ico", "request to another host: localhost"]
    address = tensorboard_server(renamed_database.parent)
    (tmp_path / "index.html").write_text(
        f'<iframe id="board" src="{address}#graph_ascend" style="width:1400px;height:800px"'
        ' sandbox="allow-scripts allow-same-origin allow-forms allow-downloads"></iframe>',
        encoding="utf-8",
    )
    handler = functools.partial(Quiet, directory=str(tmp_path))
    around = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=around.serve_forever)
    thread.start()
    try:
        # Of the same site: TensorBoard itself does not start where it may store nothing.
        page.goto(f"http://localhost:{around.server_address[1]}/")
        outer = page.frame_locator("#board")
        outer.locator("iframe").wait_for()
        board = outer.locator("iframe").element_handle()
        assert board is not None
        frame = board.content_frame()
        assert frame is not None
        frame.wait_for_function(SHOWS_GRAPHS)
        look_and_match(frame)
    finally:
        around.shutdown()
        thread.join()
        around.server_close()
