"""Servers of TensorBoard that tests ask.

``python -m tests.serving`` starts many quickly: it has imported TensorBoard and the plugin, which
is most of a start, and copies itself for each line it reads, the arguments of a server as JSON.
The servers end with it, and it ends with its input.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO

START_SECONDS = 120
StartServer = Callable[..., str]
_ENDED = "A server has ended"


@contextlib.contextmanager
def run_tensorboard(command: Sequence[str]) -> Iterator[str]:
    """Run a TensorBoard command on a free port and yield the address it prints."""
    with _listening([*command, *_anywhere(command)]) as (_, next_address):
        yield next_address()


@contextlib.contextmanager
def many_tensorboards() -> Iterator[StartServer]:
    """start(*arguments) is the address of a new server; all end with this context."""
    with _listening([sys.executable, "-m", "tests.serving"]) as (asked, next_address):

        def start(*arguments: str) -> str:
            asked.write(json.dumps([*arguments, *_anywhere(arguments)]) + "\n")
            asked.flush()
            return next_address()

        yield start


def _anywhere(arguments: Sequence[str]) -> tuple[str, ...]:
    host = () if "--bind_all" in arguments else ("--host", "localhost")
    return (*host, "--port", "0")


@contextlib.contextmanager
def _listening(command: Sequence[str]) -> Iterator[tuple[IO[str], Callable[[], str]]]:
    """The input of a running command, and what waits for the next address that it prints."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    output = process.stdout
    lines: list[str] = []
    addresses: queue.Queue[str | None] = queue.Queue()

    def listen() -> None:
        for line in output:
            lines.append(line)
            if found := re.search(r"at (http://\S+)", line):
                addresses.put(found[1].rstrip("/") + "/")
            elif line.startswith(_ENDED):
                addresses.put(None)
        addresses.put(None)

    def next_address() -> str:
        address = addresses.get(timeout=START_SECONDS)
        assert address is not None, "TensorBoard did not start:\n" + "".join(lines)
        return address

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield process.stdin, next_address
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=START_SECONDS)
        process.stdin.close()
        listener.join()


def _serve() -> None:
    from tensorboard import assets, main
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.core import core_plugin

    import tb_graph_ascend.plugin  # noqa: F401 - before it is copied

    # Each start packs the hundred files of TensorBoard's own page: once is enough.
    core_plugin._gzip = functools.cache(core_plugin._gzip)
    files = assets.get_default_assets_zip_provider()
    core_plugin.CorePlugin(TBContext(assets_zip_provider=files)).get_plugin_apps()

    for line in sys.stdin:
        if os.fork() == 0:
            sys.argv = ["tensorboard", *json.loads(line)]
            try:
                sys.exit(main.run_main())
            finally:
                print(_ENDED, flush=True)
    os.killpg(0, signal.SIGTERM)


if __name__ == "__main__":
    _serve()
