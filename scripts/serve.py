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

USUAL_PORT = 6006
PATIENCE_SECONDS = 120


def free_port() -> int:
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("localhost", port))
                return int(probe.getsockname()[1])
    raise RuntimeError("this machine has no free port")


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logdir", required=True)
    parser.add_argument("--port", type=int, help="6006, or any free one, when not given")
    options = parser.parse_args()
    port = options.port or free_port()
    address = f"http://localhost:{port}/"
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", options.logdir]
    server = subprocess.Popen([*command, "--host", "localhost", "--port", str(port)])
    try:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while server.poll() is None and not answers(address) and time.monotonic() < deadline:
            time.sleep(0.2)
        if server.poll() is None:
            print(f"\n  Open {address}#graph_ascend   (Ctrl+C ends TensorBoard)\n", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        return server.wait()
    finally:
        server.terminate()


if __name__ == "__main__":
    sys.exit(main())
