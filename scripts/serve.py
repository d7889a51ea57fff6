"""Start TensorBoard on a free port and print where the tab is."""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

USUAL_PORT = 6006
PATIENCE_SECONDS = 120


@contextlib.contextmanager
def tensorboard(logdir: str, port: int | None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The tab's address and the server, once it answers or has ended."""
    port = port or free_port()
    address = f"http://localhost:{port}/"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", logdir]
    server = subprocess.Popen([*command, "--host", "localhost", "--port", str(port)])
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while server.poll() is None and not answers(address) and time.monotonic() < deadline:
            time.sleep(0.2)
        yield f"{address}#graph_ascend", server
    finally:
        server.terminate()
        server.wait()


def free_port() -> int:
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("localhost", port))
                return int(probe.getsockname()[1])
    raise RuntimeError("this machine has no free port")


def answers(address: str) -> bool:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(address, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logdir", required=True)
    parser.add_argument("--port", type=int, help="6006, or any free one, when not given")
    options = parser.parse_args()
    with (
        contextlib.suppress(KeyboardInterrupt),
        tensorboard(options.logdir, options.port) as (address, server),
    ):
        if server.poll() is None:
            print(f"\n  Open {address}   (Ctrl+C ends TensorBoard)\n", flush=True)
        return server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
