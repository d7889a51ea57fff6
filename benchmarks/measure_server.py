"""How fast the plugin answers about one database, and how much travels.

The database is best a large one of generate_database.py. Times are of the plugin alone, without
the network; compare them with each other and with the time to read the file.
"""

import argparse
import gzip
import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client, TestResponse

from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.plugin import GraphAscendPlugin

REPEATS = 5
NODES = 500


def ask(apps: dict[str, Callable[..., Any]], route: str, **query: object) -> TestResponse:
    headers = {"Accept-Encoding": "gzip"}
    return Client(apps["/" + route]).get("/" + route, query_string=query, headers=headers)


def measure(action: Callable[[], TestResponse], times: int) -> tuple[list[float], TestResponse]:
    """Seconds of each of ``times`` calls, sorted, and the last answer."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        answer = action()
        seconds.append(time.perf_counter() - start)
    if answer.status_code != 200:
        raise SystemExit(f"answered {answer.status}: {answer.data!r}")
    return sorted(seconds), answer


def report(name: str, seconds: list[float], answer: TestResponse) -> None:
    size, unpacked = len(answer.data), len(content(answer))
    p95 = seconds[int(0.95 * (len(seconds) - 1))]
    print(
        f"{name:20} median {statistics.median(seconds) * 1000:7.1f} ms   p95 {p95 * 1000:7.1f} ms"
        f"   {size / 1e6:8.3f} MB sent of {unpacked / 1e6:8.3f} MB"
    )


def content(answer: TestResponse) -> bytes:
    return gzip.decompress(answer.data) if answer.content_encoding else answer.data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("database", type=Path)
    path: Path = parser.parse_args().database
    apps = GraphAscendPlugin(TBContext(logdir=str(path.parent))).get_plugin_apps()
    start = time.perf_counter()
    read = len(path.read_bytes())
    print(
        f"{'reading the file':20} {(time.perf_counter() - start) * 1000:14.1f} ms   {read / 1e6} MB"
    )
    seconds, answer = measure(partial(ask, apps, "catalog"), REPEATS)
    report("catalog", seconds, answer)
    files = {file.file: file for file in pb.Catalog.FromString(content(answer)).files}
    graph = files[path.name].graphs[0]
    place: dict[str, object] = {"file": path.name, "step": graph.step, "rank": graph.rank}
    for side in ("npu", "bench"):
        seconds, answer = measure(partial(ask, apps, "skeleton", **place, side=side), REPEATS)
        report(f"skeleton {side}", seconds, answer)
    indices = itertools.count(0, max(1, graph.npu_nodes // NODES))
    seconds, answer = measure(
        lambda: ask(apps, "node", **place, side="npu", index=next(indices)), NODES
    )
    report(f"node ({NODES} of them)", seconds, answer)


if __name__ == "__main__":
    main()
